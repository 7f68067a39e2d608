#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/graph/passes/pipeline.h"

namespace formwork {
namespace {

// Inlining g(g(g(x))) of nested functions can grow without bound: past this the rest stay calls.
constexpr size_t kMostNodes = 200000;

bool IsCall(const Node& node) {
  // The one attr of kind func of a plain call is `f`; loops and conditionals have others.
  return node.op != nullptr && node.kind == NodeKind::kOp && node.op->attrs.size() >= 3 &&
         node.op->FindAttr("f") != nullptr && node.op->FindAttr("Tin") != nullptr &&
         node.op->FindAttr("Tout") != nullptr;
}

}  // namespace

void InlineCalls(Graph& graph, const PassContext& context) {
  // Calls may hold calls: one level a round.
  for (bool again = true; again;) {
    again = false;
    size_t budget = kMostNodes;
    std::vector<Node> nodes;
    nodes.reserve(graph.nodes.size());
    // Where each output of the old list is in the new one.
    std::vector<std::vector<Edge>> moved(graph.nodes.size());
    auto map = [&](Edge e) { return moved[e.node][e.index]; };
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      Node& node = graph.nodes[i];
      for (Edge& edge : node.inputs) edge = map(edge);
      const Graph* body = nullptr;
      if (IsCall(node)) {
        const auto* function = std::get_if<FuncAttr>(node.attrs->Find("f"));
        auto found =
            function == nullptr ? context.library.end() : context.library.find(function->name);
        if (found != context.library.end() && found->second->args.size() == node.inputs.size() &&
            nodes.size() + found->second->nodes.size() < budget) {
          body = found->second.get();
        }
      }
      if (body == nullptr) {
        for (size_t k = 0; k < node.output_dtypes.size(); ++k) {
          moved[i].push_back({static_cast<int32_t>(nodes.size()), static_cast<int32_t>(k)});
        }
        nodes.push_back(std::move(node));
        continue;
      }
      std::vector<std::vector<Edge>> inner(body->nodes.size());
      for (size_t j = 0; j < body->nodes.size(); ++j) {
        Node copy = body->nodes[j];
        if (copy.kind == NodeKind::kArg) {
          inner[j] = {node.inputs[copy.arg]};
          continue;
        }
        again = again || IsCall(copy);
        copy.name = absl::StrCat(node.name, "/", copy.name);
        for (Edge& edge : copy.inputs) edge = inner[edge.node][edge.index];
        for (size_t k = 0; k < copy.output_dtypes.size(); ++k) {
          inner[j].push_back({static_cast<int32_t>(nodes.size()), static_cast<int32_t>(k)});
        }
        nodes.push_back(std::move(copy));
      }
      for (const Edge& result : body->results) moved[i].push_back(inner[result.node][result.index]);
    }
    for (int32_t& arg : graph.args) arg = moved[arg][0].node;
    for (Edge& result : graph.results) result = map(result);
    const bool grew = nodes.size() != graph.nodes.size();
    graph.nodes = std::move(nodes);
    if (graph.nodes.size() >= kMostNodes || !grew) break;
  }
}

}  // namespace formwork
