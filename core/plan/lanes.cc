#include "core/plan/lanes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/base/hash_map.h"
#include "core/base/stop_flag.h"
#include "core/graph/element_nodes.h"
#include "core/graph/fixed_nodes.h"
#include "core/plan/node_work.h"

namespace formwork {
namespace {

// A lane costs some microseconds: its start on another thread, and what that thread has to load.
constexpr double kLeastLaneNanos = 50'000;
// What running side by side must save, of all.
constexpr double kLeastGain = 0.125;
// Looking for lanes visits each node so often on average, at most.
constexpr int64_t kVisitsPerNode = 64;

// Whether the node, and all in its bodies, is pure or reads.
bool FitsLane(const Node& node) {
  std::vector<const Node*> open = {&node};
  while (!open.empty()) {
    const Node& next = *open.back();
    open.pop_back();
    if (next.kind == NodeKind::kArg || next.kind == NodeKind::kConstant) continue;
    if (next.kind != NodeKind::kOp || next.op->handle_of != nullptr) return false;
    if (next.bodies.empty()) {
      const bool pure = next.op->effect == Effect::kNone || next.op->effect == Effect::kRead;
      if (!pure || next.op->control_flow != ControlFlow::kNone) return false;
    }
    for (const Graph& body : next.bodies) {
      for (const Node& inner : body.nodes) open.push_back(&inner);
    }
  }
  return true;
}

// One graph; not the bodies of its nodes.
class Forker {
 public:
  explicit Forker(Graph& graph)
      : graph_(graph),
        size_(static_cast<int32_t>(graph.nodes.size())),
        visits_(kVisitsPerNode * size_),
        uses_(graph.nodes.size(), 0),
        found_(graph.nodes.size(), 0),
        window_(graph.nodes.size() + 1, 0),
        fits_(graph.nodes.size(), false),
        work_(graph.nodes.size(), 0),
        taken_(graph.nodes.size(), false),
        uses_in_lanes_(graph.nodes.size(), 0),
        place_(graph.nodes.size(), -1) {}

  void Run() {
    if (!LookAtNodes()) return;
    // The last one first: what it forks holds what others could.
    for (int32_t join = size_; join >= 0 && visits_ > 0; --join) {
      if (WorkIsCutAt(join, kDearItems)) return;
      if (join < size_ && taken_[join]) continue;
      ForkBefore(join);
    }
    if (!forks_.empty()) Rewrite();
  }

 private:
  struct Lane {
    std::vector<int32_t> nodes;
    std::vector<int32_t> outputs;  // Of the last one: what is needed of it.
    double work = 0;
  };
  struct Fork {
    int32_t join;  // graph_'s size: its results.
    std::vector<Lane> lanes;
  };

  const std::vector<Edge>& InputsOf(int32_t join) const {
    return join == size_ ? graph_.results : graph_.nodes[join].inputs;
  }

  // False where there are no two nodes that could be lanes.
  bool LookAtNodes() {
    double all = 0;
    // What follows from variables alone is kept from call to call instead.
    const std::vector<bool> fixed = FixedNodes(graph_);
    for (int32_t i = 0; i < size_; ++i) {
      if (WorkIsCutAt(i, kDearItems)) return false;
      const Node& node = graph_.nodes[i];
      for (const Edge& edge : node.inputs) ++uses_[edge.node];
      window_[i + 1] = window_[i] + (HasEffect(node) ? 1 : 0);
      fits_[i] = node.kind == NodeKind::kOp && !fixed[i] && FitsLane(node);
      // Elementwise steps are split over the threads as they are, and lanes would part those that
      // are to be one step.
      if (fits_[i] && FusableOp(graph_.nodes, node) == nullptr) {
        all += work_[i] = WorkOf(graph_, node);
      }
    }
    for (const Edge& edge : graph_.results) ++uses_[edge.node];
    return all >= 2 * kLeastLaneNanos;
  }

