#include "core/plan/element_groups.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "core/base/hash_map.h"
#include "core/plan/delay_reshapes.h"
#include "core/plan/fusion.h"
#include "core/plan/repeat_casts.h"

namespace formwork {
namespace {

const std::shared_ptr<const AttrMap>& NoAttrs() {
  static const auto* const none = new std::shared_ptr<const AttrMap>(std::make_shared<AttrMap>());
  return *none;
}

// One graph, rewritten unit by unit; not the bodies of its nodes.
class Rewriter {
 public:
  explicit Rewriter(Graph& graph) : graph_(graph), place_(graph.nodes.size(), -1) {}

  void Run(const std::vector<FusionUnit>& units) {
    for (const FusionUnit& unit : units) {
      if (unit.nodes.size() == 1 && unit.stores.empty()) {
        Keep(unit.nodes[0]);
      } else {
        AddGroup(unit);
      }
    }
    for (Edge& result : graph_.results) result = Moved(result);
    for (int32_t& arg : graph_.args) arg = place_[arg];
    graph_.nodes = std::move(nodes_);
  }

 private:
  void Keep(int32_t n) {
    place_[n] = static_cast<int32_t>(nodes_.size());
    Node& node = nodes_.emplace_back(std::move(graph_.nodes[n]));
    for (Edge& edge : node.inputs) edge = Moved(edge);
  }

  Edge Moved(Edge edge) const {
    const auto made = made_.find(edge);
    return made == made_.end() ? Edge{place_[edge.node], edge.index} : made->second;
  }

  void AddGroup(const FusionUnit& unit) {
    auto group = std::make_shared<ElementGroup>();
    Node node;
    node.name = graph_.nodes[unit.nodes.back()].name;
    node.attrs = NoAttrs();
    absl::Span<const int32_t> elements = unit.nodes;
    if (unit.reduces) elements.remove_suffix(1);
    HashMap<int32_t, uint16_t> own;  // The instruction of each node.
    for (int32_t n : elements) own.try_emplace(n, static_cast<uint16_t>(own.size()));
    HashMap<Edge, uint16_t> inputs;
    for (int32_t n : elements) {
      for (const Edge& edge : graph_.nodes[n].inputs) {
        if (own.contains(edge.node)) continue;
        const auto [input, is_new] = inputs.try_emplace(edge, static_cast<uint16_t>(inputs.size()));
        if (!is_new) continue;
        const Edge from = Moved(edge);
        node.inputs.push_back(from);
        group->inputs.push_back(nodes_[from.node].output_dtypes[from.index]);
      }
    }
    const auto value = [&](const Edge& edge) {
      const auto made = own.find(edge.node);
      return made == own.end() ? inputs.find(edge)->second
                               : static_cast<uint16_t>(group->inputs.size() + made->second);
    };
    for (int32_t n : elements) {
      const Node& of = graph_.nodes[n];
      ElementGroup::Instruction& instruction = group->instructions.emplace_back();
      instruction = {of.name, of.op->name, of.output_dtypes[0], {}};
      for (const Edge& edge : of.inputs) instruction.operands.push_back(value(edge));
    }
    const int32_t at = static_cast<int32_t>(nodes_.size());
    // What others read as `edge` is made of the value of `from`.
    const auto add_output = [&](const Edge& edge, const Edge& from) {
      made_[edge] = {at, static_cast<int32_t>(group->outputs.size())};
      group->outputs.push_back(value(from));
      node.output_dtypes.push_back(graph_.dtype(edge));
      node.output_shapes.push_back(graph_.shape(edge));
    };
    if (unit.reduces) {
      const Node& reduction = graph_.nodes[unit.nodes.back()];
      add_output({unit.nodes.back(), 0}, reduction.inputs[0]);
      group->reduction =
          ElementGroup::Reduction{reduction.name,
                                  reduction.op->name,
                                  {.keep_dims = reduction.attrs->GetOr<bool>("keep_dims", false)},
                                  graph_.nodes[reduction.inputs[1].node].constant};
    } else {
      for (const Edge& edge : unit.outputs) add_output(edge, edge);
    }
    for (int32_t n : unit.stores) {
      const Node& store = graph_.nodes[n];
      if (!made_.contains(store.inputs[1])) add_output(store.inputs[1], store.inputs[1]);
      group->stores.push_back(
          {store.name, static_cast<uint16_t>(made_.find(store.inputs[1])->second.index)});
      node.inputs.push_back(Moved(store.inputs[0]));
    }
    node.op = &ElementGroupOp(*group);
    node.group = std::move(group);
    nodes_.push_back(std::move(node));
  }

  Graph& graph_;
  // The graph as it becomes.
  std::vector<Node> nodes_;
  std::vector<int32_t> place_;  // In it, of nodes that are kept.
  HashMap<Edge, Edge> made_;    // In it, of groups' outputs.
};

}  // namespace

void GroupElements(Graph& graph, const KernelRegistry& host, const KernelRegistry& device) {
  if (device.groups() == nullptr) return;
  std::vector<Graph*> open = {&graph};
  while (!open.empty()) {
    Graph& next = *open.back();
    open.pop_back();
    DelayReshapes(next);
    RepeatCasts(next, device);
    const std::vector<FusionUnit> units = PlanFusion(next, host, &device);
    if (units.empty() != next.nodes.empty()) return;  // Cut.
    Rewriter(next).Run(units);
    for (Node& node : next.nodes) {
      for (Graph& body : node.bodies) open.push_back(&body);
    }
  }
}

}  // namespace formwork
