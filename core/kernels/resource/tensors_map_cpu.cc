// Maps of sparse tensors: what goes in is given a number, by which it is taken out.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/resource/handle.h"
#include "core/kernels/resource/state_change.h"
#include "core/kernels/variant/tensor_part.h"
#include "core/ops/staging.h"

namespace formwork {
namespace {

constexpr int64_t kParts = 3;  // Of a sparse tensor.

struct Row {
  Variant parts[kParts];
  size_t bytes = 0;
};

// Changed in place by who alone has it, else in a copy.
struct TensorsMap : VariantObject {
  absl::string_view type_name() const override { return "map of sparse tensors"; }

  std::map<int64_t, Row> rows;
  int64_t next = 0;
  size_t bytes = sizeof(TensorsMap);
};

absl::StatusOr<OpenState> Open(KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(OpenState opened,
                            OpenStateOf(ctx, IsOf<kTensorsMapKind>, "a map of sparse tensors"));
  if (!opened.state.has_value()) {
    opened.state = Tensor::VariantScalar(std::make_shared<TensorsMap>());
  }
  return opened;
}

const TensorsMap& MapOf(const Tensor& state) {
  return static_cast<const TensorsMap&>(*state.scalar<Variant>());
}

// The row at `parts`, and about what it takes.
Row RowOf(const Variant* parts) {
  Row row;
  row.bytes = sizeof(Row) + 64;
  for (int64_t k = 0; k < kParts; ++k) {
    row.parts[k] = parts[k];
    const auto* const part = dynamic_cast<const TensorPart*>(parts[k].get());
    if (part != nullptr) row.bytes += part->tensor.bytes();
  }
  return row;
}

// A row of three, or a matrix of these.
absl::StatusOr<KernelFn> MakeAdd(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(OpenState opened, Open(ctx));
    const Tensor& rows = ctx.input(1);
    const bool one = rows.rank() == 1;
    if ((!one && rows.rank() != 2) || rows.dim(rows.rank() - 1) != kParts) {
      return InvalidArgument("rows must be of three parts each: shape=", rows.shape().ToString());
    }
    const int64_t count = one ? 1 : rows.dim(0);
    FORMWORK_ASSIGN_OR_RETURN(Tensor * numbers,
                              ctx.AllocateOutput(0, DType::kInt64, one ? Shape() : Shape({count})));
    std::map<int64_t, Row> added;
    size_t bytes = MapOf(opened.state).bytes;
    for (int64_t i = 0; i < count; ++i) {
      if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
      const int64_t number = MapOf(opened.state).next + i;
      const Row& row =
          added.emplace(number, RowOf(rows.data<Variant>() + i * kParts)).first->second;
      bytes += row.bytes;
      numbers->mutable_data<int64_t>()[i] = number;
    }
    return ChangeState<TensorsMap>(
        ctx, opened.handle, std::move(opened.state), bytes, [](TensorsMap&) {},
        [&](TensorsMap& map) {
          map.rows.merge(added);
          map.next += count;
          map.bytes = bytes;
        });
  });
}

absl::StatusOr<KernelFn> MakeTake(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(OpenState opened, Open(ctx));
    const Tensor numbers = ctx.input(1);
    if (numbers.rank() != 1) {
      return InvalidArgument("sparse_handles should be a vector but received shape ",
                             numbers.shape().ToString());
    }
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({numbers.dim(0), kParts}));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * rows, ctx.AllocateOutput(0, DType::kVariant, shape));
    const std::map<int64_t, Row>& all = MapOf(opened.state).rows;
    std::set<int64_t> taken;
    size_t bytes = MapOf(opened.state).bytes;
    for (int64_t i = 0; i < numbers.dim(0); ++i) {
      if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
      const int64_t number = numbers.data<int64_t>()[i];
      const auto found = all.find(number);
      if (found == all.end() || !taken.insert(number).second) {
        return InvalidArgument("Unable to find SparseTensor: ", number);
      }
      std::copy(found->second.parts, found->second.parts + kParts,
                rows->mutable_data<Variant>() + i * kParts);
      bytes -= found->second.bytes;
    }
    if (taken.empty()) return absl::OkStatus();
    return ChangeState<TensorsMap>(
        ctx, opened.handle, std::move(opened.state), bytes, [](TensorsMap&) {},
        [&](TensorsMap& map) {
          for (int64_t number : taken) map.rows.erase(number);
          map.bytes = bytes;
        });
  });
}

}  // namespace

void RegisterTensorsMapCpuKernels(KernelRegistry& registry) {
  registry.Add("_AddToTensorsMap", MakeAdd);
  registry.Add("_AddManyToTensorsMap", MakeAdd);
  registry.Add("_TakeFromTensorsMap", MakeTake);
}

}  // namespace formwork
