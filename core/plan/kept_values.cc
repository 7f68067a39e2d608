#include "core/plan/kept_values.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/hash_map.h"
#include "core/base/stop_flag.h"
#include "core/graph/fixed_nodes.h"
#include "core/graph/passes/pipeline.h"
#include "core/kernels/stream_scope.h"
#include "core/ops/cannot_fail.h"

namespace formwork {
namespace {

// Elements to be computed: below that looking is as dear.
constexpr int64_t kFewElements = 1024;
// Kept however small the variables are.
constexpr size_t kFewBytes = size_t{1} << 20;

int64_t ElementsOf(const Node& node) {
  int64_t elements = 0;
  for (const PartialShape& shape : node.output_shapes) {
    const std::optional<Shape> known = shape.ToShape();
    elements += known.has_value() ? std::min(known->num_elements(), kFewElements) : kFewElements;
  }
  return elements;
}

class Splitter {
 public:
  Splitter(const Graph& graph, bool on_device)
      : graph_(graph), fixed_(FixedNodes(graph)), works_(graph.nodes.size()) {
    if (on_device) LeaveOutWhatMayFail();
  }

  std::optional<FixedParts> Run() {
    int64_t elements = 0;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (!fixed_[i] || node.kind != NodeKind::kOp) continue;
      works_[i] =
          !IsFree(node) || std::any_of(node.inputs.begin(), node.inputs.end(),
                                       [this](const Edge& edge) { return works_[edge.node]; });
      if (!IsFree(node)) elements += ElementsOf(node);
    }
    if (elements < kFewElements) return std::nullopt;
    FindResults();
    FindNeeded();
    if (WorkIsCut() || variables_.empty()) return std::nullopt;
    FixedParts parts;
    for (Graph* part : {&parts.loads, &parts.fixed, &parts.rest}) part->name = graph_.name;
    AddLoads(parts.loads);
    AddFixed(parts.fixed);
    AddRest(parts.rest);
    Prune(parts.rest);  // Handles that were there for `loads` alone.
    return parts;
  }

 private:
  void LeaveOutWhatMayFail() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (!fixed_[i] || node.kind != NodeKind::kOp || node.op->loads_variable) continue;
      fixed_[i] = CannotFailByValue(node.op->name, node.output_dtypes) &&
                  std::all_of(node.inputs.begin(), node.inputs.end(),
                              [this](const Edge& edge) { return fixed_[edge.node]; });
    }
  }

  // What is worked for and read by what is not fixed.
  void FindResults() {
    HashSet<Edge> found;
    const auto note = [&](const Edge& edge) {
      if (works_[edge.node] && found.insert(edge).second) results_.push_back(edge);
    };
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (fixed_[i]) continue;
      for (const Edge& edge : graph_.nodes[i].inputs) note(edge);
    }
    for (const Edge& edge : graph_.results) note(edge);
  }

  void FindNeeded() {
    needed_.resize(graph_.nodes.size());
    for (const Edge& edge : results_) needed_[edge.node] = true;
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      if (!needed_[i]) continue;
      const Node& node = graph_.nodes[i];
      if (IsLoad(node)) {
        variables_.push_back(static_cast<int32_t>(i));
        continue;
      }
      for (const Edge& edge : node.inputs) needed_[edge.node] = true;
    }
    std::reverse(variables_.begin(), variables_.end());
  }

  static bool IsLoad(const Node& node) {
    return node.kind == NodeKind::kOp && node.op->loads_variable;
  }

  // Its outputs are those of `like`.
  static Edge AddParameter(Graph& graph, const Node& like, int32_t output) {
    Node parameter;
    parameter.kind = NodeKind::kArg;
    parameter.name = like.name;
    parameter.arg = static_cast<int32_t>(graph.args.size());
    parameter.output_dtypes = {like.output_dtypes[output]};
    if (!like.output_shapes.empty()) parameter.output_shapes = {like.output_shapes[output]};
    graph.args.push_back(static_cast<int32_t>(graph.nodes.size()));
    graph.arg_dtypes.push_back(like.output_dtypes[output]);
    graph.nodes.push_back(std::move(parameter));
    return {graph.args.back(), 0};
  }
  static Edge AddCopy(Graph& graph, const Node& node, const HashMap<Edge, Edge>& moved) {
    Node copy = node;
    for (Edge& edge : copy.inputs) edge = moved.at(edge);
    graph.nodes.push_back(std::move(copy));
    return {static_cast<int32_t>(graph.nodes.size()) - 1, 0};
  }
  static void NoteOutputs(HashMap<Edge, Edge>& moved, int32_t from, const Node& node, Edge to) {
    for (size_t k = 0; k < node.output_dtypes.size(); ++k) {
      moved[{from, static_cast<int32_t>(k)}] = {to.node, static_cast<int32_t>(k)};
    }
  }

  void AddParameters(Graph& part, HashMap<Edge, Edge>& moved) const {
    for (int32_t arg : graph_.args) {
      moved[{arg, 0}] = AddParameter(part, graph_.nodes[arg], 0);
    }
  }

  void AddLoads(Graph& part) const {
    HashMap<Edge, Edge> moved;
    AddParameters(part, moved);
    for (int32_t i : variables_) {
      const Edge handle = graph_.nodes[i].inputs[0];
      if (!moved.contains(handle)) {  // It is no parameter.
        moved[handle] = AddCopy(part, graph_.nodes[handle.node], moved);
      }
      part.results.push_back(AddCopy(part, graph_.nodes[i], moved));
    }
  }

  void AddFixed(Graph& part) const {
    HashMap<Edge, Edge> moved;
    for (int32_t i : variables_) moved[{i, 0}] = AddParameter(part, graph_.nodes[i], 0);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (!needed_[i] || IsLoad(node)) continue;
      NoteOutputs(moved, static_cast<int32_t>(i), node, AddCopy(part, node, moved));
    }
    for (const Edge& edge : results_) part.results.push_back(moved.at(edge));
  }

  void AddRest(Graph& part) const {
    HashMap<Edge, Edge> moved;
    AddParameters(part, moved);
    for (int32_t i : variables_) moved[{i, 0}] = AddParameter(part, graph_.nodes[i], 0);
    for (const Edge& edge : results_) {
      moved[edge] = AddParameter(part, graph_.nodes[edge.node], edge.index);
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const auto at = static_cast<int32_t>(i);
      if (node.kind == NodeKind::kArg || works_[i] || moved.contains(Edge{at, 0})) continue;
      NoteOutputs(moved, at, node, AddCopy(part, node, moved));
    }
    for (const Edge& edge : graph_.results) part.results.push_back(moved.at(edge));
  }

  const Graph& graph_;
  std::vector<bool> fixed_;
  std::vector<bool> works_;   // By node: fixed, and there is something to compute.
  std::vector<bool> needed_;  // For the results.
  std::vector<Edge> results_;
  std::vector<int32_t> variables_;  // Their loads.
};

