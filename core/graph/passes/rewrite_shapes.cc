#include "core/graph/passes/rewrite_shapes.h"

#include "absl/algorithm/container.h"
#include "absl/strings/string_view.h"

namespace formwork {
namespace {

const PartialShape& ShapeOf(Edge edge, const std::vector<Node>& nodes) {
  return nodes[edge.node].output_shapes[edge.index];
}

}  // namespace

bool Reshapes(const Node& node) {
  constexpr absl::string_view kOps[] = {"Reshape", "ExpandDims", "Squeeze", "EnsureShape"};
  return node.kind == NodeKind::kOp && absl::c_linear_search(kOps, node.op->name);
}

std::optional<Edge> SameAsInput(const Node& node, const std::vector<Node>& nodes) {
  if (!Reshapes(node) && node.op->name != "Tile" && node.op->name != "BroadcastTo") {
    return std::nullopt;
  }
  const PartialShape& shape = node.output_shapes[0];
  if (!shape.ToShape() || shape != ShapeOf(node.inputs[0], nodes)) return std::nullopt;
  return node.inputs[0];
}

void ReadUnshaped(Node& node, const std::vector<Node>& nodes) {
  if (node.op->name != "Reshape") return;
  const Node& before = nodes[node.inputs[0].node];
  if (!Reshapes(before) || !before.output_shapes[0].ToShape() ||
      !ShapeOf(before.inputs[0], nodes).ToShape()) {
    return;
  }
  node.inputs[0] = before.inputs[0];
}

}  // namespace formwork
