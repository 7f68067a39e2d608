#include "core/plan/fusion.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/match.h"
#include "core/base/hash_map.h"
#include "core/base/stop_flag.h"
#include "core/graph/element_nodes.h"
#include "core/plan/reduced_dims.h"
#include "core/plan/scalars.h"

namespace formwork {
namespace {

// A block of each live register has to stay in the first-level cache.
constexpr size_t kMostNodesInUnit = 128;
// Of a device: what a kernel has in registers, and its arguments.
constexpr size_t kMostNodesOnDevice = 64;
// Values that a reduction reads so that another one is not written for it, and read.
constexpr int kMostReadAgain = 2;

// Whether it can end a call: then it stays behind the effects that come before it, and ahead of
// those that come after it.
bool MayEndCall(const Graph& graph, const Node& node) {
  return !node.bodies.empty() || TableOp(graph.nodes, node)->refuses != Refusal::kNone;
}

// Builds the units in one forward walk. A waiting group is emitted as a whole when a node outside
// it needs one of its values; all that its members read from outside has been emitted before, so
// groups never depend on each other in a circle.
class Grouping {
 public:
  Grouping(const Graph& graph, const KernelRegistry& kernels, const KernelRegistry* device)
      : graph_(graph),
        kernels_(kernels),
        device_(device),
        most_nodes_(device == nullptr ? kMostNodesInUnit : kMostNodesOnDevice),
        elements_(graph.nodes.size()),
        group_of_(graph.nodes.size(), -1),
        readers_(graph.nodes.size()),
        depthwise_inputs_(graph.nodes.size()),
        conv_of_(graph.nodes.size(), -1),
        reduces_(graph.nodes.size()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      for (const Edge& edge : node.inputs) ++readers_[edge.node];
      if (IsFloat(node, "DepthwiseConv2dNative")) depthwise_inputs_[node.inputs[0].node] = true;
      if (IsFloat(node, "Conv2D")) conv_of_[node.inputs[0].node] = static_cast<int32_t>(i);
    }
    for (const Edge& edge : graph.results) ++readers_[edge.node];
  }