// Thread-safe.
class KeptValues {
 public:
  explicit KeptValues(size_t num_variables) : num_variables_(num_variables) {}

  void Recall(KernelContext& ctx) {
    const bool hit = Find(ctx);
    if (StreamScope* const streams = ctx.call().streams(); hit && streams != nullptr) {
      for (int k = 1; k < ctx.num_outputs(); ++k) streams->ticket().Hold(ctx.output(k));
    }
    ctx.SetOutput(0, Tensor::Scalar(hit));
  }

  void Keep(const KernelContext& ctx, StreamScope* streams) {
    if (!WorkStatus().ok()) return;  // What was made may be unfinished.
    size_t bytes = 0, variable_bytes = 0;
    Set made;
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      const bool variable = static_cast<size_t>(i) < num_variables_;
      (variable ? variable_bytes : bytes) += ctx.input(i).bytes();
      (variable ? made.variables : made.values).push_back(ctx.input(i));
    }
    if (bytes > 2 * variable_bytes + kFewBytes) return;
    absl::MutexLock lock(&mutex_);
    if (kept_.made != nullptr) return;  // The same, on its way.
    if (++misses_ < misses_wanted_) return;
    if (streams != nullptr) {
      made.made = streams->stream().Record();
      made.status = streams->status();
      made.step = streams->NextStep();
    }
    std::swap(kept_, made);  // What was there goes after the lock.
  }

 private:
  struct Set {
    std::vector<Tensor> variables;  // Empty: nothing is kept.
    std::vector<Tensor> values;
    // Of a device, until it is known that the call that makes the values has done so: the point
    // behind that, how it went, and its next step then.
    EventRef made;
    std::shared_ptr<EnqueuedStatus> status;
    int64_t step = 0;
  };
  static constexpr int64_t kMostMissesWanted = int64_t{1} << 20;

  bool Find(KernelContext& ctx) {
    Set old;  // Goes after the lock.
    absl::MutexLock lock(&mutex_);
    if (kept_.variables.empty()) return false;
    for (size_t i = 0; i < num_variables_; ++i) {
      if (Same(kept_.variables[i], ctx.input(static_cast<int>(i)))) continue;
      std::swap(kept_, old);
      misses_ = 0;
      misses_wanted_ = std::min(2 * misses_wanted_, kMostMissesWanted);
      return false;
    }
    if (kept_.made != nullptr) {
      if (!kept_.made->Done()) return false;
      const bool failed =
          !kept_.made->Await(absl::InfinitePast()).ok() || kept_.status->FailedBefore(kept_.step);
      kept_.made = nullptr;
      kept_.status = nullptr;
      if (failed) {
        std::swap(kept_, old);
        return false;
      }
    }
    for (size_t k = 0; k < kept_.values.size(); ++k) {
      ctx.SetOutput(static_cast<int>(k) + 1, kept_.values[k]);
    }
    return true;
  }

  // What `kept` holds does not change, so that elements in the same place are the same.
  static bool Same(const Tensor& kept, const Tensor& now) {
    if (kept.shape() != now.shape()) return false;
    return kept.buffer() ? kept.raw() == now.raw()
                         : !now.buffer() && std::memcmp(kept.raw(), now.raw(), kept.bytes()) == 0;
  }

  const size_t num_variables_;
  absl::Mutex mutex_;
  int64_t misses_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t misses_wanted_ ABSL_GUARDED_BY(mutex_) = 1;  // Until something is kept.
  Set kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::optional<FixedParts> SplitFixed(const Graph& graph, bool on_device) {
  return Splitter(graph, on_device).Run();
}

KeptValuesKernels MakeKeptValues(size_t num_variables) {
  auto kept = std::make_shared<KeptValues>(num_variables);
  KeptValuesKernels kernels;
  kernels.recall = [kept](KernelContext& ctx) {
    kept->Recall(ctx);
    return absl::OkStatus();
  };
  kernels.keep = [kept](KernelContext& ctx) {
    kept->Keep(ctx, ctx.call().streams());
    return absl::OkStatus();
  };
  return kernels;
}

}  // namespace formwork
