#include "core/graph/passes/relaxed_regions.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/hash_map.h"
#include "core/base/stop_flag.h"
#include "core/ops/work.h"

namespace formwork {
namespace {

constexpr int32_t kNoResource = -1;       // It has no handle.
constexpr int32_t kUnknownResource = -2;  // It has one, of which is not known before the call.
constexpr int64_t kMostVisits = 10'000'000;
constexpr size_t kMostNames = 4;  // Of resources, in a region's name.
constexpr char kRegionAttr[] = "region";

// What begins a region: kept, in its place, and all that is known of variables ends there. It is in
// no registry, so that no client's graph has one.
const OpDef& RegionOp() {
  static const OpDef* const op = [] {
    auto* made = new OpDef;
    made->name = "_Region";
    made->effect = Effect::kWrite;
    return made;
  }();
  return *op;
}

bool IsHeavy(const Node& node) {
  if (node.kind == NodeKind::kFork) return true;
  if (node.kind != NodeKind::kOp) return false;
  return !node.bodies.empty() || node.op->control_flow != ControlFlow::kNone || node.op->waits ||
         IsProductOfMatrices(node.op->name);
}

bool Forwards(const Node& node) {
  return node.kind == NodeKind::kOp && node.op->forwards_inputs &&
         node.inputs.size() == node.output_dtypes.size();
}

class Divider {
 public:
  explicit Divider(Graph& graph) : graph_(graph), size_(static_cast<int32_t>(graph.nodes.size())) {}

  void Run(RelaxedRegions& regions) {
    regions.why_none = Find();
    if (!regions.why_none.empty()) return;
    Insert(regions.regions);
  }

 private:
  // Nodes [first, last], in which `resources` are touched and written.
  struct Unit {
    int32_t first = 0, last = 0;
    std::vector<int32_t> resources;
  };
  // What a node does to resources.
  struct Touch {
    bool any = false, writes = false, several = false;
    int32_t resource = kNoResource;  // Where it is one alone.
  };

  const Node& node(int32_t i) const { return graph_.nodes[i]; }

  // --- What is where
  // ------------------------------------------------------------------------------

  // Which resource a handle is of, by the node that first names it.
  int32_t ResourceOf(Edge edge) {
    while (Forwards(node(edge.node))) edge = node(edge.node).inputs[edge.index];
    const Node& source = node(edge.node);
    if (source.kind == NodeKind::kArg) return edge.node;
    if (source.kind != NodeKind::kOp || source.op->handle_of == nullptr || edge.index != 0) {
      return kUnknownResource;
    }
    return named_.try_emplace(NameOf(edge.node), edge.node).first->second;
  }
  std::string NameOf(int32_t i) const {
    const Node& named = node(i);
    if (named.kind == NodeKind::kArg) return std::string(absl::StripSuffix(named.name, ":0"));
    const std::string name = named.attrs->GetOr<std::string>("shared_name", "");
    const std::string container = named.attrs->GetOr<std::string>("container", "");
    return absl::StrCat(container, container.empty() ? "" : "/", name.empty() ? named.name : name);
  }

  Touch TouchOf(int32_t i) {
    Touch touch;
    const Node& at = node(i);
    if (at.kind != NodeKind::kOp || Forwards(at) || at.op->handle_of != nullptr) return touch;
    for (const Edge& edge : at.inputs) {
      if (graph_.dtype(edge) != DType::kResource) continue;
      const int32_t resource = ResourceOf(edge);
      touch.several = touch.several || (touch.any && resource != touch.resource);
      touch.any = true;
      touch.resource = resource;
    }
    touch.writes = at.bodies.empty() && at.op->control_flow == ControlFlow::kKernel
                       ? at.op->effect != Effect::kNone
                       : ChangesState(at);
    // A handle that goes into a list is out of sight.
    const bool hides = std::any_of(
        at.output_dtypes.begin(), at.output_dtypes.end(),
        [](DType dtype) { return dtype == DType::kResource || dtype == DType::kVariant; });
    if (touch.any && hides && !touch.writes) touch.resource = kUnknownResource;
    return touch;
  }

  // --- The rule
  // -----------------------------------------------------------------------------------