  void ForkBefore(int32_t join) {
    Fork fork{join, {}};
    double all = 0;
    double most = 0;
    std::vector<Edge> inputs = InputsOf(join);
    if (inputs.size() < 2) return;
    std::sort(inputs.begin(), inputs.end(), [](const Edge& a, const Edge& b) {
      return std::pair(a.node, a.index) < std::pair(b.node, b.index);
    });
    for (size_t begin = 0, end = 0; begin < inputs.size(); begin = end) {
      while (end < inputs.size() && inputs[end].node == inputs[begin].node) ++end;
      Lane lane = LaneTo(absl::MakeConstSpan(inputs).subspan(begin, end - begin), join);
      if (lane.work < kLeastLaneNanos || !MayBeLane(lane)) continue;
      all += lane.work;
      most = std::max(most, lane.work);
      fork.lanes.push_back(std::move(lane));
    }
    if (fork.lanes.size() < 2 || all - most < std::max(kLeastLaneNanos, kLeastGain * all)) return;
    for (const Lane& lane : fork.lanes) {
      for (int32_t i : lane.nodes) {
        taken_[i] = true;
        for (const Edge& edge : graph_.nodes[i].inputs) ++uses_in_lanes_[edge.node];
      }
    }
    forks_.push_back(std::move(fork));
  }

  // The node that `used` are outputs of, where `join` alone needs it, by just these, and what is
  // needed by that alone; in the graph's order.
  Lane LaneTo(absl::Span<const Edge> used, int32_t join) {
    Lane lane;
    const int32_t root = used[0].node;
    if (static_cast<int32_t>(used.size()) != uses_[root] || !MayJoin(root, join)) return lane;
    for (const Edge& edge : used) {
      if (lane.outputs.empty() || lane.outputs.back() != edge.index) {
        lane.outputs.push_back(edge.index);
      }
    }
    std::vector<int32_t> seen;
    lane.nodes.push_back(root);
    for (size_t k = 0; k < lane.nodes.size(); ++k) {
      lane.work += work_[lane.nodes[k]];
      for (const Edge& edge : graph_.nodes[lane.nodes[k]].inputs) {
        --visits_;
        seen.push_back(edge.node);
        if (++found_[edge.node] == uses_[edge.node] && MayJoin(edge.node, join)) {
          lane.nodes.push_back(edge.node);
        }
      }
    }
    for (int32_t i : seen) found_[i] = 0;
    std::sort(lane.nodes.begin(), lane.nodes.end());
    return lane;
  }

  bool MayJoin(int32_t i, int32_t join) const {
    return fits_[i] && !taken_[i] && window_[i] == window_[join];
  }

  // Whether nothing comes out of it that may hold a handle: the planner follows those.
  bool MayBeLane(const Lane& lane) const {
    const std::vector<DType>& dtypes = graph_.nodes[lane.nodes.back()].output_dtypes;
    return std::all_of(lane.outputs.begin(), lane.outputs.end(), [&dtypes](int32_t k) {
      return dtypes[k] != DType::kResource && dtypes[k] != DType::kVariant;
    });
  }

  void Rewrite() {
    std::reverse(forks_.begin(), forks_.end());
    size_t next = 0;
    for (int32_t i = 0; i <= size_; ++i) {
      if (next < forks_.size() && forks_[next].join == i) AddFork(forks_[next++]);
      if (i == size_ || taken_[i] || IsInLanesAlone(i)) continue;
      Node& node = nodes_.emplace_back(std::move(graph_.nodes[i]));
      for (Edge& edge : node.inputs) edge = Moved(edge);
      place_[i] = static_cast<int32_t>(nodes_.size()) - 1;
    }
    for (Edge& edge : graph_.results) edge = Moved(edge);
    for (int32_t& arg : graph_.args) arg = place_[arg];
    graph_.nodes = std::move(nodes_);
  }

  // Each lane has constants of its own.
  bool IsInLanesAlone(int32_t i) const {
    return graph_.nodes[i].kind == NodeKind::kConstant && uses_[i] > 0 &&
           uses_[i] == uses_in_lanes_[i];
  }

  Edge Moved(Edge edge) const {
    const auto found = outputs_.find(edge);
    return found == outputs_.end() ? Edge{place_[edge.node], edge.index} : found->second;
  }

