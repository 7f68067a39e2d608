#include "core/graph/fixed_nodes.h"

#include <algorithm>

#include "core/base/stop_flag.h"

namespace formwork {

std::vector<bool> FixedNodes(const Graph& graph) {
  std::vector<bool> fixed(graph.nodes.size());
  if (std::any_of(graph.nodes.begin(), graph.nodes.end(), &HasEffect)) return fixed;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (WorkIsCutAt(static_cast<int64_t>(i))) return fixed;
    const Node& node = graph.nodes[i];
    if (node.kind == NodeKind::kConstant) {
      fixed[i] = true;
    } else if (node.kind == NodeKind::kOp && node.op->loads_variable) {
      const Node& handle = graph.nodes[node.inputs[0].node];
      fixed[i] = handle.kind == NodeKind::kArg || NamesResource(handle);
    } else if (node.kind == NodeKind::kOp) {
      fixed[i] = node.op->effect == Effect::kNone && node.bodies.empty() &&
                 node.op->control_flow == ControlFlow::kNone && node.op->handle_of == nullptr &&
                 !node.inputs.empty() &&
                 std::all_of(node.output_dtypes.begin(), node.output_dtypes.end(), &IsPlainData) &&
                 std::all_of(node.inputs.begin(), node.inputs.end(),
                             [&fixed](const Edge& edge) { return fixed[edge.node]; });
    }
  }
  return fixed;
}

bool IsFree(const Node& node) {
  return node.op->loads_variable || node.op->forwards_inputs || node.op->name == "Reshape" ||
         node.op->name == "ExpandDims" || node.op->name == "Squeeze";
}

}  // namespace formwork
