// Moves the gradient of a ReLU into the gradient of the max pooling that came after it: where that
// finds a window's largest element it knows whether the ReLU let it through.

#include <vector>

#include "core/graph/passes/pipeline.h"
#include "core/ops/pool.h"

namespace formwork {

void FuseReluGradients(Graph& graph) {
  std::vector<int32_t> uses(graph.nodes.size(), 0);
  for (Node& node : graph.nodes) {
    for (const Edge& edge : node.inputs) ++uses[edge.node];
    for (Graph& body : node.bodies) FuseReluGradients(body);
  }
  for (const Edge& result : graph.results) ++uses[result.node];
  for (Node& node : graph.nodes) {
    if (node.kind != NodeKind::kOp || node.op->name != "ReluGrad") continue;
    const Node& pool = graph.nodes[node.inputs[0].node];
    const bool fits = pool.kind == NodeKind::kOp && pool.op->name == "MaxPoolGrad" &&
                      uses[node.inputs[0].node] == 1 && pool.inputs[0] == node.inputs[1];
    if (!fits) continue;
    // It runs in the ReLU's place; the one before is left for Prune.
    auto attrs = std::make_shared<AttrMap>(*pool.attrs);
    SetOfRelu(*attrs);
    node.name = pool.name;
    node.op = pool.op;
    node.attrs = std::move(attrs);
    node.inputs = std::vector<Edge>(pool.inputs);
  }
}

}  // namespace formwork
