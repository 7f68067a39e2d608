#include "core/graph/import_body.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>

#include "absl/strings/str_cat.h"
#include "core/base/hash_map.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/graph/decode.h"
#include "core/graph/import_node.h"
#include "core/graph/input_name.h"
#include "core/graph/lower_control_flow.h"
#include "core/graph/lower_named_state.h"
#include "core/graph/lower_references.h"
#include "core/graph/lower_tensor_arrays.h"

namespace formwork {
namespace {

// One body on its way from NodeDefs to a Graph. Where the work is cut each step ends early, and the
// graph is of no use.
class BodyImporter {
 public:
  BodyImporter(const NodeList& defs, std::string where, ImportScope& scope)
      : defs_(defs), where_(std::move(where)), scope_(scope), reached_(defs.size()) {
    index_.reserve(defs.size());
    for (int i = 0; i < num_defs() && !WorkIsCutAt(i, kDearItems); ++i) {
      if (!index_.try_emplace(defs[i]->name(), i).second) {
        Wrong(defs[i]->name(), "there are two nodes of this name");
      }
    }
  }

  // Declares a parameter.
  int AddArg(absl::string_view name, DType dtype, bool distinct = false) {
    Node node;
    node.kind = NodeKind::kArg;
    node.name = std::string(name);
    node.output_dtypes = {dtype};
    node.distinct = distinct;
    node.arg = static_cast<int32_t>(args_.size());
    args_.push_back(std::move(node));
    return static_cast<int>(args_.size()) - 1;
  }
  // False where that tensor is fed already.
  bool Feed(absl::string_view node, int index, int arg) {
    return fed_.try_emplace({std::string(node), index}, arg).second;
  }
  std::optional<int> FindDef(absl::string_view name) const {
    auto found = index_.find(name);
    if (found == index_.end()) return std::nullopt;
    return found->second;
  }

  // Marks everything that `text` needs; as a root it is reported by `what`.
  void Reach(absl::string_view text, absl::string_view what) {
    const InputName name = ParseInput(text);
    if (!name.valid) {
      Wrong(what, absl::StrCat("malformed tensor name '", Shown(text), "'"));
      return;
    }
    if (!name.control && FedArg(name)) return;
    std::optional<int> def = FindDef(name.node);
    if (!def) {
      // "^parameter": it is there before anything runs.
      if (name.control && FedArg(ParseInput(name.node))) return;
      Wrong(what, absl::StrCat("'", Shown(name.node), "' is not in the graph"));
      return;
    }
    if (!name.control && defs_[*def]->op() == "Placeholder" && unfed_.insert(*def).second) {
      Wrong(name.node, "Placeholder: it is neither an input nor a capture");
    }
    ReachDef(*def);
  }
  void ReachDef(int def) {
    if (reached_[def]) return;
    reached_[def] = true;
    pending_.push_back(def);
  }
  // Follows the inputs of what has been reached.
  void ReachAll() {
    for (int64_t i = 0; !pending_.empty() && !WorkIsCutAt(i, kDearItems); ++i) {
      const int def = pending_.back();
      pending_.pop_back();
      for (const std::string& input : defs_[def]->input()) Reach(input, defs_[def]->name());
    }
  }

  // Turns the reached defs into nodes, in an order in which they may run.
  std::shared_ptr<Graph> Build(std::string name);

  // After Build: the edge of a result text.
  std::optional<Edge> Resolve(absl::string_view text, absl::string_view what) {
    const InputName input = ParseInput(text);
    if (std::optional<int> arg = FedArg(input)) return Edge{*arg, 0};
    std::optional<int> def = FindDef(input.node);
    if (!def || node_of_[*def] < 0) {
      Wrong(what, absl::StrCat("'", Shown(input.node), "' is not in the graph"));
      return std::nullopt;
    }
    return ResolveIn(node_of_[*def], input, what);
  }

  void Wrong(absl::string_view node, absl::string_view text) {
    scope_.problems.Wrong(absl::StrCat(where_, "node '", Shown(node), "': ", text));
  }