  void AddFork(Fork& fork) {
    const int32_t at = static_cast<int32_t>(nodes_.size());
    Node made;
    made.kind = NodeKind::kFork;
    if (fork.join < size_) made.name = graph_.nodes[fork.join].name;
    for (Lane& lane : fork.lanes) {
      Graph body = MakeBody(lane, made);
      const int32_t root = lane.nodes.back();
      for (const Edge& result : body.results) {
        const Node& last = body.nodes[result.node];
        outputs_[{root, result.index}] = {at, static_cast<int32_t>(made.output_dtypes.size())};
        made.output_dtypes.push_back(last.output_dtypes[result.index]);
        made.output_shapes.push_back(body.shape(result));
      }
      made.bodies.push_back(std::move(body));
    }
    nodes_.push_back(std::move(made));
  }

  // Adds what the lane reads from outside to the inputs of `fork`.
  Graph MakeBody(Lane& lane, Node& fork) {
    Graph body;
    body.name = absl::StrCat("lane '", graph_.nodes[lane.nodes.back()].name, "'");
    HashMap<int32_t, int32_t> place;  // Of the lane's own.
    HashMap<Edge, int32_t> outside;
    for (int32_t i : lane.nodes) {
      Node node = std::move(graph_.nodes[i]);
      for (Edge& edge : node.inputs) {
        if (const auto own = place.find(edge.node); own != place.end()) {
          edge.node = own->second;
          continue;
        }
        const auto [found, is_new] =
            outside.try_emplace(edge, static_cast<int32_t>(body.nodes.size()));
        if (is_new) AddOutside(edge, body, fork);
        edge = {found->second, 0};
      }
      place[i] = static_cast<int32_t>(body.nodes.size());
      body.nodes.push_back(std::move(node));
    }
    const int32_t last = static_cast<int32_t>(body.nodes.size()) - 1;
    for (int32_t k : lane.outputs) body.results.push_back({last, k});
    return body;
  }

  // Constants go with a lane, all else that it reads is a parameter.
  void AddOutside(Edge edge, Graph& body, Node& fork) {
    if (!taken_[edge.node] && place_[edge.node] < 0) {  // A constant of lanes alone.
      body.nodes.push_back(graph_.nodes[edge.node]);
      return;
    }
    const Edge from = Moved(edge);
    const Node& source = nodes_[from.node];
    if (source.kind == NodeKind::kConstant) {
      body.nodes.push_back(source);
      return;
    }
    Node arg;
    arg.kind = NodeKind::kArg;
    arg.arg = static_cast<int32_t>(body.args.size());
    arg.output_dtypes = {source.output_dtypes[from.index]};
    if (!source.output_shapes.empty()) arg.output_shapes = {source.output_shapes[from.index]};
    body.args.push_back(static_cast<int32_t>(body.nodes.size()));
    body.arg_dtypes.push_back(arg.output_dtypes[0]);
    body.nodes.push_back(std::move(arg));
    fork.inputs.push_back(from);
  }

  Graph& graph_;
  const int32_t size_;
  int64_t visits_;  // That are left.
  std::vector<int32_t> uses_, found_;
  std::vector<int32_t> window_;  // How many effects come before: nothing moves over one.
  std::vector<bool> fits_;
  std::vector<double> work_;
  std::vector<bool> taken_;
  std::vector<Fork> forks_;
  std::vector<int32_t> uses_in_lanes_;
  // The graph as it becomes.
  std::vector<Node> nodes_;
  std::vector<int32_t> place_;   // In it, of the nodes that stay.
  HashMap<Edge, Edge> outputs_;  // In it, of the lanes' last nodes.
};

}  // namespace

void ForkLanes(Graph& graph) {
  std::vector<Graph*> open = {&graph};
  while (!open.empty()) {
    Graph& next = *open.back();
    open.pop_back();
    Forker(next).Run();
    for (Node& node : next.nodes) {
      if (node.kind == NodeKind::kFork) continue;
      for (Graph& body : node.bodies) open.push_back(&body);
    }
  }
}

}  // namespace formwork
