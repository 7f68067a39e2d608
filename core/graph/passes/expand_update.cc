#include "core/graph/passes/expand_update.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "core/kernels/elementwise/elementwise_blocks.h"
#include "core/ops/default_attrs.h"

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

// A node of one output, by the name of `node`.
Node NodeLike(const Node& node, const OpDef* op, const char* dtype_attr, DType dtype,
              std::vector<Edge> inputs, const PartialShape& shape) {
  Node made;
  made.name = node.name;
  made.op = op;
  auto attrs = std::make_shared<AttrMap>(DefaultAttrs(*made.op));
  attrs->Set(dtype_attr, dtype);
  made.attrs = std::move(attrs);
  made.inputs = std::move(inputs);
  made.output_dtypes = {dtype};
  made.output_shapes = {shape};
  return made;
}

Edge Append(Node node, std::vector<Node>& nodes) {
  nodes.push_back(std::move(node));
  return {static_cast<int32_t>(nodes.size()) - 1, 0};
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
  Node load = NodeLike(node, ops.Find("ReadVariableOp"), "dtype", dtype, {handle}, shape);
  if (const std::optional<Edge> before = state.Known(load)) {
    value = *before;
  } else {
    value = Append(std::move(load), nodes);
    state.Note(nodes.back(), value.node);
  }
  const Edge sum = Append(NodeLike(node, ops.Find(op), "T", dtype, {value, delta}, shape), nodes);
  node = NodeLike(node, ops.Find("AssignVariableOp"), "dtype", dtype, {handle, sum}, {});
  node.output_dtypes.clear();
  node.output_shapes.clear();
}

}  // namespace formwork