  std::vector<FusionUnit> Run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (WorkIsCutAt(static_cast<int64_t>(i), kDearItems)) return {};
      Visit(static_cast<int32_t>(i));
    }
    for (size_t g = 0; g < groups_.size(); ++g) Emit(static_cast<int32_t>(g));
    return std::move(units_);
  }

 private:
  struct Group {
    std::vector<int32_t> nodes;  // Empty once emitted or united with another.
    bool scalars = false;
    int trailing = 0;                  // Dimensions that its reductions reduce; 0: it has none.
    std::vector<int32_t> stores = {};  // Of what it makes, which wait with it.
  };

  static bool IsFloat(const Node& node, absl::string_view op) {
    return node.kind == NodeKind::kOp && node.op->name == op &&
           node.output_dtypes[0] == DType::kFloat;
  }
  // Of a device: whether it is its work. Integers and truth values that come neither of floats nor
  // of variables may be what the host decides by.
  bool RunsOnDevice(const Node& node) const {
    bool there = IsFloating(node.output_dtypes[0]);
    for (const Edge& edge : node.inputs) {
      const Node& from = graph_.nodes[edge.node];
      there = there || IsFloating(graph_.dtype(edge)) || elements_[edge.node] ||
              (from.kind == NodeKind::kOp && from.op->loads_variable);
    }
    return there && MayBeInGroup(graph_, node, *device_->groups());
  }
  // Of a node that computes scalars alone, which a device has no program of.
  std::optional<size_t> RegistersOf(const Node& node) const {
    if (device_ != nullptr) return std::nullopt;
    return ScalarRegisters(graph_, node, kernels_);
  }

  // Whether it is a convolution that a depthwise one alone reads, and waits for that.
  bool WaitsForDepthwise(int32_t i) const {
    return device_ == nullptr && depthwise_inputs_[i] && readers_[i] == 1 &&
           IsFloat(graph_.nodes[i], "Conv2D");
  }

  // The same of a depthwise one, where it is to be a step with what it reads and the convolution
  // that alone reads it.
  bool WaitsForConv(int32_t i) const {
    const Node& node = graph_.nodes[i];
    return readers_[i] == 1 && conv_of_[i] >= 0 && !WaitsForDepthwise(conv_of_[i]) &&
           IsFloat(node, "DepthwiseConv2dNative") && WaitsForDepthwise(node.inputs[0].node);
  }

  // The nodes that have waited to be a step with `i`, the last, and that.
  std::vector<int32_t> WithWaiting(int32_t i) const {
    std::vector<int32_t> nodes = {i};
    const Node& node = graph_.nodes[i];
    const bool conv = IsFloat(node, "Conv2D");
    if (!conv && !IsFloat(node, "DepthwiseConv2dNative")) return nodes;
    int32_t from = node.inputs[0].node;
    if (conv && !WaitsForConv(from)) return nodes;
    if (conv) {
      nodes.insert(nodes.begin(), from);
      from = graph_.nodes[from].inputs[0].node;
    }
    if (WaitsForDepthwise(from)) nodes.insert(nodes.begin(), from);
    return nodes;
  }

  void Visit(int32_t i) {
    const Node& node = graph_.nodes[i];
    elements_[i] = device_ == nullptr ? FusableOp(graph_.nodes, node) != nullptr
                                      : node.output_dtypes.size() == 1 && RunsOnDevice(node);
    if (!MayPassStores(node)) EmitStores();
    if (StoreWaits(i)) return;
    if (const std::optional<size_t> registers = RegistersOf(node)) {
      return VisitScalar(i, *registers);
    }
    if (scalars_may_end_call_ && HasEffect(node)) Emit(scalars_);
    // A reduction ends its group's way: what it gives is not of the group's shape.
    for (const Edge& edge : node.inputs) {
      if (reduces_[edge.node]) Emit(Find(group_of_[edge.node]));
    }
    if (VisitReduction(i)) return;
    const bool waits = elements_[i];
    int32_t joined = -1;
    for (const Edge& edge : node.inputs) {
      const int32_t g = Find(group_of_[edge.node]);
      if (g < 0 || groups_[g].nodes.empty() || g == joined) continue;
      if (!waits || !CanJoin(node, g, joined)) {
        Emit(g);
        continue;
      }
      joined = joined < 0 ? g : Unite(joined, g);
    }
    if (!waits) {
      if (WaitsForDepthwise(i) || WaitsForConv(i)) return;
      FusionUnit& unit = units_.emplace_back(FusionUnit{WithWaiting(i)});
      unit.bands = unit.nodes.size() > 1;
      return;
    }
    if (joined < 0) joined = NewGroup(false);
    groups_[joined].nodes.push_back(i);
    group_of_[i] = joined;
  }

  // Whether it is a store that waits with the group that makes its value: an optimizer's step
  // stores one value after the other, and all of them are to be one group.
  bool StoreWaits(int32_t i) {
    const Node& node = graph_.nodes[i];
    if (node.kind != NodeKind::kOp || !node.op->stores_variable) return false;
    const int32_t g = Find(group_of_[node.inputs[1].node]);
    if (g < 0 || groups_[g].nodes.empty() || groups_[g].scalars || reduces_[node.inputs[1].node] ||
        !graph_.nodes[node.inputs[0].node].distinct || MayRefuseShape(node)) {
      return false;
    }
    groups_[g].stores.push_back(i);
    waiting_[node.inputs[0]] = i;
    return true;
  }
  // Whether a store looks at what the variable has, and may find that to be of another shape.
  bool MayRefuseShape(const Node& store) const {
    const PartialShape& shape = graph_.shape(store.inputs[0]);
    return store.attrs->GetOr<bool>("validate_shape", false) &&
           (!shape.ToShape() || shape != graph_.shape(store.inputs[1]));
  }
  // Whether it may go ahead of the stores that wait: it takes next to no time, cannot fail, and is
  // on another variable if it is on one.
  bool MayPassStores(const Node& node) const {
    if (waiting_.empty() || node.kind != NodeKind::kOp) return node.kind != NodeKind::kFork;
    if (node.op->loads_variable || node.op->stores_variable) {
      return graph_.nodes[node.inputs[0].node].distinct && !waiting_.contains(node.inputs[0]);
    }
    if (FusableOp(graph_.nodes, node) != nullptr) return true;
    return RegistersOf(node).has_value() && !MayEndCall(graph_, node);
  }
  void EmitStores() {
    std::vector<int32_t> stores;
    for (const auto& [handle, store] : waiting_) stores.push_back(store);
    std::sort(stores.begin(), stores.end());
    for (const int32_t store : stores) Emit(Find(group_of_[graph_.nodes[store].inputs[1].node]));
  }

  // Whether it has joined the group that makes what it reduces.
  bool VisitReduction(int32_t i) {
    if (device_ != nullptr) return EndsGroupOnDevice(i);
    const int trailing = TrailingDimsReduced(graph_, graph_.nodes[i]);
    if (trailing == 0) return false;
    const int32_t g = Find(group_of_[graph_.nodes[i].inputs[0].node]);
    if (g < 0) return false;
    Group& group = groups_[g];
    if (group.nodes.empty() || group.scalars || group.nodes.size() >= most_nodes_ ||
        (group.trailing != 0 && group.trailing != trailing)) {
      return false;
    }
    group.trailing = trailing;
    group.nodes.push_back(i);
    group_of_[i] = g;
    reduces_[i] = true;
    return true;
  }

  // The same on a device, where a kernel that reduces writes nothing else: what nobody but the
  // reduction needs ends there. It is the whole group, or what reads of the rest what is in memory
  // anyhow, for others read it, too.
  bool EndsGroupOnDevice(int32_t i) {
    const Node& node = graph_.nodes[i];
    const auto reduces = device_->groups()->reduces;
    if (reduces == nullptr || node.wants_host || ConstantAxes(graph_, node) == nullptr) {
      return false;
    }
    const Edge& reduced = node.inputs[0];
    const int32_t g = Find(group_of_[reduced.node]);
    if (g < 0 || groups_[g].nodes.empty() || groups_[g].nodes.size() >= most_nodes_ ||
        !groups_[g].stores.empty() || readers_[reduced.node] != 1 ||
        !reduces(node.op->name, graph_.dtype(reduced))) {
      return false;
    }
    std::vector<int32_t>& nodes = groups_[g].nodes;
    std::sort(nodes.begin(), nodes.end());
    // How often each is read by others than the nodes that only the reduction needs, and than any
    // of the group.
    HashMap<int32_t, int32_t> needed, outside;
    for (const int32_t n : nodes) {
      needed[n] = outside[n] = readers_[n] - (n == reduced.node ? 1 : 0);
    }
    std::vector<int32_t> alone, rest;
    HashSet<int32_t> read_again;  // What the former read, of the rest too.
    for (size_t k = nodes.size(); k-- > 0;) {
      const bool is_alone = needed[nodes[k]] == 0;
      (is_alone ? alone : rest).push_back(nodes[k]);
      for (const Edge& edge : graph_.nodes[nodes[k]].inputs) {
        const auto own = needed.find(edge.node);
        if (own == needed.end()) continue;
        --outside[edge.node];
        if (!is_alone) continue;
        --own->second;
        read_again.insert(edge.node);
      }
    }
    int read = 0;
    for (const int32_t n : rest) {
      if (!read_again.contains(n)) continue;
      if (outside[n] == 0 || ++read > kMostReadAgain) return false;
    }
    nodes = std::move(rest);
    Emit(g);
    std::sort(alone.begin(), alone.end());
    alone.push_back(i);
    units_.push_back({.nodes = std::move(alone), .reduces = true});
    return true;
  }

  // Whatever computes scalars alone is one group, until somebody needs it.
  void VisitScalar(int32_t i, size_t registers) {
    const Node& node = graph_.nodes[i];
    for (const Edge& edge : node.inputs) {
      const int32_t g = Find(group_of_[edge.node]);
      if (g >= 0 && g != scalars_) Emit(g);
    }
    if (registers_ + registers > ScalarProgram::kMostRegisters) Emit(scalars_);
    if (scalars_ < 0) scalars_ = NewGroup(true);
    registers_ += registers;
    scalars_may_end_call_ = scalars_may_end_call_ || MayEndCall(graph_, node);
    groups_[scalars_].nodes.push_back(i);
    group_of_[i] = scalars_;
  }

  bool CanJoin(const Node& node, int32_t g, int32_t joined) const {
    const size_t size = groups_[g].nodes.size() + (joined < 0 ? 0 : groups_[joined].nodes.size());
    const int a = groups_[g].trailing, b = joined < 0 ? 0 : groups_[joined].trailing;
    return !groups_[g].scalars && size < most_nodes_ && (a == 0 || b == 0 || a == b) &&
           graph_.nodes[groups_[g].nodes.front()].output_shapes[0] == node.output_shapes[0];
  }

  int32_t NewGroup(bool scalars) {
    groups_.push_back({{}, scalars, 0});
    parent_.push_back(static_cast<int32_t>(parent_.size()));
    return parent_.back();
  }
  int32_t Find(int32_t g) const {
    while (g >= 0 && parent_[g] != g) g = parent_[g];
    return g;
  }
  int32_t Unite(int32_t a, int32_t b) {
    if (groups_[a].nodes.size() < groups_[b].nodes.size()) std::swap(a, b);
    groups_[a].nodes.insert(groups_[a].nodes.end(), groups_[b].nodes.begin(),
                            groups_[b].nodes.end());
    groups_[b].nodes.clear();
    groups_[a].stores.insert(groups_[a].stores.end(), groups_[b].stores.begin(),
                             groups_[b].stores.end());
    groups_[b].stores.clear();
    groups_[a].trailing = std::max(groups_[a].trailing, groups_[b].trailing);
    parent_[b] = a;
    return a;
  }
  void Emit(int32_t g) {
    if (g < 0 || groups_[g].nodes.empty()) return;
    std::sort(groups_[g].nodes.begin(), groups_[g].nodes.end());
    units_.push_back({std::move(groups_[g].nodes), groups_[g].scalars});
    groups_[g].nodes.clear();
    std::vector<int32_t> stores = std::exchange(groups_[g].stores, {});
    std::sort(stores.begin(), stores.end());
    for (const int32_t store : stores) waiting_.erase(graph_.nodes[store].inputs[0]);
    if (groups_[g].trailing == 0) {
      units_.back().stores = std::move(stores);
    } else {
      for (const int32_t store : stores) units_.push_back({{store}});
    }
    if (g == scalars_) {
      scalars_ = -1;
      registers_ = 0;
      scalars_may_end_call_ = false;
    }
  }

  const Graph& graph_;
  const KernelRegistry& kernels_;
  const KernelRegistry* const device_;
  const size_t most_nodes_;
  std::vector<bool> elements_;  // By node, as far as visited: whether it may be in a group.
  std::vector<int32_t> group_of_;
  std::vector<int32_t> parent_;
  std::vector<int32_t> readers_;        // By node: how often its outputs are read.
  std::vector<bool> depthwise_inputs_;  // By node: whether a depthwise convolution's input.
  std::vector<int32_t> conv_of_;        // By node: a convolution whose image it is; -1: none.
  std::vector<bool> reduces_;           // By node: whether a reduction in a group.
  std::vector<Group> groups_;
  HashMap<Edge, int32_t> waiting_;  // The stores of all groups, by their handles.
  // The group of scalars that waits; -1: none.
  int32_t scalars_ = -1;
  size_t registers_ = 0;
  bool scalars_may_end_call_ = false;
  std::vector<FusionUnit> units_;
};

}  // namespace

