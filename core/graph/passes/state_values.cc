#include "core/graph/passes/state_values.h"

#include <algorithm>

namespace formwork {
std::optional<Edge> StateValues::Known(const Node& load) const {
  if (!load.op->loads_variable) return std::nullopt;
  auto found = values_.find(load.inputs[0]);
  if (found == values_.end()) return std::nullopt;
  const Edge value = found->second;
  const Node& source = nodes_[value.node];
  // A load of another dtype is an error, which is the kernel's to tell.
  if (source.output_dtypes[value.index] != load.output_dtypes[0]) return std::nullopt;
  // What the variable says of its shape is not to be lost.
  const PartialShape& shape = source.output_shapes[value.index];
  if (shape != load.output_shapes[0] && !shape.ToShape()) return std::nullopt;
  return value;
}

void StateValues::Note(const Node& node, int32_t at) {
  if (node.op->loads_variable) {
    values_[node.inputs[0]] = {at, 0};
  } else if (node.op->stores_variable) {
    const Edge value = node.inputs[1];
    const DType stored = nodes_[value.node].output_dtypes[value.index];
    std::erase_if(values_, [&](const auto& known) {
      return nodes_[known.second.node].output_dtypes[known.second.index] == stored;
    });
    values_[node.inputs[0]] = value;
  } else if (ChangesState(node)) {
    values_.clear();
  }
}

}  // namespace formwork
