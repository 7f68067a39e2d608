#include "core/graph/passes/state_values.h"

#include <algorithm>

namespace formwork {
namespace {

// By parameter: the dtype that the body, or one in it, loads by that handle; kInvalid: none.
std::vector<DType> LoadedBy(const Graph& body) {
  std::vector<DType> loaded(body.args.size(), DType::kInvalid);
  std::vector<int32_t> parameter_of(body.nodes.size(), -1);
  for (size_t k = 0; k < body.args.size(); ++k) {
    parameter_of[body.args[k]] = static_cast<int32_t>(k);
  }
  const auto note = [&](Edge handle, DType dtype) {
    const int32_t parameter = parameter_of[handle.node];
    if (parameter >= 0 && dtype != DType::kInvalid) loaded[parameter] = dtype;
  };
  for (const Node& node : body.nodes) {
    if (node.kind != NodeKind::kOp) continue;
    if (node.op->loads_variable) note(node.inputs[0], node.output_dtypes[0]);
    const size_t own = node.op->inputs_before_functions();
    for (const Graph& inner : node.bodies) {
      const std::vector<DType> by_inner = LoadedBy(inner);
      for (size_t k = 0; k < by_inner.size(); ++k) note(node.inputs[own + k], by_inner[k]);
    }
  }
  return loaded;
}

}  // namespace

std::optional<Edge> StateValues::ValueOf(Edge handle) const {
  auto found = values_.find(handle);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Edge> StateValues::Known(const Node& load) const {
  if (!load.op->loads_variable) return std::nullopt;
  const std::optional<Edge> value = ValueOf(load.inputs[0]);
  if (!value) return std::nullopt;
  const Node& source = nodes_[value->node];
  // A load of another dtype is an error, which is the kernel's to tell.
  if (source.output_dtypes[value->index] != load.output_dtypes[0]) return std::nullopt;
  // What the variable says of its shape is not to be lost.
  const PartialShape& shape = source.output_shapes[value->index];
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
      return nodes_[known.second.node].output_dtypes[known.second.index] == stored &&
             !AreDistinct(nodes_, known.first, node.inputs[0]);
    });
    values_[node.inputs[0]] = value;
  } else if (ChangesState(node)) {
    values_.clear();
  }
}

std::vector<KnownVariable> GiveValues(Node& node, const std::vector<Node>& nodes,
                                      const StateValues& state) {
  std::vector<KnownVariable> known;
  const bool loop = node.op->control_flow == ControlFlow::kWhile;
  if (loop && ChangesState(node)) return known;
  const size_t own = node.op->inputs_before_functions();
  const size_t parameters = node.inputs.size() - own;
  std::vector<std::vector<DType>> loaded;  // By body.
  for (size_t k = 0; k < parameters; ++k) {
    const std::optional<Edge> value = state.ValueOf(node.inputs[own + k]);
    if (!value) continue;
    if (loaded.empty()) {
      for (const Graph& body : node.bodies) loaded.push_back(LoadedBy(body));
    }
    const DType dtype = nodes[value->node].output_dtypes[value->index];
    const bool loads = std::any_of(loaded.begin(), loaded.end(),
                                   [&](const auto& by_body) { return by_body[k] == dtype; });
    if (!loads) continue;
    known.push_back({k, node.inputs.size() - own});
    node.inputs.push_back(*value);
    for (Graph& body : node.bodies) {
      Node parameter;
      parameter.kind = NodeKind::kArg;
      parameter.name = nodes[value->node].name;
      parameter.arg = static_cast<int32_t>(body.args.size());
      parameter.output_dtypes = {dtype};
      body.args.push_back(static_cast<int32_t>(body.nodes.size()));
      body.arg_dtypes.push_back(dtype);
      body.nodes.push_back(std::move(parameter));
    }
    if (loop) {
      node.bodies[1].results.push_back({node.bodies[1].args.back(), 0});
      node.output_dtypes.push_back(dtype);
      node.output_shapes.emplace_back();
    }
  }
  return known;
}

}  // namespace formwork
