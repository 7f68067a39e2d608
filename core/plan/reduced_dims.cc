#include "core/plan/reduced_dims.h"

#include "core/kernels/reduction/reduced_program.h"
#include "core/ops/reduction.h"

namespace formwork {
namespace {

// A size that may be unknown: then it is taken to be large.
int64_t Times(int64_t size, int64_t dim) {
  return dim < 0 || size >= ReducedProgram::kFewElements ? ReducedProgram::kFewElements
                                                         : size * dim;
}

}  // namespace

const Tensor* ConstantAxes(const Graph& graph, const Node& node) {
  if (node.kind != NodeKind::kOp || node.inputs.size() != 2) return nullptr;
  const Node& axes = graph.nodes[node.inputs[1].node];
  if (axes.kind != NodeKind::kConstant ||
      FindReductionLoops(node.op->name, graph.dtype(node.inputs[0])) == nullptr) {
    return nullptr;
  }
  const PartialShape& shape = graph.shape(node.inputs[0]);
  const bool fits = !shape.known_rank() || PrepareReduction({}, shape.dims(), axes.constant).ok();
  return fits ? &axes.constant : nullptr;
}

int TrailingDimsReduced(const Graph& graph, const Node& node) {
  const Tensor* const axes = ConstantAxes(graph, node);
  if (axes == nullptr) return 0;
  const PartialShape& shape = graph.shape(node.inputs[0]);
  if (!shape.known_rank()) {
    // Axes from the end alone: the last ones without a gap.
    if (axes->dtype() != DType::kInt32) return 0;
    const int64_t count = axes->num_elements();
    for (const int32_t axis : axes->span<int32_t>()) {
      if (axis >= 0 || axis < -count) return 0;
    }
    return static_cast<int>(count);
  }
  const absl::Span<const int64_t> dims = shape.dims();
  const absl::StatusOr<ReductionGeometry> geometry = PrepareReduction({}, dims, *axes);
  if (!geometry.ok()) return 0;
  int trailing = 0;
  int64_t kept = 1, row = 1;
  for (int i = static_cast<int>(dims.size()) - 1; i >= 0; --i) {
    if (dims[i] == 1) continue;
    if (!geometry->reduced[i]) {
      kept = Times(kept, dims[i]);
    } else if (kept != 1) {
      return 0;
    } else {
      row = Times(row, dims[i]);
      trailing = static_cast<int>(dims.size()) - i;
    }
  }
  const bool few =
      row < ReducedProgram::kFewInRow || Times(kept, row) < ReducedProgram::kFewElements;
  return few ? 0 : trailing;
}

}  // namespace formwork
