#include "core/graph/passes/expand_update.h"

#include <optional>
#include <utility>

#include "core/graph/element_nodes.h"
#include "core/graph/passes/made_nodes.h"

namespace formwork {

void ExpandUpdate(Node& node, std::vector<Node>& nodes, StateValues& state, const OpRegistry& ops,
                  int64_t fewest_elements) {
  const bool add = node.op->name == "AssignAddVariableOp";
  if (!add && node.op->name != "AssignSubVariableOp") return;
  const Edge handle = node.inputs[0];
  const Edge delta = node.inputs[1];
  const DType dtype = nodes[delta.node].output_dtypes[delta.index];
  const PartialShape shape = nodes[delta.node].output_shapes[delta.index];
  const std::optional<Shape> known = shape.ToShape();
  const char* const op = add ? "AddV2" : "Sub";
  if (!known || known->num_elements() < fewest_elements ||
      TableOp(nodes, nodes[delta.node]) == nullptr ||
      nodes[handle.node].output_shapes[handle.index] != shape ||
      FindBlockOp(op, {dtype, dtype}, dtype) == nullptr) {
    return;
  }
  Edge value;
  Node load = MadeNode(node.name, ops.Find("ReadVariableOp"), "dtype", dtype, {handle}, shape);
  if (const std::optional<Edge> before = state.Known(load)) {
    value = *before;
  } else {
    value = Append(std::move(load), nodes);
    state.Note(nodes.back(), value.node);
  }
  const Edge sum =
      Append(MadeNode(node.name, ops.Find(op), "T", dtype, {value, delta}, shape), nodes);
  node = MadeNode(node.name, ops.Find("AssignVariableOp"), "dtype", dtype, {handle, sum}, {});
}

}  // namespace formwork