  // Why there are no regions, or nothing.
  std::string Find() {
    heavy_before_.resize(size_ + 1);
    users_.resize(size_);
    touches_.resize(size_);
    for (int32_t i = 0; i < size_; ++i) {
      if (WorkIsCutAt(i)) return "it was cut";
      heavy_before_[i + 1] = heavy_before_[i] + (IsHeavy(node(i)) ? 1 : 0);
      if (AwaitsState(node(i))) return "it may wait for what other calls do to a resource";
      touches_[i] = TouchOf(i);
      writes_ = writes_ || touches_[i].writes;
      for (const Edge& edge : node(i).inputs) users_[edge.node].push_back(i);
    }
    if (!writes_) return "it changes nothing";
    int32_t limit = size_;
    for (int32_t before = -1; before != limit;) {
      if (WorkIsCut()) return "it was cut";
      before = limit;
      limit = FindUnits(limit);
    }
    apply_ = limit;
    if (limit < size_) {
      while (apply_ > 0 && !IsHeavy(node(apply_ - 1))) --apply_;
      if (!BeginBeforeReads()) return "it is too large to be divided";
    }
    std::erase_if(units_, [this](const Unit& unit) { return unit.first >= apply_; });
    if (heavy_before_[apply_] == 0) {
      return "no product of matrices, convolution, loop or branch comes before what it writes, "
             "or before what it reads for that";
    }
    return "";
  }

  int32_t HeavyWithin(int32_t first, int32_t last) const {
    return heavy_before_[last + 1] - heavy_before_[first];
  }

  // Looks for small writes before `limit`. Where the first other write is, at the most `limit`, as
  // far as that can be said: to be called again with it until it stays.
  int32_t FindUnits(int32_t limit) {
    units_.clear();
    std::map<int32_t, int32_t> touched;      // First, since the last small write: by resource.
    std::map<int32_t, int32_t> first_small;  // Where its first small write is: by resource.
    for (int32_t i = 0; i < limit; ++i) {
      const Touch& touch = touches_[i];
      if (!touch.any && !touch.writes) continue;
      if (!touch.writes) {
        for (const Edge& edge : node(i).inputs) {
          if (graph_.dtype(edge) != DType::kResource) continue;
          const bool hidden = touch.resource == kUnknownResource;
          touched.try_emplace(hidden ? kUnknownResource : ResourceOf(edge), i);
        }
        continue;
      }
      const auto since = touched.find(touch.resource);
      const int32_t first = since == touched.end() ? i : since->second;
      if (!touch.any || touch.several || touch.resource < 0 || HeavyWithin(first, i) > 0 ||
          heavy_before_[i] == heavy_before_[size_] || IsUsedElsewhere(i)) {
        limit = i;
        break;
      }
      if (since != touched.end()) touched.erase(since);
      first_small.try_emplace(touch.resource, i);
      AddUnit({first, i, {touch.resource}});
    }
    // What is touched besides is not to be written under a place of its own.
    int32_t first_other = limit;
    for (const auto& [resource, i] : first_small) {
      if (touched.contains(resource) || touched.contains(kUnknownResource)) {
        first_other = std::min(first_other, i);
      }
    }
    return first_other;
  }

  void AddUnit(Unit unit) {
    while (!units_.empty() && units_.back().last >= unit.first) {
      Unit& last = units_.back();
      unit.first = std::min(unit.first, last.first);
      unit.resources.insert(unit.resources.end(), last.resources.begin(), last.resources.end());
      units_.pop_back();
    }
    units_.push_back(std::move(unit));
  }

  // Whether others read what node i assigns.
  bool IsUsedElsewhere(int32_t i) const {
    if (!node(i).op->stores_variable) return false;
    int32_t reader = i;
    Edge value = node(i).inputs[1];
    while (true) {
      const Node& source = node(value.node);
      if (source.kind != NodeKind::kOp || source.op->loads_variable) return false;
      for (int32_t user : users_[value.node]) {
        if (user != reader) return true;
      }
      if (!Forwards(source)) return false;
      reader = value.node;
      value = source.inputs[value.index];
    }
  }