bool MayBeInGroup(const Graph& graph, const Node& node, const GroupKernels& groups) {
  if (node.wants_host || FusableOp(graph.nodes, node) == nullptr) return false;
  absl::InlinedVector<DType, 3> dtypes;
  for (const Edge& edge : node.inputs) dtypes.push_back(graph.dtype(edge));
  if (!groups.takes(node.op->name, dtypes, node.output_dtypes[0])) return false;
  // Its operands may have as many elements and differ all the same.
  return !absl::EndsWith(node.op->name, "Grad") ||
         (graph.shape(node.inputs[0]).known_rank() &&
          graph.shape(node.inputs[0]) == graph.shape(node.inputs[1]));
}

std::vector<FusionUnit> PlanFusion(const Graph& graph, const KernelRegistry& kernels,
                                   const KernelRegistry* device) {
  std::vector<FusionUnit> units = Grouping(graph, kernels, device).Run();
  std::vector<int32_t> unit_of(graph.nodes.size(), -1);
  for (size_t u = 0; u < units.size(); ++u) {
    for (int32_t n : units[u].nodes) unit_of[n] = static_cast<int32_t>(u);
    for (int32_t n : units[u].stores) unit_of[n] = static_cast<int32_t>(u);
  }
  std::vector<std::vector<bool>> read(graph.nodes.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    read[n].resize(graph.nodes[n].output_dtypes.size());
    for (const Edge& edge : graph.nodes[n].inputs) {
      if (unit_of[edge.node] != unit_of[n]) read[edge.node][edge.index] = true;
    }
  }
  for (const Edge& edge : graph.results) read[edge.node][edge.index] = true;
  for (FusionUnit& unit : units) {
    // In the order in which a ReducedProgram has them.
    std::vector<int32_t> nodes = unit.nodes;
    if (!unit.scalars && !unit.bands) {
      std::stable_partition(nodes.begin(), nodes.end(), [&graph](int32_t n) {
        return FusableOp(graph.nodes, graph.nodes[n]) != nullptr;
      });
    }
    for (int32_t n : nodes) {
      for (size_t k = 0; k < read[n].size(); ++k) {
        if (read[n][k]) unit.outputs.push_back({n, static_cast<int32_t>(k)});
      }
    }
  }
  return units;
}

}  // namespace formwork
