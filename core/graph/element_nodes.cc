#include "core/graph/element_nodes.h"

#include "absl/container/inlined_vector.h"

namespace formwork {

const BlockOp* TableOp(const std::vector<Node>& nodes, const Node& node) {
  if (node.kind != NodeKind::kOp || node.op->effect != Effect::kNone ||
      node.output_dtypes.size() != 1 || node.attrs->GetOr<bool>("Truncate", false)) {
    return nullptr;
  }
  absl::InlinedVector<DType, 3> dtypes;
  for (const Edge& edge : node.inputs) {
    dtypes.push_back(nodes[edge.node].output_dtypes[edge.index]);
  }
  return FindBlockOp(node.op->name, dtypes, node.output_dtypes[0]);
}

const BlockOp* FusableOp(const std::vector<Node>& nodes, const Node& node) {
  const BlockOp* op = TableOp(nodes, node);
  // Select of rank-1 conditions and comparisons that tolerate any shapes do not broadcast.
  if (op == nullptr || op->refuses != Refusal::kNone || node.op->name == "Select" ||
      !node.attrs->GetOr<bool>("incompatible_shape_error", true)) {
    return nullptr;
  }
  return op;
}

}  // namespace formwork