 private:
  std::optional<int> FedArg(const InputName& name) const {
    if (fed_.empty() || !name.out.empty()) return std::nullopt;
    auto found = fed_.find(std::make_pair(std::string(name.node), name.index));
    if (found == fed_.end()) return std::nullopt;
    return found->second;
  }

  // Gives node i its inputs and checks their number and dtypes.
  void Connect(int i);
  // An order in which all may run, always the smallest index that is free: the same every time.
  // What is part of a cycle, or behind one, is not in it.
  std::vector<int> Order() const;
  void ReportCycle(const std::vector<int>& order);

  std::optional<Edge> ResolveIn(int imported, const InputName& input, absl::string_view what) {
    const ImportedNode& source = imported_[imported];
    const Node& node = built_ == nullptr ? source.node : built_->nodes[args_.size() + imported];
    auto missing = [&](const auto& output) {
      Wrong(what, absl::StrCat("'", Shown(input.node), "' has no output ", output,
                               ": outputs=", node.output_dtypes.size()));
      return std::nullopt;
    };
    int64_t index = input.index;
    const auto& names = source.output_names;
    if (!input.out.empty() && !names.empty()) {
      auto name = std::find(names.begin(), names.end(), input.out);
      if (name == names.end()) return missing(absl::StrCat("'", Shown(input.out), "'"));
      index += name - names.begin();
    } else if (!input.out.empty()) {
      const auto& outputs = source.given_op->outputs;
      auto arg = std::find_if(outputs.begin(), outputs.end(),
                              [&](const ArgDef& a) { return a.name == input.out; });
      if (arg == outputs.end()) return missing(absl::StrCat("'", Shown(input.out), "'"));
      index += source.output_starts[arg - outputs.begin()];
    }
    if (index >= static_cast<int64_t>(node.output_dtypes.size())) return missing(index);
    return Edge{static_cast<int32_t>(args_.size()) + imported, static_cast<int32_t>(index)};
  }

  int num_defs() const { return static_cast<int>(defs_.size()); }