  // The apply region begins before what is read to be assigned in it: else it would undo what
  // others have written meanwhile. False where that takes too long.
  bool BeginBeforeReads() {
    int64_t visits = 0;
    int64_t stores = 0;
    std::vector<int64_t> seen_for(size_);
    for (int32_t before = -1; before != apply_;) {
      before = apply_;
      for (int32_t i = size_ - 1; i >= apply_; --i) {
        const Node& store = node(i);
        if (store.kind != NodeKind::kOp || !store.op->stores_variable) continue;
        const int32_t resource = ResourceOf(store.inputs[0]);
        std::vector<int32_t> open = {store.inputs[1].node};
        ++stores;
        while (!open.empty()) {
          const int32_t at = open.back();
          open.pop_back();
          if (std::exchange(seen_for[at], stores) == stores) continue;
          if (++visits > kMostVisits || WorkIsCutAt(visits)) return false;
          const Node& source = node(at);
          if (source.kind != NodeKind::kOp || IsHeavy(source)) continue;
          if (source.op->loads_variable) {
            const int32_t read = ResourceOf(source.inputs[0]);
            if (read == resource || read < 0) apply_ = std::min(apply_, at);
            continue;
          }
          for (const Edge& edge : source.inputs) open.push_back(edge.node);
        }
      }
      for (const Unit& unit : units_) {
        if (unit.first < apply_ && unit.last >= apply_) apply_ = unit.first;
      }
    }
    return true;
  }

  // --- The graph as it becomes
  // ----------------------------------------------------------------------

  void Insert(std::vector<RelaxedRegion>& regions) {
    std::vector<Node> nodes;
    nodes.reserve(static_cast<size_t>(size_) + 2 * units_.size() + 2);
    std::vector<std::string> names;
    for (Unit& small : units_) names.push_back(SmallWriteName(small));
    std::vector<int32_t> place(size_);
    regions.push_back({RegionKind::kSnapshot, "snapshot"});
    nodes.push_back(RegionNode(0, regions[0].name));
    size_t unit = 0;
    for (int32_t i = 0; i < size_; ++i) {
      if (unit < units_.size() && units_[unit].first == i) {
        regions.push_back({RegionKind::kSmallWrite, std::move(names[unit])});
        nodes.push_back(RegionNode(regions.size() - 1, regions.back().name));
      }
      if (i == apply_) {
        regions.push_back({RegionKind::kApply, "apply region"});
        nodes.push_back(RegionNode(regions.size() - 1, regions.back().name));
      }
      for (Edge& edge : graph_.nodes[i].inputs) edge.node = place[edge.node];
      place[i] = static_cast<int32_t>(nodes.size());
      nodes.push_back(std::move(graph_.nodes[i]));
      if (unit < units_.size() && units_[unit].last == i) {
        nodes.push_back(RegionNode(0, regions[0].name));
        ++unit;
      }
    }
    for (int32_t& arg : graph_.args) arg = place[arg];
    for (Edge& result : graph_.results) result.node = place[result.node];
    graph_.nodes = std::move(nodes);
  }

  std::string SmallWriteName(Unit& unit) const {
    std::sort(unit.resources.begin(), unit.resources.end());
    unit.resources.erase(std::unique(unit.resources.begin(), unit.resources.end()),
                         unit.resources.end());
    std::vector<std::string> names;
    for (size_t k = 0; k < std::min(unit.resources.size(), kMostNames); ++k) {
      names.push_back(NameOf(unit.resources[k]));
    }
    const size_t more = unit.resources.size() - names.size();
    return absl::StrCat("small write of ", absl::StrJoin(names, ", "),
                        more > 0 ? absl::StrCat(" and ", more, " more") : "");
  }

  static Node RegionNode(size_t region, const std::string& name) {
    Node made;
    made.name = name;
    made.op = &RegionOp();
    auto attrs = std::make_shared<AttrMap>();
    attrs->Set(kRegionAttr, static_cast<int64_t>(region));
    made.attrs = std::move(attrs);
    return made;
  }

  Graph& graph_;
  const int32_t size_;
  HashMap<std::string, int32_t> named_;  // The first node that names a resource.
  std::vector<int32_t> heavy_before_;
  std::vector<std::vector<int32_t>> users_;
  std::vector<Touch> touches_;
  bool writes_ = false;
  std::vector<Unit> units_;
  int32_t apply_ = 0;  // Where it begins; the size: there is none.
};

}  // namespace

void DivideIntoRegions(Graph& graph, RelaxedRegions& regions) { Divider(graph).Run(regions); }

std::optional<uint32_t> RegionBegunBy(const Node& node) {
  if (node.kind != NodeKind::kOp || node.op != &RegionOp()) return std::nullopt;
  return static_cast<uint32_t>(node.attrs->GetOr<int64_t>(kRegionAttr, 0));
}

}  // namespace formwork
