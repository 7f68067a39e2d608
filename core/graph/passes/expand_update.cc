#include "core/graph/passes/expand_update.h"

#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "core/graph/passes/made_nodes.h"
#include "core/kernels/elementwise/elementwise_blocks.h"

namespace formwork {
namespace {

bool IsElementwise(const Node& node, const std::vector<Node>& nodes) {
  if (node.kind != NodeKind::kOp || node.output_dtypes.size() != 1) return false;
  absl::InlinedVector<DType, 3> dtypes;
  for (const Edge& edge : node.inputs) {
    dtypes.push_back(nodes[edge.node].output_dtypes[edge.index]);
  }
  return FindBlockOp(node.op->name, dtypes, node.output_dtypes[0]) != nullptr;
}

}  // namespace

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
      !IsElementwise(nodes[delta.node], nodes) ||
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
