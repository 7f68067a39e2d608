#include "core/plan/delay_reshapes.h"

#include <utility>
#include <vector>

#include "core/base/stop_flag.h"
#include "core/graph/passes/made_nodes.h"
#include "core/graph/passes/rewrite_shapes.h"

namespace formwork {
namespace {

// What may fail keeps its place among effects.
bool MayBeLate(const Graph& graph, const Node& node) {
  return Reshapes(node) && graph.shape(node.inputs[0]).ToShape() && !node.output_shapes.empty() &&
         node.output_shapes[0].ToShape();
}

// The nodes in their new order.
class Delayed {
 public:
  explicit Delayed(const Graph& graph) : graph_(graph), placed_(graph.nodes.size(), false) {
    order_.reserve(graph.nodes.size());
    for (const bool late : {false, true}) {  // What results alone read comes last.
      for (size_t i = 0; i < graph.nodes.size(); ++i) {
        if (late || !MayBeLate(graph, graph.nodes[i])) Place(static_cast<int32_t>(i));
      }
    }
  }
  const std::vector<int32_t>& order() const { return order_; }

 private:
  // Behind what it reads and has not been placed, which may be many nodes in a row.
  void Place(int32_t i) {
    struct Open {
      int32_t node;
      size_t next_input = 0;
    };
    if (placed_[i]) return;
    std::vector<Open> open = {{i}};
    while (!open.empty()) {
      Open& top = open.back();
      const std::vector<Edge>& inputs = graph_.nodes[top.node].inputs;
      if (top.next_input < inputs.size()) {
        const int32_t input = inputs[top.next_input++].node;
        if (!placed_[input]) open.push_back({input});
        continue;
      }
      placed_[top.node] = true;
      order_.push_back(top.node);
      open.pop_back();
    }
  }

  const Graph& graph_;
  std::vector<bool> placed_;
  std::vector<int32_t> order_;
};

}  // namespace

void DelayReshapes(Graph& graph) {
  if (WorkIsCut()) return;
  const Delayed delayed(graph);
  std::vector<Node> nodes;
  nodes.reserve(graph.nodes.size());
  std::vector<int32_t> place(graph.nodes.size(), -1);
  for (const int32_t i : delayed.order()) {
    for (Edge& edge : graph.nodes[i].inputs) edge.node = place[edge.node];
    place[i] = Append(std::move(graph.nodes[i]), nodes).node;
  }
  for (int32_t& arg : graph.args) arg = place[arg];
  for (Edge& result : graph.results) result.node = place[result.node];
  graph.nodes = std::move(nodes);
}

}  // namespace formwork
