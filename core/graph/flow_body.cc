#include "core/graph/flow_body.h"

#include <algorithm>
#include <queue>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/graph/decode.h"
#include "core/graph/import_node.h"
#include "core/graph/input_name.h"

namespace formwork {
namespace {}  // namespace

FlowKind FlowKindOf(absl::string_view op) {
  if (op == "Switch" || op == "_SwitchN") return FlowKind::kSwitch;
  if (op == "Merge") return FlowKind::kMerge;
  if (op == "Enter") return FlowKind::kEnter;
  if (op == "Exit") return FlowKind::kExit;
  if (op == "NextIteration") return FlowKind::kNextIteration;
  if (op == "LoopCond") return FlowKind::kLoopCond;
  return FlowKind::kOther;
}

int FlowOutputs(const tf::NodeDef& def) {
  constexpr int64_t kMost = 1 << 10;  // A few bytes ask for a function for each.
  if (def.op() != "_SwitchN") return def.op() == "Switch" ? 2 : 1;
  const auto attr = def.attr().find("num_outs");
  return attr == def.attr().end()
             ? 0
             : static_cast<int>(std::clamp<int64_t>(attr->second.i(), 0, kMost));
}

FlowBody::FlowBody(NodeList nodes, const FlowParameters& parameters)
    : nodes_(std::move(nodes)), parameters_(parameters) {
  index_.reserve(nodes_.size());
  for (int i = 0; i < size() && !WorkIsCutAt(i, kDearItems); ++i) {
    index_.try_emplace(nodes_[i]->name(), i);
    kinds_.push_back(FlowKindOf(nodes_[i]->op()));
  }
  kinds_.resize(nodes_.size(), FlowKind::kOther);
  inputs_.resize(nodes_.size());
  for (int i = 0; i < size() && !WorkIsCutAt(i, kDearItems); ++i) {
    inputs_[i].reserve(nodes_[i]->input_size());
    for (const std::string& text : nodes_[i]->input()) {
      if (WorkIsCutAt(static_cast<int64_t>(inputs_[i].size()))) break;
      inputs_[i].push_back(Resolve(text));
    }
  }
}

std::vector<int> FlowBody::DataInputs(int node) const {
  std::vector<int> places;
  for (size_t k = 0; k < inputs_[node].size(); ++k) {
    if (!inputs_[node][k].control) places.push_back(static_cast<int>(k));
  }
  return places;
}

FlowInput FlowBody::Resolve(absl::string_view text) const {
  const InputName name = ParseInput(text);
  FlowInput input;
  input.control = name.control;
  if (!name.valid) return input;  // The import tells of it.
  if (!name.control && name.out.empty() &&
      parameters_.contains({std::string(name.node), name.index})) {
    return input;
  }
  const auto found = index_.find(name.node);
  if (found == index_.end()) return input;
  input.node = found->second;
  input.output = name.index;
  if (name.out == "output_true" || name.out == "value_index") input.output = 1;
  return input;
}

absl::StatusOr<DType> FlowBody::DTypeOf(absl::string_view text, const ImportScope& scope) const {
  const InputName name = ParseInput(text);
  const auto parameter = parameters_.find({std::string(name.node), name.index});
  if (name.out.empty() && parameter != parameters_.end()) return parameter->second;
  const auto found = index_.find(name.node);
  if (found == index_.end()) return InvalidArgument("'", Shown(text), "' is not in the graph");
  return OutputDType(*nodes_[found->second], name, scope);
}

std::vector<int> FlowBody::Order() const {
  std::vector<std::vector<int>> users(nodes_.size());
  std::vector<int> waits(nodes_.size());
  for (int i = 0; i < size() && !WorkIsCutAt(i, kDearItems); ++i) {
    for (const FlowInput& input : inputs_[i]) {
      if (input.node < 0) continue;
      if (kinds_[i] == FlowKind::kMerge && kinds_[input.node] == FlowKind::kNextIteration) continue;
      users[input.node].push_back(i);
      ++waits[i];
    }
  }
  std::vector<int> order;
  order.reserve(nodes_.size());
  std::priority_queue<int, std::vector<int>, std::greater<int>> free;
  for (int i = 0; i < size(); ++i) {
    if (waits[i] == 0) free.push(i);
  }
  while (!free.empty() && !WorkIsCutAt(static_cast<int64_t>(order.size()), kDearItems)) {
    order.push_back(free.top());
    free.pop();
    for (const int user : users[order.back()]) {
      if (--waits[user] == 0) free.push(user);
    }
  }
  return order;
}

NodeList FlowChanges::Apply(const FlowBody& body) const {
  NodeList nodes;
  for (int i = 0; i < body.size(); ++i) {
    if (const auto found = ahead.find(i); found != ahead.end()) {
      nodes.insert(nodes.end(), found->second.begin(), found->second.end());
    }
    if (const auto found = instead.find(i); found != instead.end()) {
      nodes.push_back(found->second);
    } else if (!gone[i]) {
      nodes.push_back(&body.def(i));
    }
  }
  return nodes;
}

absl::StatusOr<DType> FlowType(const tf::NodeDef& def) {
  const auto attr = def.attr().find("T");
  const DType dtype =
      attr == def.attr().end() ? DType::kInvalid : DTypeFromNumber(attr->second.type());
  if (dtype != DType::kInvalid) return dtype;
  return FlowProblem(absl::StatusCode::kInvalidArgument, def, "attr 'T' is missing or no dtype");
}

Effect FlowEffect(const tf::NodeDef& def, const ImportScope& scope) {
  if (const OpDef* const op = scope.ops.Find(def.op())) return op->effect;
  return scope.functions.contains(def.op()) ? Effect::kExternal : Effect::kNone;
}

absl::Status FlowProblem(absl::StatusCode code, const tf::NodeDef& def, absl::string_view text) {
  return absl::Status(
      code, absl::StrCat("node '", Shown(def.name()), "': ", Shown(def.op()), ": ", text));
}

FlowFunctions::FlowFunctions(const FlowBody& body, ImportScope& scope, std::vector<DType> own)
    : body_(body), scope_(scope), dtypes_(std::move(own)) {}

std::string FlowFunctions::ParameterName(size_t i) { return absl::StrCat("#", i); }

FlowFunctions::Taken FlowFunctions::Capture(const std::string& text, DType dtype) {
  const auto [found, added] = parameter_of_.try_emplace(text, dtypes_.size());
  if (added) {
    captured_.push_back(text);
    dtypes_.push_back(dtype);
  }
  return {false, ParameterName(found->second)};
}

absl::StatusOr<FlowFunctions::Taken> FlowFunctions::Capture(const std::string& text) {
  if (const auto found = parameter_of_.find(text); found != parameter_of_.end()) {
    return Taken{false, ParameterName(found->second)};
  }
  FORMWORK_ASSIGN_OR_RETURN(const DType dtype, body_.DTypeOf(text, scope_));
  return Capture(text, dtype);
}

void FlowFunctions::WaitFor(const std::string& node) {
  if (waited_.insert(node).second) waits_.push_back(node);
}

absl::StatusOr<std::vector<int>> FlowFunctions::Fill(std::vector<int> roots,
                                                     const Boundary& boundary,
                                                     tf::FunctionDef& function) const {
  HashMap<int, tf::NodeDef> made;
  for (int64_t i = 0; !roots.empty(); ++i) {
    if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
    const int node = roots.back();
    roots.pop_back();
    const auto [found, added] = made.try_emplace(node);
    if (!added) continue;
    const tf::NodeDef& def = body_.def(node);
    tf::NodeDef& copy = found->second;
    copy = def;
    copy.clear_input();
    for (int k = 0; k < def.input_size(); ++k) {
      const FlowInput& input = body_.inputs(node)[k];
      FORMWORK_ASSIGN_OR_RETURN(Taken source, boundary(input, def.input(k)));
      if (source.inside) {
        copy.add_input(def.input(k));
        roots.push_back(input.node);
      } else if (!source.text.empty()) {
        copy.add_input(std::move(source.text));
      }
    }
  }
  // In the body's order, which effects keep.
  std::vector<int> order;
  order.reserve(made.size());
  for (const auto& [node, def] : made) order.push_back(node);
  std::sort(order.begin(), order.end());
  for (const int node : order) *function.add_node_def() = std::move(made.at(node));
  return order;
}

absl::Status FlowFunctions::AddResult(const FlowInput& input, const std::string& text, DType dtype,
                                      const Boundary& boundary, tf::FunctionDef& function) const {
  FORMWORK_ASSIGN_OR_RETURN(Taken source, boundary(input, text));
  AddResult(source.inside ? text : std::move(source.text), dtype, function);
  return absl::OkStatus();
}

void FlowFunctions::AddResult(std::string text, DType dtype, tf::FunctionDef& function) {
  auto& arg = *function.mutable_signature()->add_output_arg();
  arg.set_name(absl::StrCat("r", function.signature().output_arg_size() - 1));
  arg.set_type(static_cast<tf::DataType>(dtype));
  (*function.mutable_ret())[arg.name()] = std::move(text);
}

const std::string& FlowFunctions::Finish(tf::FunctionDef function, absl::string_view name) {
  for (size_t i = 0; i < dtypes_.size(); ++i) {
    auto& arg = *function.mutable_signature()->add_input_arg();
    arg.set_name(ParameterName(i));
    arg.set_type(static_cast<tf::DataType>(dtypes_[i]));
  }
  std::string unique(name);
  for (int i = 1; scope_.functions.contains(unique); ++i) unique = absl::StrCat(name, "_", i);
  function.mutable_signature()->set_name(std::move(unique));
  const tf::FunctionDef& added = scope_.made.emplace_back(std::move(function));
  scope_.functions.try_emplace(added.signature().name(), &added);
  return added.signature().name();
}

void SetTypes(const std::vector<DType>& dtypes, const char* attr, tf::NodeDef& def) {
  auto& list = *(*def.mutable_attr())[attr].mutable_list();
  for (const DType dtype : dtypes) list.add_type(static_cast<tf::DataType>(dtype));
}

void SetType(DType dtype, const char* attr, tf::NodeDef& def) {
  (*def.mutable_attr())[attr].set_type(static_cast<tf::DataType>(dtype));
}

}  // namespace formwork
