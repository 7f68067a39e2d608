#include "core/plan/streams.h"

#include <algorithm>
#include <utility>

#include "core/base/stop_flag.h"
#include "core/ops/cannot_fail.h"
#include "core/plan/node_work.h"

namespace formwork {
namespace {

constexpr int32_t kNone = -1;
// Over light parts of light parts; what is left stays on stream 0.
constexpr int kMostSweeps = 8;

// Of sizes and counters, which are in host memory.
bool MakesIntegers(const Node& node) {
  return !node.output_dtypes.empty() &&
         std::all_of(node.output_dtypes.begin(), node.output_dtypes.end(),
                     [](DType dtype) { return dtype == DType::kInt32; });
}

// Plays the body through on streams that run what they have in the graph's order.
class Assignment {
 public:
  Assignment(const Graph& graph, int streams, double least_work)
      : graph_(graph),
        size_(static_cast<int32_t>(graph.nodes.size())),
        least_work_(least_work),
        switch_(least_work / 4),
        free_at_(static_cast<size_t>(streams), 0),
        nodes_(graph.nodes.size()),
        streams_(graph.nodes.size(), 0) {}

  std::vector<uint8_t> Run() {
    if (!LookAtNodes()) return std::move(streams_);
    for (int32_t i = 0; i < size_; ++i) {
      if (WorkIsCutAt(i, kDearItems)) return std::vector<uint8_t>(streams_.size(), 0);
      if (nodes_[i].runs) Place(i);
    }
    FoldLightParts();
    PlaceLoads();
    return std::move(streams_);
  }

 private:
  struct Of {
    bool runs = false;   // On a stream; not arguments, constants and loads, which are there.
    bool moves = false;  // To any.
    bool loads = false;
    double work = 0;
    double done = 0;
    int32_t first_use = kNone;
    int32_t part = kNone;  // The first node of those that it is one with, by edges.
  };

  // False where there are no two parts that could run side by side.
  bool LookAtNodes() {
    double all = 0;
    for (int32_t i = 0; i < size_; ++i) {
      const Node& node = graph_.nodes[i];
      Of& of = nodes_[i];
      of.part = i;
      for (const Edge& edge : node.inputs) {
        Of& input = nodes_[edge.node];
        if (input.first_use == kNone) input.first_use = i;
      }
      if (node.kind != NodeKind::kOp || node.op->handle_of != nullptr) continue;
      of.loads = node.op->loads_variable;
      of.runs = !of.loads && !MakesIntegers(node);
      of.moves = of.runs && node.op->effect == Effect::kNone && node.bodies.empty() &&
                 !node.wants_host && CannotFailByValue(node.op->name, node.output_dtypes);
      if (!of.runs) continue;
      of.work = WorkOf(graph_, node);
      if (of.moves) all += of.work;
    }
    return free_at_.size() > 1 && all >= 2 * least_work_;
  }

  // The input that is there last; none where nothing has to be waited for.
  int32_t LastInput(int32_t i) const {
    int32_t last = kNone;
    for (const Edge& edge : graph_.nodes[i].inputs) {
      if (!nodes_[edge.node].runs) continue;
      if (last == kNone || nodes_[edge.node].done > nodes_[last].done) last = edge.node;
    }
    return last;
  }

  double DoneOn(int32_t i, size_t stream) const {
    double begin = free_at_[stream];
    for (const Edge& edge : graph_.nodes[i].inputs) {
      const Of& input = nodes_[edge.node];
      if (!input.runs) continue;
      begin = std::max(begin, input.done + (streams_[edge.node] == stream ? 0 : switch_));
    }
    return begin + nodes_[i].work;
  }

  // Whether its inputs come from several streams.
  bool IsJoin(int32_t i) const {
    int first = kNone;
    for (const Edge& edge : graph_.nodes[i].inputs) {
      if (!nodes_[edge.node].runs) continue;
      if (first == kNone) first = streams_[edge.node];
      if (first != streams_[edge.node]) return true;
    }
    return false;
  }