  const NodeList& defs_;
  const std::string where_;
  ImportScope& scope_;
  HashMap<absl::string_view, int> index_;
  HashMap<std::pair<std::string, int>, int> fed_;
  std::vector<Node> args_;
  std::vector<bool> reached_;  // By def.
  HashSet<int> unfed_;         // Placeholders whose values are asked for.
  std::vector<int> pending_;
  // The reached defs, in their order; after Build, in that of the list, which has their nodes.
  std::vector<ImportedNode> imported_;
  const Graph* built_ = nullptr;
  std::vector<int> def_of_;                  // imported_ -> def
  std::vector<int> node_of_;                 // def -> imported_; -1: not reached.
  std::vector<bool> sound_;                  // Whether op, attrs and output types are known.
  std::vector<std::vector<int>> consumers_;  // By data and by control.
  std::vector<int> num_sources_;
};

void BodyImporter::Connect(int i) {
  const tf::NodeDef& def = *defs_[def_of_[i]];
  Node& node = imported_[i].node;
  const Edge unknown{-1, 0};  // Of what has been reported already.
  for (const std::string& text : def.input()) {
    if (WorkIsCutAt(static_cast<int64_t>(node.inputs.size()))) return;
    const InputName input = ParseInput(text);
    if (std::optional<int> arg = input.control ? std::nullopt : FedArg(input)) {
      node.inputs.push_back({*arg, 0});
      continue;
    }
    std::optional<int> source = FindDef(input.node);
    if (!source || !input.valid) {
      if (!input.control) node.inputs.push_back(unknown);
      continue;
    }
    const int from = node_of_[*source];
    consumers_[from].push_back(i);
    ++num_sources_[i];
    if (input.control) continue;
    std::optional<Edge> edge;
    if (sound_[from]) edge = ResolveIn(from, input, def.name());
    node.inputs.push_back(edge.value_or(unknown));
  }
  if (!sound_[i]) return;
  auto wrong = [&](const absl::Status& status) {
    Wrong(def.name(), absl::StrCat(Shown(def.op()), ": ", status.message()));
  };
  absl::StatusOr<std::vector<DType>> expected = InputDTypes(node);
  if (!expected.ok()) return wrong(expected.status());
  if (expected->size() != node.inputs.size()) {
    return wrong(InvalidArgument("wrong number of inputs: expected=", expected->size(),
                                 " given=", node.inputs.size()));
  }
  const int num_args = static_cast<int>(args_.size());
  for (size_t k = 0; k < expected->size(); ++k) {
    const Edge edge = node.inputs[k];
    if (edge == unknown) continue;
    const DType given = edge.node < num_args
                            ? args_[edge.node].output_dtypes[0]
                            : imported_[edge.node - num_args].node.output_dtypes[edge.index];
    if (given != (*expected)[k]) {
      wrong(InvalidArgument("input ", k, " has a wrong dtype: expected=", DTypeName((*expected)[k]),
                            " given=", DTypeName(given)));
    }
  }
  CallHere(scope_, node, *expected);
  if (absl::Status status = CheckCallees(node, *expected, scope_); !status.ok()) wrong(status);
}

std::vector<int> BodyImporter::Order() const {
  std::vector<int> order;
  order.reserve(imported_.size());
  std::vector<int> waits = num_sources_;
  std::priority_queue<int, std::vector<int>, std::greater<int>> free;
  for (size_t i = 0; i < waits.size(); ++i) {
    if (waits[i] == 0) free.push(static_cast<int>(i));
  }
  while (!free.empty() && !WorkIsCutAt(static_cast<int64_t>(order.size()), kDearItems)) {
    const int i = free.top();
    free.pop();
    order.push_back(i);
    for (int consumer : consumers_[i]) {
      if (--waits[consumer] == 0) free.push(consumer);
    }
  }
  return order;
}

void BodyImporter::ReportCycle(const std::vector<int>& order) {
  std::vector<bool> waits(imported_.size(), true);
  for (int i : order) waits[i] = false;
  // Who waits has a source that waits: going back from source to source ends in a circle.
  std::vector<int> source(imported_.size(), -1);
  for (size_t i = 0; i < waits.size(); ++i) {
    if (!waits[i]) continue;
    for (int consumer : consumers_[i]) source[consumer] = static_cast<int>(i);
  }
  int at = static_cast<int>(std::find(waits.begin(), waits.end(), true) - waits.begin());
  for (size_t i = 0; i < waits.size(); ++i) at = source[at];
  int first = at;
  size_t length = 0;
  for (int i = at; length == 0 || i != at; i = source[i], ++length) first = std::min(first, i);
  Wrong(defs_[def_of_[first]]->name(),
        absl::StrCat("the graph has a cycle through this node: nodes=", length, " before it='",
                     Shown(defs_[def_of_[source[first]]]->name()), "'"));
}

std::shared_ptr<Graph> BodyImporter::Build(std::string name) {
  auto graph = std::make_shared<Graph>();
  graph->name = std::move(name);
  for (int def = 0; def < num_defs(); ++def) {
    if (reached_[def]) def_of_.push_back(def);
  }
  const int count = static_cast<int>(def_of_.size());
  imported_.resize(count);
  sound_.resize(count);
  consumers_.resize(count);
  num_sources_.resize(count);
  node_of_.assign(defs_.size(), -1);
  for (int i = 0; i < count; ++i) node_of_[def_of_[i]] = i;
  for (int i = 0; i < count; ++i) {
    if (WorkIsCut()) return graph;
    sound_[i] = ImportNode(*defs_[def_of_[i]], where_, scope_, imported_[i]);
  }
  for (int i = 0; i < count && !WorkIsCutAt(i, kDearItems); ++i) Connect(i);
  const std::vector<int> order = Order();
  if (!WorkStatus().ok()) return graph;
  if (static_cast<int>(order.size()) != count) ReportCycle(order);
  if (!scope_.problems.empty()) return graph;

  const int num_args = static_cast<int>(args_.size());
  std::vector<int32_t> place(num_args + count);
  for (int i = 0; i < num_args; ++i) {
    place[i] = i;
    graph->args.push_back(i);
    graph->arg_dtypes.push_back(args_[i].output_dtypes[0]);
    graph->nodes.push_back(std::move(args_[i]));
  }
  // Resolve looks nodes up in imported_: it is brought into the order of the list too.
  std::vector<ImportedNode> sorted;
  sorted.reserve(count);
  for (int k = 0; k < count; ++k) {
    place[num_args + order[k]] = num_args + k;
    node_of_[def_of_[order[k]]] = k;
    sorted.push_back(std::move(imported_[order[k]]));
    graph->nodes.push_back(std::move(sorted.back().node));
  }
  imported_ = std::move(sorted);
  built_ = graph.get();
  for (Node& node : graph->nodes) {
    for (Edge& edge : node.inputs) edge.node = place[edge.node];
  }
  return graph;
}

}  // namespace

namespace {

// The nodes of a body without what older graphs have instead of newer ones.
struct LoweredBody {
  // `fed`: nodes whose output 0 has its value from elsewhere.
  LoweredBody(const google::protobuf::RepeatedPtrField<tf::NodeDef>& defs, HashSet<std::string> fed,
              ImportScope& scope)
      : named(defs, fed),
        references(named.defs(), std::move(fed), scope.ops),
        arrays(ListOf(references.defs())) {}

