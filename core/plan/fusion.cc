#include "core/plan/fusion.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/base/status.h"

namespace formwork {
namespace {

// A block of each live register has to stay in the first-level cache.
constexpr size_t kMostNodesInUnit = 128;

bool IsFusable(const Graph& graph, const Node& node) {
  (void)graph;
  (void)node;
  return false;
}

// Builds the units in one forward walk. A waiting group is emitted as a whole when a node outside
// it needs one of its values; all that its members read from outside has been emitted before, so
// groups never depend on each other in a circle.
class Grouping {
 public:
  explicit Grouping(const Graph& graph) : graph_(graph), group_of_(graph.nodes.size(), -1) {}

  std::vector<FusionUnit> Run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) Visit(static_cast<int32_t>(i));
    for (size_t g = 0; g < groups_.size(); ++g) Emit(static_cast<int32_t>(g));
    return std::move(units_);
  }

 private:
  void Visit(int32_t i) {
    const Node& node = graph_.nodes[i];
    const bool waits = node.kind == NodeKind::kOp && IsFusable(graph_, node);
    int32_t joined = -1;
    for (const Edge& edge : node.inputs) {
      const int32_t g = Find(group_of_[edge.node]);
      if (g < 0 || groups_[g].empty() || g == joined) continue;
      if (!waits || !CanJoin(node, g, joined)) {
        Emit(g);
        continue;
      }
      joined = joined < 0 ? g : Unite(joined, g);
    }
    if (!waits) {
      units_.push_back({{i}});
      return;
    }
    if (joined < 0) {
      joined = static_cast<int32_t>(groups_.size());
      groups_.emplace_back();
      parent_.push_back(joined);
    }
    groups_[joined].push_back(i);
    group_of_[i] = joined;
  }

  bool CanJoin(const Node& node, int32_t g, int32_t joined) const {
    const size_t size = groups_[g].size() + (joined < 0 ? 0 : groups_[joined].size());
    return size < kMostNodesInUnit &&
           graph_.nodes[groups_[g].front()].output_shapes[0] == node.output_shapes[0];
  }

  int32_t Find(int32_t g) const {
    while (g >= 0 && parent_[g] != g) g = parent_[g];
    return g;
  }
  int32_t Unite(int32_t a, int32_t b) {
    if (groups_[a].size() < groups_[b].size()) std::swap(a, b);
    groups_[a].insert(groups_[a].end(), groups_[b].begin(), groups_[b].end());
    groups_[b].clear();
    parent_[b] = a;
    return a;
  }
  void Emit(int32_t g) {
    if (groups_[g].empty()) return;
    std::sort(groups_[g].begin(), groups_[g].end());
    units_.push_back({std::move(groups_[g])});
    groups_[g].clear();
  }

  const Graph& graph_;
  std::vector<int32_t> group_of_;
  std::vector<int32_t> parent_;
  std::vector<std::vector<int32_t>> groups_;  // Empty once emitted or united with another.
  std::vector<FusionUnit> units_;
};

}  // namespace

std::vector<FusionUnit> PlanFusion(const Graph& graph) { return Grouping(graph).Run(); }

absl::StatusOr<std::optional<FusedStep>> MakeFusedStep(const Graph&, const FusionUnit&,
                                                       const KernelRegistry&) {
  return std::nullopt;
}

}  // namespace formwork
