// Ops that move elements on a GPU: a copy between strided views for each part (moves.h).

#include <cstring>
#include <memory>
#include <utility>

#include "core/base/status.h"
#include "gpu/cuda_stream.h"
#include "gpu/item_kernel.h"
#include "gpu/moves.h"
#include "gpu/register_kernels.h"

namespace formwork {
namespace {

absl::Status FillWith(const Tensor& value, Tensor& out, cudaStream_t stream) {
  static auto* const kernels = new UnitKernels("FillItem<", ">");
  const size_t bytes = DTypeSize(out.dtype());
  return WithUnit(bytes, [&](auto e) {
    using E = decltype(e);
    const formwork_element::FillItem<E> item{static_cast<const E*>(value.raw()),
                                             static_cast<E*>(out.mutable_raw())};
    return kernels->Of(bytes).Enqueue(item, static_cast<uint64_t>(out.num_elements()), {}, stream);
  });
}

// The same with the element that `value` begins with.
absl::Status FillWith(const formwork_element::Bytes16& value, Tensor& out, cudaStream_t stream) {
  static auto* const kernels = new UnitKernels("SetItem<", ">");
  const size_t bytes = DTypeSize(out.dtype());
  return WithUnit(bytes, [&](auto e) {
    formwork_element::SetItem<decltype(e)> item{};
    std::memcpy(&item.value, &value, bytes);
    item.to = static_cast<decltype(e)*>(out.mutable_raw());
    return kernels->Of(bytes).Enqueue(item, static_cast<uint64_t>(out.num_elements()), {}, stream);
  });
}

absl::StatusOr<KernelFn> MakeMoves(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(MovePlanner made, MakeMovePlanner(init));
  auto planner = std::make_unique<const MovePlanner>(std::move(made));
  return KernelFn([planner = std::move(planner)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const MovePlan plan, (*planner)(ctx));
    const cudaStream_t stream = CudaStreamOf(StreamOf(ctx));
    if (plan.fill != MovePlan::Fill::kNone) {
      Tensor out = OutputOf(ctx, 0);
      if (plan.fill == MovePlan::Fill::kZeros) {
        FORMWORK_RETURN_IF_ERROR(EnqueueZeros(out, stream));
      } else if (out.bytes() > 0 && plan.fill == MovePlan::Fill::kValue) {
        FORMWORK_RETURN_IF_ERROR(FillWith(plan.fill_value, out, stream));
      } else if (out.bytes() > 0) {
        FORMWORK_RETURN_IF_ERROR(FillWith(ctx.input(plan.fill_input), out, stream));
      }
    }
    for (const Move& move : plan.moves) {
      Tensor out = OutputOf(ctx, move.output);
      FORMWORK_ASSIGN_OR_RETURN(const UnitCopy copy, UnitCopyOf(move, DTypeSize(out.dtype())));
      FORMWORK_RETURN_IF_ERROR(
          EnqueueUnitCopy(copy, ctx.input(move.input).raw(), out.mutable_raw(), {}, stream));
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterMoveKernels(KernelRegistry& registry) {
  for (const absl::string_view op : MovingOps()) registry.Add(op, &MakeMoves);
}

}  // namespace formwork