  void Place(int32_t i) {
    const int32_t last = LastInput(i);
    size_t stream = last == kNone || !nodes_[i].moves ? 0 : streams_[last];
    double done = DoneOn(i, stream);
    for (size_t other = 0; nodes_[i].moves && other < free_at_.size(); ++other) {
      // Somebody has to wait for it there.
      if (DoneOn(i, other) + switch_ >= done) continue;
      stream = other;
      done = DoneOn(i, other);
    }
    if (nodes_[i].moves && IsJoin(i)) {  // What comes together comes back.
      for (size_t lower = 0; lower < stream; ++lower) {
        if (DoneOn(i, lower) > done + switch_) continue;
        stream = lower;
        break;
      }
      done = DoneOn(i, stream);
    }
    streams_[i] = static_cast<uint8_t>(stream);
    nodes_[i].done = free_at_[stream] = done;
  }

  int32_t PartOf(int32_t i) {
    while (nodes_[i].part != i) i = nodes_[i].part = nodes_[nodes_[i].part].part;
    return i;
  }

  // Parts that are not worth it go back to where their inputs come from; those that have none, to
  // where they are used.
  void FoldLightParts() {
    std::vector<double> work(nodes_.size(), 0);
    for (int32_t i = 0; i < size_; ++i) {
      for (const Edge& edge : graph_.nodes[i].inputs) {
        if (!nodes_[i].runs || !nodes_[edge.node].runs) continue;
        if (streams_[edge.node] != streams_[i]) continue;
        const std::pair<int32_t, int32_t> parts = std::minmax({PartOf(edge.node), PartOf(i)});
        nodes_[parts.second].part = parts.first;
      }
    }
    for (int32_t i = 0; i < size_; ++i) work[PartOf(i)] += nodes_[i].work;
    settled_.assign(nodes_.size(), true);
    for (int32_t part = 0; part < size_; ++part) {
      if (streams_[part] != 0 && work[PartOf(part)] < least_work_) settled_[PartOf(part)] = false;
    }
    for (int sweep = 0; sweep < kMostSweeps && Settle(/*by_inputs=*/true); ++sweep) {
    }
    for (int sweep = 0; sweep < kMostSweeps && Settle(/*by_inputs=*/false); ++sweep) {
    }
    for (int32_t i = 0; i < size_; ++i) {
      if (!nodes_[i].runs) continue;
      streams_[i] = settled_[PartOf(i)] ? streams_[PartOf(i)] : 0;
    }
  }

  // Gives parts the stream of an input that is settled, of the last one, or of the first use. False
  // where there is none more.
  bool Settle(bool by_inputs) {
    std::vector<int32_t> best(nodes_.size(), kNone);
    for (int32_t i = 0; i < size_; ++i) {
      for (const Edge& edge : graph_.nodes[i].inputs) {
        if (!nodes_[i].runs || !nodes_[edge.node].runs) continue;
        const int32_t part = PartOf(by_inputs ? i : edge.node);
        const int32_t other = by_inputs ? edge.node : i;
        if (settled_[part] || !settled_[PartOf(other)]) continue;
        const bool better =
            best[part] == kNone || (by_inputs && nodes_[other].done > nodes_[best[part]].done);
        if (better) best[part] = other;
      }
    }
    bool any = false;
    for (int32_t part = 0; part < size_; ++part) {
      if (best[part] == kNone) continue;
      streams_[part] = streams_[PartOf(best[part])];
      settled_[part] = any = true;
    }
    return any;
  }

  void PlaceLoads() {
    for (int32_t i = 0; i < size_; ++i) {
      if (nodes_[i].loads && nodes_[i].first_use != kNone) {
        streams_[i] = streams_[nodes_[i].first_use];
      }
    }
  }

  const Graph& graph_;
  const int32_t size_;
  const double least_work_;
  const double switch_;  // What a wait for another stream costs.
  std::vector<double> free_at_;
  std::vector<Of> nodes_;
  std::vector<bool> settled_;  // Of parts, by their first nodes.
  std::vector<uint8_t> streams_;
};

}  // namespace

std::vector<uint8_t> AssignStreams(const Graph& graph, int streams, double least_work) {
  return Assignment(graph, streams, least_work).Run();
}

}  // namespace formwork
