#include <algorithm>

#include "core/base/stop_flag.h"
#include "core/graph/passes/pipeline.h"

namespace formwork {

void Prune(Graph& graph) {
  std::vector<bool> needed(graph.nodes.size(), false);
  for (const Edge& result : graph.results) needed[result.node] = true;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    if (WorkIsCutAt(static_cast<int64_t>(i))) return;
    Node& node = graph.nodes[i];
    if (node.kind == NodeKind::kArg || HasEffect(node)) needed[i] = true;
    if (!needed[i]) continue;
    for (Graph& body : node.bodies) Prune(body);
    for (const Edge& edge : node.inputs) needed[edge.node] = true;
  }
  const auto kept = static_cast<size_t>(std::count(needed.begin(), needed.end(), true));
  if (kept == graph.nodes.size()) return;
  std::vector<Node> nodes;
  nodes.reserve(kept);
  std::vector<int32_t> place(graph.nodes.size(), -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!needed[i]) continue;
    Node& node = graph.nodes[i];
    for (Edge& edge : node.inputs) edge.node = place[edge.node];
    place[i] = static_cast<int32_t>(nodes.size());
    nodes.push_back(std::move(node));
  }
  for (int32_t& arg : graph.args) arg = place[arg];
  for (Edge& result : graph.results) result.node = place[result.node];
  graph.nodes = std::move(nodes);
}

}  // namespace formwork
