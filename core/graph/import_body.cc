#include "core/graph/import_body.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <queue>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/graph/decode.h"

namespace formwork {
namespace {

constexpr int64_t kMostOutputs = 1 << 20;  // Of one node: an N of a billion is an attack.

// Where an input text points: "^node", "node", "node:2", "node:out:1".
struct InputName {
  bool control = false;
  absl::string_view node;
  absl::string_view out;  // Of functions' inner edges: the output arg's name.
  int index = 0;
  bool valid = true;
};

InputName ParseInput(absl::string_view text) {
  InputName name;
  if (!text.empty() && text[0] == '^') {
    name.control = true;
    name.node = text.substr(1);
    return name;
  }
  std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  name.node = parts[0];
  if (parts.size() == 2) {
    if (!absl::SimpleAtoi(parts[1], &name.index)) name.out = parts[1];
  } else if (parts.size() == 3) {
    name.out = parts[1];
    name.valid = absl::SimpleAtoi(parts[2], &name.index);
  }
  name.valid = name.valid && parts.size() <= 3 && name.index >= 0 && !name.node.empty();
  return name;
}

// The dtypes that an arg of an op stands for, its attrs being known.
absl::Status ExpandArg(const ArgDef& arg, const AttrMap& attrs, std::vector<DType>& dtypes) {
  int64_t count = 1;
  if (!arg.number_attr.empty()) {
    FORMWORK_ASSIGN_OR_RETURN(count, attrs.Get<int64_t>(arg.number_attr));
    if (count < 0 || count > kMostOutputs) {
      return InvalidArgument("attr '", arg.number_attr, "' is out of range: value=", count);
    }
  }
  if (arg.type_attr.empty()) {
    dtypes.insert(dtypes.end(), count, arg.type);
    return absl::OkStatus();
  }
  const AttrValue* value = attrs.Find(arg.type_attr);
  if (value != nullptr && std::holds_alternative<std::vector<DType>>(*value)) {
    const auto& list = std::get<std::vector<DType>>(*value);
    dtypes.insert(dtypes.end(), list.begin(), list.end());
    return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(DType dtype, attrs.Get<DType>(arg.type_attr));
  dtypes.insert(dtypes.end(), count, dtype);
  return absl::OkStatus();
}

// One body on its way from NodeDefs to a Graph.
class BodyImporter {
 public:
  using NodeDefs = google::protobuf::RepeatedPtrField<tf::NodeDef>;

  BodyImporter(const NodeDefs& defs, std::string where, ImportScope& scope)
      : defs_(defs), where_(std::move(where)), scope_(scope) {
    index_.reserve(defs.size());
    for (int i = 0; i < defs.size(); ++i) {
      if (!index_.try_emplace(defs.Get(i).name(), i).second) {
        Wrong(defs.Get(i).name(), "there are two nodes of this name");
      }
    }
  }

  // Declares a parameter. `names` are the texts by which inputs refer to it.
  int AddArg(absl::string_view name, DType dtype) {
    Node node;
    node.kind = NodeKind::kArg;
    node.name = std::string(name);
    node.output_dtypes = {dtype};
    node.arg = static_cast<int32_t>(args_.size());
    args_.push_back(std::move(node));
    return static_cast<int>(args_.size()) - 1;
  }
  void Feed(absl::string_view node, int index, int arg) { fed_[{std::string(node), index}] = arg; }
  std::optional<int> FindDef(absl::string_view name) const {
    auto found = index_.find(name);
    if (found == index_.end()) return std::nullopt;
    return found->second;
  }

  // Marks everything that `text` needs; as a root it is reported by `what`.
  void Reach(absl::string_view text, absl::string_view what) {
    const InputName name = ParseInput(text);
    if (!name.valid) {
      Wrong(what, absl::StrCat("malformed tensor name '", text, "'"));
      return;
    }
    if (!name.control && FedArg(name)) return;
    std::optional<int> def = FindDef(name.node);
    if (!def) {
      Wrong(what, absl::StrCat("'", name.node, "' is not in the graph"));
      return;
    }
    ReachDef(*def);
  }
  void ReachDef(int def) {
    if (reached_.insert(def).second) pending_.push_back(def);
  }
  // Follows the inputs of what has been reached.
  void ReachAll() {
    while (!pending_.empty()) {
      const int def = pending_.back();
      pending_.pop_back();
      for (const std::string& input : defs_.Get(def).input()) Reach(input, defs_.Get(def).name());
    }
  }

  // Turns the reached defs into nodes, in an order in which they may run.
  std::shared_ptr<Graph> Build(std::string name);

  // After Build: the edge of a result text.
  std::optional<Edge> Resolve(absl::string_view text, absl::string_view what) {
    const InputName input = ParseInput(text);
    if (std::optional<int> arg = FedArg(input)) return Edge{*arg, 0};
    std::optional<int> def = FindDef(input.node);
    if (!def || !node_of_.contains(*def)) {
      Wrong(what, absl::StrCat("'", input.node, "' is not in the graph"));
      return std::nullopt;
    }
    return ResolveIn(node_of_[*def], input, what);
  }

  void Wrong(absl::string_view node, absl::string_view text) {
    scope_.problems.Wrong(absl::StrCat(where_, "node '", node, "': ", text));
  }

 private:
  struct Imported {
    Node node;
    std::vector<int> output_starts;  // First output of each output arg.
    // The names of a function's outputs, where it is used as an op; else the op's are meant.
    std::vector<std::string> output_names;
  };

  std::optional<int> FedArg(const InputName& name) const {
    if (fed_.empty() || !name.out.empty()) return std::nullopt;
    auto found = fed_.find(std::make_pair(std::string(name.node), name.index));
    if (found == fed_.end()) return std::nullopt;
    return found->second;
  }

  // Attrs and output types of a def. False where that failed (reported).
  bool ImportNode(const tf::NodeDef& def, Imported& out);
  absl::Status ImportAttrs(const tf::NodeDef& def, const OpDef& op, AttrMap& attrs);
  absl::Status CheckInputs(const Node& node, std::vector<DType>& expected);

  std::optional<Edge> ResolveIn(int imported, const InputName& input, absl::string_view what) {
    const Imported& source = imported_[imported];
    int index = input.index;
    const auto& names = source.output_names;
    if (!input.out.empty() && !names.empty()) {
      auto name = std::find(names.begin(), names.end(), input.out);
      if (name == names.end()) {
        Wrong(what, absl::StrCat("'", input.node, "' has no output '", input.out, "'"));
        return std::nullopt;
      }
      index += static_cast<int>(name - names.begin());
    } else if (!input.out.empty()) {
      const auto& outputs = source.node.op->outputs;
      auto arg = std::find_if(outputs.begin(), outputs.end(),
                              [&](const ArgDef& a) { return a.name == input.out; });
      if (arg == outputs.end()) {
        Wrong(what, absl::StrCat("'", input.node, "' has no output '", input.out, "'"));
        return std::nullopt;
      }
      index += source.output_starts[arg - outputs.begin()];
    }
    if (index >= static_cast<int>(source.node.output_dtypes.size())) {
      Wrong(what, absl::StrCat("'", input.node, "' has no output ", index,
                               ": outputs=", source.node.output_dtypes.size()));
      return std::nullopt;
    }
    return Edge{static_cast<int32_t>(args_.size()) + imported, index};
  }

  const NodeDefs& defs_;
  const std::string where_;
  ImportScope& scope_;
  absl::flat_hash_map<absl::string_view, int> index_;
  absl::flat_hash_map<std::pair<std::string, int>, int> fed_;
  std::vector<Node> args_;
  absl::flat_hash_set<int> reached_;
  std::vector<int> pending_;
  std::vector<Imported> imported_;
  absl::flat_hash_map<int, int> node_of_;  // def -> imported_, in the order of the list
};

absl::Status BodyImporter::ImportAttrs(const tf::NodeDef& def, const OpDef& op, AttrMap& attrs) {
  for (const AttrDef& attr : op.attrs) {
    auto given = def.attr().find(attr.name);
    if (given == def.attr().end()) {
      if (!attr.default_value) return InvalidArgument("attr '", attr.name, "' is missing");
      attrs.Set(attr.name, *attr.default_value);
      continue;
    }
    FORMWORK_ASSIGN_OR_RETURN(AttrValue value, DecodeAttr(attr, given->second, scope_.allocator));
    attrs.Set(attr.name, std::move(value));
  }
  for (const auto& [name, value] : def.attr()) {
    if (op.FindAttr(name) != nullptr) continue;
    if (name.empty() || name[0] != '_') {
      return InvalidArgument("attr '", name, "' is not one of the op's");
    }
  }
  return absl::OkStatus();
}

bool BodyImporter::ImportNode(const tf::NodeDef& def, Imported& out) {
  out.node.name = def.name();
  auto attrs = std::make_shared<AttrMap>();
  out.node.op = scope_.ops.Find(def.op());
  if (out.node.op == nullptr) {
    auto function = scope_.functions.find(def.op());
    if (function == scope_.functions.end()) {
      scope_.problems.MissingOp(def.op(), def.name());
      return false;
    }
    // A function used as an op.
    out.node.op = scope_.ops.Find("StatefulPartitionedCall");
    std::vector<DType> in, results;
    for (const auto& arg : function->second->signature().input_arg()) {
      in.push_back(static_cast<DType>(arg.type()));
    }
    for (const auto& arg : function->second->signature().output_arg()) {
      results.push_back(static_cast<DType>(arg.type()));
      out.output_names.push_back(arg.name());
    }
    attrs->Set("Tin", std::move(in));
    attrs->Set("Tout", std::move(results));
    attrs->Set("f", FuncAttr{def.op(), std::make_shared<AttrMap>()});
  } else if (absl::Status status = ImportAttrs(def, *out.node.op, *attrs); !status.ok()) {
    Wrong(def.name(), absl::StrCat(def.op(), ": ", std::string(status.message())));
    return false;
  }
  for (const auto& [name, value] : attrs->entries()) {
    auto call = [&](const FuncAttr& function) {
      if (scope_.functions.contains(function.name)) {
        scope_.called.push_back(function.name);
        return true;
      }
      Wrong(def.name(),
            absl::StrCat(def.op(), ": function '", function.name, "' is not in the library"));
      return false;
    };
    if (out.node.op->FindAttr(name) == nullptr) continue;
    if (const auto* one = std::get_if<FuncAttr>(&value); one != nullptr && !call(*one))
      return false;
    if (const auto* many = std::get_if<std::vector<FuncAttr>>(&value)) {
      for (const FuncAttr& function : *many) {
        if (!call(function)) return false;
      }
    }
  }
  for (const ArgDef& arg : out.node.op->outputs) {
    out.output_starts.push_back(static_cast<int>(out.node.output_dtypes.size()));
    if (absl::Status status = ExpandArg(arg, *attrs, out.node.output_dtypes); !status.ok()) {
      Wrong(def.name(), absl::StrCat(def.op(), ": ", std::string(status.message())));
      return false;
    }
  }
  if (out.node.op->name == "Const") {
    absl::StatusOr<Tensor> value = attrs->Get<Tensor>("value");
    if (!value.ok() || value->dtype() != out.node.output_dtypes[0]) {
      Wrong(def.name(), "Const: the value has another dtype than the node");
      return false;
    }
    out.node.kind = NodeKind::kConstant;
    out.node.constant = *std::move(value);
    attrs = std::make_shared<AttrMap>();
  }
  out.node.attrs = std::move(attrs);
  return true;
}

absl::Status BodyImporter::CheckInputs(const Node& node, std::vector<DType>& expected) {
  for (const ArgDef& arg : node.op->inputs) {
    FORMWORK_RETURN_IF_ERROR(ExpandArg(arg, *node.attrs, expected));
  }
  if (expected.size() != node.inputs.size()) {
    return InvalidArgument("wrong number of inputs: expected=", expected.size(),
                           " given=", node.inputs.size());
  }
  return absl::OkStatus();
}

std::shared_ptr<Graph> BodyImporter::Build(std::string name) {
  auto graph = std::make_shared<Graph>();
  graph->name = std::move(name);
  std::vector<int> order(reached_.begin(), reached_.end());
  std::sort(order.begin(), order.end());
  imported_.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) node_of_[order[i]] = static_cast<int>(i);
  bool sound = true;
  for (size_t i = 0; i < order.size(); ++i) {
    sound = ImportNode(defs_.Get(order[i]), imported_[i]) && sound;
  }
  const int num_args = static_cast<int>(args_.size());
  const int total = num_args + static_cast<int>(order.size());
  std::vector<std::vector<int>> consumers(order.size());
  std::vector<int> waits(order.size(), 0);
  for (size_t i = 0; sound && i < order.size(); ++i) {
    const tf::NodeDef& def = defs_.Get(order[i]);
    Node& node = imported_[i].node;
    for (const std::string& text : def.input()) {
      const InputName input = ParseInput(text);
      std::optional<int> arg = input.control ? std::nullopt : FedArg(input);
      if (arg) {
        node.inputs.push_back({*arg, 0});
        continue;
      }
      std::optional<int> source = FindDef(input.node);
      if (!source || !input.valid) continue;  // Reported while reaching.
      const int from = node_of_[*source];
      consumers[from].push_back(static_cast<int>(i));
      ++waits[i];
      if (input.control) continue;
      if (std::optional<Edge> edge = ResolveIn(from, input, def.name())) {
        node.inputs.push_back(*edge);
      }
    }
    std::vector<DType> expected;
    if (absl::Status status = CheckInputs(node, expected); !status.ok()) {
      Wrong(def.name(), absl::StrCat(def.op(), ": ", std::string(status.message())));
      continue;
    }
    for (size_t k = 0; k < expected.size(); ++k) {
      const Edge edge = node.inputs[k];
      const DType given = edge.node < num_args
                              ? args_[edge.node].output_dtypes[0]
                              : imported_[edge.node - num_args].node.output_dtypes[edge.index];
      if (given != expected[k]) {
        Wrong(def.name(), absl::StrCat(def.op(), ": input ", k, " has a wrong dtype: expected=",
                                       DTypeName(expected[k]), " given=", DTypeName(given)));
      }
    }
  }
  if (!scope_.problems.empty()) return graph;

  // Kahn's algorithm, always the smallest index that is free: the order is the same every time.
  std::priority_queue<int, std::vector<int>, std::greater<int>> free;
  for (size_t i = 0; i < order.size(); ++i) {
    if (waits[i] == 0) free.push(static_cast<int>(i));
  }
  std::vector<int32_t> place(total, -1);
  for (int i = 0; i < num_args; ++i) {
    place[i] = i;
    graph->args.push_back(i);
    graph->arg_dtypes.push_back(args_[i].output_dtypes[0]);
    graph->nodes.push_back(std::move(args_[i]));
  }
  while (!free.empty()) {
    const int i = free.top();
    free.pop();
    place[num_args + i] = static_cast<int32_t>(graph->nodes.size());
    graph->nodes.push_back(imported_[i].node);
    for (int consumer : consumers[i]) {
      if (--waits[consumer] == 0) free.push(consumer);
    }
  }
  if (static_cast<int>(graph->nodes.size()) != total) {
    for (size_t i = 0; i < order.size(); ++i) {
      if (waits[i] > 0) {
        Wrong(defs_.Get(order[i]).name(), "the graph has a cycle through this node, or before it");
        break;
      }
    }
    return graph;
  }
  for (Node& node : graph->nodes) {
    for (Edge& edge : node.inputs) edge.node = place[edge.node];
  }
  for (size_t i = 0; i < order.size(); ++i) node_of_[order[i]] = place[num_args + i] - num_args;
  // Resolve() looks nodes up in imported_: bring it into the order of the list.
  std::vector<Imported> sorted(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    sorted[place[num_args + i] - num_args] = std::move(imported_[i]);
  }
  imported_ = std::move(sorted);
  return graph;
}

}  // namespace

std::shared_ptr<const Graph> ImportCut(const tf::GraphDef& graph_def, const Cut& cut,
                                       ImportScope& scope) {
  BodyImporter importer(graph_def.node(), "", scope);
  for (const auto& [tensor, dtype] : cut.feeds) {
    const InputName name = ParseInput(tensor);
    std::optional<int> def = importer.FindDef(name.node);
    const int arg = importer.AddArg(tensor, dtype);
    if (!name.valid || name.control || !def) {
      importer.Wrong(name.node, absl::StrCat("the fed tensor '", tensor, "' is not in the graph"));
      continue;
    }
    // The node's own dtype is only known where its attr says so; other mistakes show at consumers.
    const auto& attrs = graph_def.node(*def).attr();
    auto attr = attrs.find("dtype");
    if (attr != attrs.end() && graph_def.node(*def).op().rfind("Placeholder", 0) == 0 &&
        attr->second.type() != static_cast<int>(dtype)) {
      importer.Wrong(name.node, absl::StrCat("fed with a wrong dtype: expected=",
                                             DTypeName(static_cast<DType>(attr->second.type())),
                                             " given=", DTypeName(dtype)));
    }
    importer.Feed(name.node, name.index, arg);
  }
  for (const std::string& fetch : cut.fetches) importer.Reach(fetch, "fetch");
  for (const std::string& target : cut.targets) {
    importer.Reach(absl::StrCat("^", target), "target");
  }
  importer.ReachAll();
  std::shared_ptr<Graph> graph = importer.Build("");
  if (!scope.problems.empty()) return graph;
  for (const std::string& fetch : cut.fetches) {
    if (std::optional<Edge> edge = importer.Resolve(fetch, "fetch"))
      graph->results.push_back(*edge);
  }
  return graph;
}

std::shared_ptr<const Graph> ImportFunction(const tf::FunctionDef& function, ImportScope& scope) {
  const std::string& name = function.signature().name();
  BodyImporter importer(function.node_def(), absl::StrCat("function '", name, "': "), scope);
  for (const auto& arg : function.signature().input_arg()) {
    importer.Feed(arg.name(), 0, importer.AddArg(arg.name(), static_cast<DType>(arg.type())));
  }
  for (const auto& result : function.signature().output_arg()) {
    auto source = function.ret().find(result.name());
    if (source == function.ret().end()) {
      importer.Wrong(result.name(), "the function's output has no source");
      continue;
    }
    importer.Reach(source->second, result.name());
  }
  for (const auto& [key, node] : function.control_ret()) {
    importer.Reach(absl::StrCat("^", node), key);
  }
  // As TensorFlow: what has an effect runs, whether or not a result needs it.
  for (int i = 0; i < function.node_def_size(); ++i) {
    const OpDef* op = scope.ops.Find(function.node_def(i).op());
    if (op != nullptr && (op->effect == Effect::kWrite || op->effect == Effect::kExternal)) {
      importer.ReachDef(i);
    }
  }
  importer.ReachAll();
  std::shared_ptr<Graph> graph = importer.Build(name);
  if (!scope.problems.empty()) return graph;
  for (const auto& result : function.signature().output_arg()) {
    std::optional<Edge> edge = importer.Resolve(function.ret().at(result.name()), result.name());
    if (!edge) continue;
    if (graph->dtype(*edge) != static_cast<DType>(result.type())) {
      importer.Wrong(result.name(), "the function's output has a wrong dtype");
      continue;
    }
    graph->results.push_back(*edge);
  }
  return graph;
}

}  // namespace formwork
