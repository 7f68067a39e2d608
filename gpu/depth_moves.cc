// Blocks of space that become depth, and back, and diagonals, as copies between strided views.

#include <array>
#include <utility>

#include "core/base/status.h"
#include "core/ops/blocks.h"
#include "core/ops/diagonal.h"
#include "gpu/moves.h"

namespace formwork {
namespace {

// Between space, whose depth is `depth`, and what has h times w blocks of it: there depth is (block
// row, block column, depth of space) from the outside in.
CopyDims DepthDims(const DepthAttrs& attrs, bool to_depth, int64_t n, int64_t h, int64_t w,
                   int64_t depth) {
  using Six = std::array<int64_t, 6>;
  const int64_t b = attrs.block, wide = w * b, tall = h * b;
  // Of n, h, block row, w, block column and depth; strides of each on both sides.
  const Six sizes = {n, h, b, w, b, depth};
  const Six space =
      attrs.channels_first
          ? Six{depth * tall * wide, b * wide, wide, b, 1, tall * wide}
          : Six{tall * wide * depth, b * wide * depth, wide * depth, b * depth, depth, 1};
  const Six deep =
      attrs.channels_first
          ? Six{b * b * depth * h * w, w, b * depth * h * w, 1, depth * h * w, h * w}
          : Six{h * w * b * b * depth, w * b * b * depth, b * depth, b * b * depth, depth, 1};
  // In the order that the output lies in.
  constexpr std::array<size_t, 6> kSpaceLast = {0, 1, 2, 3, 4, 5}, kSpaceFirst = {0, 5, 1, 2, 3, 4},
                                  kDepthLast = {0, 1, 3, 2, 4, 5}, kDepthFirst = {0, 2, 4, 5, 1, 3};
  const std::array<size_t, 6>& order = to_depth ? (attrs.channels_first ? kDepthFirst : kDepthLast)
                                                : (attrs.channels_first ? kSpaceFirst : kSpaceLast);
  CopyDims dims;
  for (const size_t d : order) {
    dims.push_back({sizes[d], to_depth ? space[d] : deep[d], to_depth ? deep[d] : space[d]});
  }
  return dims;
}

absl::StatusOr<MovePlan> OneMove(const Dims& output, CopyDims dims) {
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(output));
  MovePlan plan;
  if (shape.num_elements() > 0) plan.moves.push_back({0, 0, 0, 0, std::move(dims)});
  plan.outputs.push_back(std::move(shape));
  return plan;
}

}  // namespace

absl::StatusOr<MovePlanner> PlanSpaceToDepth(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DepthAttrs attrs, DepthAttrs::FromAttrs(init.attrs()));
  return MovePlanner([attrs](KernelContext& ctx) -> absl::StatusOr<MovePlan> {
    const Shape& x = ctx.input(0).shape();
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareSpaceToDepth(attrs, x.dims()));
    return OneMove(dims, DepthDims(attrs, /*to_depth=*/true, x.dim(0), dims[attrs.rows()],
                                   dims[attrs.cols()], x.dim(attrs.channels())));
  });
}

absl::StatusOr<MovePlanner> PlanDepthToSpace(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DepthAttrs attrs, DepthAttrs::FromAttrs(init.attrs()));
  return MovePlanner([attrs](KernelContext& ctx) -> absl::StatusOr<MovePlan> {
    const Shape& x = ctx.input(0).shape();
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareDepthToSpace(attrs, x.dims()));
    return OneMove(dims, DepthDims(attrs, /*to_depth=*/false, x.dim(0), x.dim(attrs.rows()),
                                   x.dim(attrs.cols()), dims[attrs.channels()]));
  });
}

absl::StatusOr<MovePlanner> PlanDiag(KernelInit&) {
  return MovePlanner([](KernelContext& ctx) -> absl::StatusOr<MovePlan> {
    const Shape& x = ctx.input(0).shape();
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareDiag(x.dims()));
    const int64_t n = x.num_elements();
    FORMWORK_ASSIGN_OR_RETURN(MovePlan plan, OneMove(dims, {{n, 1, n + 1}}));
    plan.fill = MovePlan::Fill::kZeros;
    return plan;
  });
}

absl::StatusOr<MovePlanner> PlanDiagPart(KernelInit&) {
  return MovePlanner([](KernelContext& ctx) -> absl::StatusOr<MovePlan> {
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareDiagPart(ctx.input(0).shape().dims()));
    const int64_t n = Shape::Trusted(dims).num_elements();
    return OneMove(dims, {{n, n + 1, 1}});
  });
}

}  // namespace formwork
