// EditDistance: Levenshtein's distance of the sequences along the last dimension of two sparse
// tensors.

#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/sparse/sparse_cpu.h"
#include "core/ops/dims.h"
#include "core/ops/sparse.h"

namespace formwork {
namespace {

// The sequences of a sparse tensor, in its order.
struct Sequences {
  const int64_t* indices;
  int64_t entries;
  int64_t rank;
  int64_t at = 0;

  bool done() const { return at == entries; }
  // The dimensions but the last, of entry `i`.
  absl::Span<const int64_t> GroupAt(int64_t i) const {
    return absl::MakeConstSpan(indices + i * rank, static_cast<size_t>(rank) - 1);
  }
  absl::Span<const int64_t> group() const { return GroupAt(at); }
  // The end of the group that begins at `at`.
  int64_t GroupEnd() const {
    int64_t end = at + 1;
    while (end < entries && GroupAt(end) == group()) ++end;
    return end;
  }
};

// A few rows of the table of distances at a time. `equal(i, j)` compares elements.
template <typename T>
bool AreSame(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
    return static_cast<float>(a) == static_cast<float>(b);
  } else {
    return a == b;
  }
}

template <typename T>
int64_t Distance(absl::Span<const T> a, absl::Span<const T> b) {
  std::vector<int64_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int64_t>(j);
  for (size_t i = 0; i < a.size(); ++i) {
    if (WorkIsCut()) break;
    int64_t corner = row[0];
    row[0] = static_cast<int64_t>(i) + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      if (WorkIsCutAt(static_cast<int64_t>(j))) break;
      const int64_t replaced = corner + (AreSame(a[i], b[j]) ? 0 : 1);
      corner = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, corner + 1});
    }
  }
  return row.back();
}

// Where a group's distance goes. Errors: kInvalidArgument (of TensorFlow kInternal) if it is not in
// the output.
absl::StatusOr<int64_t> PlaceOf(absl::Span<const int64_t> group, const Tensor& out,
                                const Dims& strides) {
  int64_t place = 0;
  for (size_t d = 0; d < group.size(); ++d) {
    if (group[d] < 0 || group[d] >= out.dim(static_cast<int>(d))) {
      return InvalidArgument("Got an inner index ", IndexText(group),
                             ", which is out of the output's shape ", out.shape().ToString());
    }
    place += group[d] * strides[d];
  }
  return place;
}

template <typename T>
absl::Status Distances(KernelContext& ctx, bool normalize, Tensor& out) {
  Sequences hypothesis = {ctx.input(0).data<int64_t>(), ctx.input(0).dim(0), ctx.input(0).dim(1)};
  Sequences truth = {ctx.input(3).data<int64_t>(), ctx.input(3).dim(0), ctx.input(3).dim(1)};
  const absl::Span<const T> said = ctx.input(1).span<T>();
  const absl::Span<const T> meant = ctx.input(4).span<T>();
  const Dims strides = RowMajorStrides(out.shape());
  while (!hypothesis.done() || !truth.done()) {
    if (WorkIsCutAt(hypothesis.at + truth.at, kDearItems)) return WorkStatus();
    const bool has_truth =
        !truth.done() && (hypothesis.done() || !(hypothesis.group() < truth.group()));
    const bool has_said =
        !hypothesis.done() && (truth.done() || !(truth.group() < hypothesis.group()));
    FORMWORK_ASSIGN_OR_RETURN(
        const int64_t place, PlaceOf(has_truth ? truth.group() : hypothesis.group(), out, strides));
    absl::Span<const T> a, b;
    if (has_truth) {
      const int64_t end = truth.GroupEnd();
      a = meant.subspan(static_cast<size_t>(truth.at), static_cast<size_t>(end - truth.at));
      truth.at = end;
    }
    if (has_said) {
      const int64_t end = hypothesis.GroupEnd();
      b = said.subspan(static_cast<size_t>(hypothesis.at),
                       static_cast<size_t>(end - hypothesis.at));
      hypothesis.at = end;
    }
    float distance = static_cast<float>(Distance<T>(a, b));
    if (normalize) {
      distance = a.empty() ? std::numeric_limits<float>::infinity()
                           : distance / static_cast<float>(a.size());
    }
    out.mutable_data<float>()[place] = distance;
  }
  return WorkStatus();
}

absl::Status CheckParts(KernelContext& ctx, int first) {
  return CheckSparse({ctx.input(first).shape().dims(), ctx.input(first + 1).shape().dims(),
                      ctx.input(first + 2).shape().dims()});
}

absl::StatusOr<KernelFn> MakeEditDistance(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool normalize, init.attrs().Get<bool>("normalize"));
  return KernelFn([normalize](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckParts(ctx, 0));
    FORMWORK_RETURN_IF_ERROR(CheckParts(ctx, 3));
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareEditDistance(ctx.input(2), ctx.input(5)));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), DType::kFloat, shape));
    ZeroElements(out);
    const auto run = [&]() -> absl::Status {
      switch (ctx.input(1).dtype()) {
        FORMWORK_INTEGER_CASES(return Distances<T>(ctx, normalize, out))
        FORMWORK_CASE(bool, return Distances<T>(ctx, normalize, out))
        FORMWORK_FLOAT_CASES(return Distances<T>(ctx, normalize, out))
        FORMWORK_COMPLEX_CASES(return Distances<T>(ctx, normalize, out))
        FORMWORK_CASE(std::string, return Distances<T>(ctx, normalize, out))
        default:
          return Unimplemented("EditDistance: dtype ", DTypeName(ctx.input(1).dtype()),
                               " is not supported");
      }
    };
    FORMWORK_RETURN_IF_ERROR(run());
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

}  // namespace

void AddEditDistanceCpuKernel(KernelRegistry& registry) {
  registry.Add("EditDistance", MakeEditDistance);
}

}  // namespace formwork
