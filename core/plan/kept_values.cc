#include "core/plan/kept_values.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/hash_map.h"
#include "core/base/stop_flag.h"
#include "core/graph/fixed_nodes.h"

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
  explicit Splitter(const Graph& graph)
      : graph_(graph), fixed_(FixedNodes(graph)), works_(graph.nodes.size()) {}

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
    return parts;
  }

 private:
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
    for (int32_t i : variables_) part.results.push_back(AddCopy(part, graph_.nodes[i], moved));
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
  const std::vector<bool> fixed_;
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
    ctx.SetOutput(0, Tensor::Scalar(hit));
  }

  void Keep(const KernelContext& ctx) {
    if (!WorkStatus().ok()) return;  // What was made may be unfinished.
    size_t bytes = 0, variable_bytes = 0;
    std::vector<Tensor> variables, values;
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      const bool variable = static_cast<size_t>(i) < num_variables_;
      (variable ? variable_bytes : bytes) += ctx.input(i).bytes();
      (variable ? variables : values).push_back(ctx.input(i));
    }
    if (bytes > 2 * variable_bytes + kFewBytes) return;
    absl::MutexLock lock(&mutex_);
    if (++misses_ < misses_wanted_) return;
    variables_.swap(variables);  // What was there goes after the lock.
    values_.swap(values);
  }

 private:
  static constexpr int64_t kMostMissesWanted = int64_t{1} << 20;

  bool Find(KernelContext& ctx) {
    std::vector<Tensor> old_variables, old_values;  // Go after the lock.
    absl::MutexLock lock(&mutex_);
    if (variables_.empty()) return false;
    for (size_t i = 0; i < num_variables_; ++i) {
      if (Same(variables_[i], ctx.input(static_cast<int>(i)))) continue;
      variables_.swap(old_variables);
      values_.swap(old_values);
      misses_ = 0;
      misses_wanted_ = std::min(2 * misses_wanted_, kMostMissesWanted);
      return false;
    }
    for (size_t k = 0; k < values_.size(); ++k) ctx.SetOutput(static_cast<int>(k) + 1, values_[k]);
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
  int64_t misses_wanted_ ABSL_GUARDED_BY(mutex_) = 1;      // Until something is kept.
  std::vector<Tensor> variables_ ABSL_GUARDED_BY(mutex_);  // Empty: nothing is kept.
  std::vector<Tensor> values_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::optional<FixedParts> SplitFixed(const Graph& graph) { return Splitter(graph).Run(); }

KeptValuesKernels MakeKeptValues(size_t num_variables) {
  auto kept = std::make_shared<KeptValues>(num_variables);
  KeptValuesKernels kernels;
  kernels.recall = [kept](KernelContext& ctx) {
    kept->Recall(ctx);
    return absl::OkStatus();
  };
  kernels.keep = [kept](KernelContext& ctx) {
    kept->Keep(ctx);
    return absl::OkStatus();
  };
  return kernels;
}

}  // namespace formwork