  static NodeList ListOf(const google::protobuf::RepeatedPtrField<tf::NodeDef>& defs) {
    NodeList nodes;
    nodes.reserve(defs.size());
    for (const tf::NodeDef& def : defs) nodes.push_back(&def);
    return nodes;
  }
  std::string ValueOf(absl::string_view text) const {
    return arrays.ValueOf(references.ValueOf(text));
  }

  const LoweredNamedState named;
  const LoweredReferences references;
  const LoweredTensorArrays arrays;
};

}  // namespace

std::shared_ptr<const Graph> ImportCut(const tf::GraphDef& graph_def, const Cut& cut,
                                       ImportScope& scope) {
  HashSet<std::string> fed;
  FlowParameters parameters;
  for (const auto& [tensor, dtype] : cut.feeds) {
    const InputName name = ParseInput(tensor);
    if (name.index == 0) fed.insert(std::string(name.node));
    parameters.try_emplace({std::string(name.node), name.index}, dtype);
  }
  const LoweredBody body(graph_def.node(), std::move(fed), scope);
  LoweredControlFlow::Roots roots{{}, cut.targets, /*effects=*/false};
  for (const std::string& fetch : cut.fetches) roots.tensors.push_back(body.ValueOf(fetch));
  const LoweredControlFlow lowered(body.arrays.nodes(), parameters, roots, "", scope);
  if (!lowered.ok()) return std::make_shared<Graph>();
  BodyImporter importer(lowered.nodes(), "", scope);
  for (size_t i = 0; i < cut.feeds.size(); ++i) {
    const auto& [tensor, dtype] = cut.feeds[i];
    const InputName name = ParseInput(tensor);
    std::optional<int> def = importer.FindDef(name.node);
    const int arg = importer.AddArg(tensor, dtype, i < cut.distinct.size() && cut.distinct[i]);
    if (!name.valid || name.control || !def) {
      importer.Wrong(name.node,
                     absl::StrCat("the fed tensor '", Shown(tensor), "' is not in the graph"));
      continue;
    }
    if (!importer.Feed(name.node, name.index, arg)) {
      importer.Wrong(name.node, absl::StrCat("the tensor '", Shown(tensor), "' is fed twice"));
    }
    // What is fed is cut off: mistakes of the node itself do not matter.
    absl::StatusOr<std::vector<DType>> dtypes = OutputDTypes(*lowered.nodes()[*def], scope);
    if (!dtypes.ok()) continue;
    if (name.index >= static_cast<int>(dtypes->size())) {
      importer.Wrong(name.node, absl::StrCat("the fed tensor '", Shown(tensor),
                                             "' is not in the graph: outputs=", dtypes->size()));
    } else if ((*dtypes)[name.index] != dtype) {
      importer.Wrong(name.node,
                     absl::StrCat("fed with a wrong dtype: expected=",
                                  DTypeName((*dtypes)[name.index]), " given=", DTypeName(dtype)));
    }
  }
  for (const std::string& fetch : roots.tensors) importer.Reach(fetch, "fetch");
  for (const std::string& target : cut.targets) {
    importer.Reach(absl::StrCat("^", lowered.NodeOf(target)), "target");
  }
  importer.ReachAll();
  std::shared_ptr<Graph> graph = importer.Build("");
  if (!scope.problems.empty() || !WorkStatus().ok()) return graph;
  for (const std::string& fetch : roots.tensors) {
    if (std::optional<Edge> edge = importer.Resolve(fetch, "fetch"))
      graph->results.push_back(*edge);
  }
  return graph;
}

std::shared_ptr<const Graph> ImportFunction(const tf::FunctionDef& function, ImportScope& scope) {
  const std::string& name = function.signature().name();
  const std::string where = absl::StrCat("function '", Shown(name), "': ");
  HashSet<std::string> fed;
  FlowParameters parameters;
  for (const auto& arg : function.signature().input_arg()) {
    fed.insert(arg.name());
    parameters.try_emplace({arg.name(), 0}, DTypeFromNumber(arg.type()));
  }
  const LoweredBody body(function.node_def(), std::move(fed), scope);
  LoweredControlFlow::Roots roots{{}, {}, /*effects=*/true};
  for (const auto& [key, source] : function.ret()) {
    roots.tensors.push_back(body.ValueOf(source));
  }
  for (const auto& [key, node] : function.control_ret()) roots.nodes.push_back(node);
  const LoweredControlFlow lowered(body.arrays.nodes(), parameters, roots, where, scope);
  if (!lowered.ok()) return std::make_shared<Graph>();
  BodyImporter importer(lowered.nodes(), where, scope);
  for (const auto& arg : function.signature().input_arg()) {
    const DType dtype = DTypeFromNumber(arg.type());
    if (dtype == DType::kInvalid) {
      importer.Wrong(arg.name(), absl::StrCat("a parameter of an unknown dtype: ", arg.type()));
    }
    if (!importer.Feed(arg.name(), 0, importer.AddArg(arg.name(), dtype))) {
      importer.Wrong(arg.name(), "there are two parameters of this name");
    }
  }
  for (const auto& result : function.signature().output_arg()) {
    auto source = function.ret().find(result.name());
    if (source == function.ret().end()) {
      importer.Wrong(result.name(), "the function's output has no source");
      continue;
    }
    importer.Reach(body.ValueOf(source->second), result.name());
  }
  for (const auto& [key, node] : function.control_ret()) {
    importer.Reach(absl::StrCat("^", lowered.NodeOf(node)), key);
  }
  // As TensorFlow: what has an effect runs, whether or not a result needs it.
  // An op on references is not reached so: it is pure to TensorFlow.
  for (const tf::NodeDef& def : function.node_def()) {
    const OpDef* op = scope.ops.Find(def.op());
    if (op != nullptr && (op->effect == Effect::kWrite || op->effect == Effect::kExternal)) {
      const std::optional<int> index = importer.FindDef(lowered.NodeOf(def.name()));
      if (index) importer.ReachDef(*index);
    }
  }
  importer.ReachAll();
  std::shared_ptr<Graph> graph = importer.Build(name);
  if (!scope.problems.empty() || !WorkStatus().ok()) return graph;
  for (const auto& result : function.signature().output_arg()) {
    std::optional<Edge> edge =
        importer.Resolve(body.ValueOf(function.ret().at(result.name())), result.name());
    if (!edge) continue;
    const DType dtype = DTypeFromNumber(result.type());
    if (graph->dtype(*edge) != dtype) {
      importer.Wrong(result.name(),
                     absl::StrCat("the function's output has a wrong dtype: declared=",
                                  DTypeName(dtype), " given=", DTypeName(graph->dtype(*edge))));
      continue;
    }
    graph->results.push_back(*edge);
  }
  return graph;
}

}  // namespace formwork
