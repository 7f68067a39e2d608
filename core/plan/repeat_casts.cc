#include "core/plan/repeat_casts.h"

#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "core/base/stop_flag.h"
#include "core/graph/passes/made_nodes.h"
#include "core/graph/passes/pipeline.h"
#include "core/plan/fusion.h"
#include "core/plan/reduced_dims.h"

namespace formwork {
namespace {

// Whether it is a Cast that costs nothing beside reading what it casts. A variable's value is not
// to be held longer than it was: then it could not be changed in place.
bool Widens(const Graph& graph, const Node& node) {
  if (node.kind != NodeKind::kOp || node.op->name != "Cast") return false;
  const DType from = graph.dtype(node.inputs[0]);
  const Node& maker = graph.nodes[node.inputs[0].node];
  return IsFloating(from) && IsFloating(node.output_dtypes[0]) &&
         DTypeSize(from) < DTypeSize(node.output_dtypes[0]) &&
         !(maker.kind == NodeKind::kOp && maker.op->loads_variable);
}

// Whether the node would be in one step with what makes this input of it.
bool Joins(const Graph& graph, const Node& node, Edge input, const GroupKernels& groups) {
  if (MayBeInGroup(graph, node, groups)) {
    return graph.shape(input).known_rank() && graph.shape(input) == node.output_shapes[0];
  }
  return groups.reduces != nullptr && !node.wants_host && ConstantAxes(graph, node) != nullptr &&
         node.inputs[0] == input && groups.reduces(node.op->name, graph.dtype(input));
}

}  // namespace

void RepeatCasts(Graph& graph, const KernelRegistry& device) {
  const GroupKernels& groups = *device.groups();
  std::vector<int32_t> readers(graph.nodes.size(), 0);
  for (const Node& node : graph.nodes) {
    for (const Edge& edge : node.inputs) ++readers[edge.node];
  }
  for (const Edge& result : graph.results) ++readers[result.node];
  // By node: which Casts it has for itself.
  std::vector<std::vector<int32_t>> own(graph.nodes.size());
  bool any = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (WorkIsCutAt(static_cast<int64_t>(i))) return;
    const Node& node = graph.nodes[i];
    for (const Edge& edge : node.inputs) {
      const Node& cast = graph.nodes[edge.node];
      if (readers[edge.node] < 2 || !Widens(graph, cast) || !MayBeInGroup(graph, cast, groups) ||
          !Joins(graph, node, edge, groups)) {
        continue;
      }
      if (!absl::c_linear_search(own[i], edge.node)) own[i].push_back(edge.node);
      any = true;
    }
  }
  if (!any) return;
  std::vector<Node> nodes;
  nodes.reserve(graph.nodes.size());
  std::vector<int32_t> place(graph.nodes.size(), -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    std::vector<std::pair<int32_t, int32_t>> copies;  // Of Casts, and where they are.
    for (const int32_t cast : own[i]) {
      copies.emplace_back(cast, Append(Node(nodes[place[cast]]), nodes).node);
    }
    for (Edge& edge : node.inputs) {
      const auto copy =
          absl::c_find_if(copies, [&](const auto& of) { return of.first == edge.node; });
      edge.node = copy == copies.end() ? place[edge.node] : copy->second;
    }
    place[i] = Append(std::move(node), nodes).node;
  }
  for (int32_t& arg : graph.args) arg = place[arg];
  for (Edge& result : graph.results) result.node = place[result.node];
  graph.nodes = std::move(nodes);
  Prune(graph);
}

}  // namespace formwork
