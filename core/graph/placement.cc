#include "core/graph/placement.h"

#include <algorithm>

#include "core/ops/random.h"
#include "core/ops/reshape.h"

namespace formwork {
namespace {

// Whether each of a node's `values` values, in the order of `args`, is marked as of the host.
// Inputs of what has been fused into it come behind those.
std::vector<bool> HostMarks(const std::vector<ArgDef>& args, const AttrMap& attrs, size_t values) {
  std::vector<bool> marks;
  for (const ArgDef& arg : args) {
    int64_t count = 1;
    const AttrValue* type = arg.type_attr.empty() ? nullptr : attrs.Find(arg.type_attr);
    if (!arg.number_attr.empty()) {
      count = attrs.GetOr<int64_t>(arg.number_attr, 0);
    } else if (type != nullptr && std::holds_alternative<std::vector<DType>>(*type)) {
      count = static_cast<int64_t>(std::get<std::vector<DType>>(*type).size());
    }
    marks.insert(marks.end(), static_cast<size_t>(count), arg.host);
  }
  marks.resize(values, false);
  return marks;
}

DType DTypeAt(const std::vector<Node>& nodes, Edge edge) {
  return nodes[edge.node].output_dtypes[edge.index];
}
bool IsObject(DType dtype) { return dtype == DType::kString || dtype == DType::kVariant; }
bool Decides(DType dtype) { return IsInteger(dtype) || dtype == DType::kBool; }

// Variables are where the plan's device is, and so is what is done to them.
bool MayRunAnywhere(const Node& node) {
  return node.op->effect == Effect::kNone || node.op->effect == Effect::kRandom;
}

}  // namespace

Memory MemoryByDType(DType dtype) {
  return dtype == DType::kInt32 || dtype == DType::kBool || dtype == DType::kResource ||
                 IsObject(dtype)
             ? Memory::kHost
             : Memory::kDevice;
}

std::vector<bool> HostInputs(const Node& node) {
  return HostMarks(node.op->inputs, *node.attrs, node.inputs.size());
}

NodePlacement Place(const std::vector<Node>& nodes, const Node& node,
                    absl::Span<const Memory> inputs) {
  const OpDef& op = *node.op;
  const std::vector<bool> host_inputs = HostInputs(node);
  const std::vector<bool> host_outputs =
      HostMarks(op.outputs, *node.attrs, node.output_dtypes.size());
  std::vector<DType> dtypes;
  for (const Edge& edge : node.inputs) dtypes.push_back(DTypeAt(nodes, edge));
  const auto all_inputs = [&](auto&& is) {
    for (size_t i = 0; i < dtypes.size(); ++i) {
      if (!is(i)) return false;
    }
    return true;
  };
  NodePlacement placement;
  const auto on_host = [&](bool after_work) {
    placement.on_host = true;
    placement.after_work = after_work;
    placement.inputs.assign(dtypes.size(), Memory::kHost);
    placement.outputs.assign(node.output_dtypes.size(), Memory::kHost);
    return placement;
  };
  if (op.forwards_inputs || op.shape_only) {
    on_host(false);
    placement.inputs.assign(dtypes.size(), std::nullopt);
    if (op.forwards_inputs) placement.outputs.assign(inputs.begin(), inputs.end());
    return placement;
  }
  if (KeepsElements(op.name)) {
    on_host(false);
    placement.inputs[0] = std::nullopt;
    placement.outputs[0] = inputs[0];
    return placement;
  }
  if (node.wants_host && MayRunAnywhere(node)) return PlaceOnHost(nodes, node);
  const bool objects = std::any_of(dtypes.begin(), dtypes.end(), IsObject) ||
                       std::any_of(node.output_dtypes.begin(), node.output_dtypes.end(), IsObject);
  const bool outputs_on_host =
      std::all_of(host_outputs.begin(), host_outputs.end(), [](bool host) { return host; });
  switch (op.effect) {
    case Effect::kExternal:
      return on_host(true);
    case Effect::kRandom:
      if (!FillsFromSequence(op.name)) return on_host(false);
      break;
    case Effect::kRead:
    case Effect::kWrite: {
      const bool handles_alone =
          outputs_on_host && all_inputs([&](size_t i) { return dtypes[i] == DType::kResource; });
      if (objects || handles_alone) return on_host(op.effect == Effect::kWrite);
      break;
    }
    case Effect::kNone: {
      if (objects) return on_host(false);
      const bool decided = all_inputs([&](size_t i) {
        return host_inputs[i] || (inputs[i] == Memory::kHost && Decides(dtypes[i]));
      });
      const bool decides = !dtypes.empty() && std::all_of(node.output_dtypes.begin(),
                                                          node.output_dtypes.end(), Decides);
      if (decided && (decides || outputs_on_host)) return on_host(false);
    }
  }
  for (size_t i = 0; i < dtypes.size(); ++i) {
    const bool host = host_inputs[i] || dtypes[i] == DType::kResource;
    placement.inputs.push_back(host ? Memory::kHost : Memory::kDevice);
  }
  if (TakesKeyAndCounter(op.name) && inputs[1] == Memory::kHost && inputs[2] == Memory::kHost) {
    placement.inputs[1] = placement.inputs[2] = std::nullopt;
  }
  for (bool host : host_outputs) {
    placement.outputs.push_back(host ? Memory::kHost : Memory::kDevice);
  }
  return placement;
}

NodePlacement PlaceOnHost(const std::vector<Node>& nodes, const Node& node) {
  NodePlacement placement;
  // The values of its variables are not among its inputs: they are brought when it is issued.
  placement.on_host = std::none_of(node.inputs.begin(), node.inputs.end(), [&](const Edge& edge) {
    return DTypeAt(nodes, edge) == DType::kResource;
  });
  placement.inputs.assign(node.inputs.size(), Memory::kHost);
  placement.outputs.assign(node.output_dtypes.size(), Memory::kHost);
  return placement;
}

Memory MemoryOfLoopVariable(DType dtype, Memory initial) {
  const bool stays = IsInteger(dtype) && initial == Memory::kHost;
  return stays ? Memory::kHost : MemoryByDType(dtype);
}

std::vector<Memory> PlaceOutputs(const std::vector<Node>& nodes, const Node& node,
                                 absl::Span<const Memory> inputs, const KernelRegistry& kernels) {
  std::vector<Memory> outputs(node.output_dtypes.size(), Memory::kHost);
  if (node.kind != NodeKind::kOp || node.op->handle_of != nullptr) return outputs;
  if (node.op->is_control_flow()) {
    for (size_t k = 0; k < outputs.size(); ++k) {
      const DType dtype = node.output_dtypes[k];
      outputs[k] = node.op->control_flow == ControlFlow::kWhile
                       ? MemoryOfLoopVariable(dtype, inputs[k])
                       : MemoryByDType(dtype);
    }
    return outputs;
  }
  const bool moves_variable = node.op->loads_variable || node.op->stores_variable;
  const NodePlacement placement = Place(nodes, node, inputs);
  if (!placement.on_host && !moves_variable && kernels.Find(node.op->name) == nullptr) {
    return PlaceOnHost(nodes, node).outputs;
  }
  return placement.outputs;
}

}  // namespace formwork
