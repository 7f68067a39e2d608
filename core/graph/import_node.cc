#include "core/graph/import_node.h"

#include <algorithm>
#include <optional>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/graph/decode.h"
#include "core/graph/device_name.h"
#include "core/ops/default_attrs.h"

namespace formwork {
namespace {

// Of one node and of all nodes of a request: a few bytes can ask for any number.
constexpr int64_t kMostOutputs = 1 << 16;
constexpr int64_t kMostOutputsInAll = 1 << 22;
// What constants may take beyond the bytes that were sent for them, in all.
constexpr int64_t kMostExpandedBytes = int64_t{1} << 30;
// Device fields that are told of.
constexpr size_t kMostDevices = 64;
constexpr size_t kMostDeviceBytes = 128;

// The dtypes that an arg of an op stands for, its attrs being known.
absl::Status ExpandArg(const ArgDef& arg, const AttrMap& attrs, std::vector<DType>& dtypes) {
  const AttrValue* value = arg.type_attr.empty() ? nullptr : attrs.Find(arg.type_attr);
  if (value != nullptr && std::holds_alternative<std::vector<DType>>(*value)) {
    const auto& list = std::get<std::vector<DType>>(*value);
    dtypes.insert(dtypes.end(), list.begin(), list.end());
    return absl::OkStatus();
  }
  DType dtype = arg.type;
  if (!arg.type_attr.empty()) {
    FORMWORK_ASSIGN_OR_RETURN(dtype, attrs.Get<DType>(arg.type_attr));
  }
  int64_t count = 1;
  if (!arg.number_attr.empty()) {
    FORMWORK_ASSIGN_OR_RETURN(count, attrs.Get<int64_t>(arg.number_attr));  // In range: checked.
  }
  dtypes.insert(dtypes.end(), count, dtype);
  return absl::OkStatus();
}

absl::Status CheckNumbers(const tf::NodeDef& def, const OpDef& op, const AttrMap& attrs) {
  auto check = [&](const std::vector<ArgDef>& args, int64_t limit) {
    for (const ArgDef& arg : args) {
      if (arg.number_attr.empty()) continue;
      const int64_t count = attrs.GetOr<int64_t>(arg.number_attr, 0);
      if (count < 0 || count > limit) {
        return InvalidArgument("attr '", arg.number_attr, "' is out of range: value=", count,
                               " limit=", limit);
      }
    }
    return absl::OkStatus();
  };
  FORMWORK_RETURN_IF_ERROR(check(op.outputs, kMostOutputs));
  // Inputs are sent one by one; a wrong number of them has an error of its own.
  return check(op.inputs, std::max<int64_t>(kMostOutputs, def.input_size()));
}

absl::Status DecodeAttrs(const tf::NodeDef& def, const OpDef& op, Allocator& allocator,
                         AttrMap& attrs) {
  for (const AttrDef& attr : op.attrs) {
    auto given = def.attr().find(attr.name);
    if (given == def.attr().end()) {
      if (!attr.default_value) return InvalidArgument("attr '", attr.name, "' is missing");
      attrs.Set(attr.name, *attr.default_value);
      continue;
    }
    FORMWORK_ASSIGN_OR_RETURN(AttrValue value, DecodeAttr(attr, given->second, allocator));
    attrs.Set(attr.name, std::move(value));
  }
  for (const auto& [name, value] : def.attr()) {
    if (op.FindAttr(name) != nullptr) continue;
    if (value.value_case() == tf::AttrValue::VALUE_NOT_SET) continue;  // It says nothing.
    if (name.empty() || name[0] != '_') {
      return InvalidArgument("attr '", Shown(name), "' is not one of the op's");
    }
  }
  return CheckNumbers(def, op, attrs);
}

// A function used as an op: a call of it.
const OpDef* ImportCallOp(const tf::FunctionDef& function, const ImportScope& scope, AttrMap& attrs,
                          std::vector<std::string>& output_names) {
  const OpDef* const op = scope.ops.Find("StatefulPartitionedCall");
  attrs = DefaultAttrs(*op);
  std::vector<DType> in, results;
  for (const auto& arg : function.signature().input_arg()) {
    in.push_back(DTypeFromNumber(arg.type()));
  }
  for (const auto& arg : function.signature().output_arg()) {
    results.push_back(DTypeFromNumber(arg.type()));
    output_names.push_back(arg.name());
  }
  attrs.Set("Tin", std::move(in));
  attrs.Set("Tout", std::move(results));
  attrs.Set("f", FuncAttr{function.signature().name(), std::make_shared<AttrMap>()});
  return op;
}

// Makes a SymbolicGradient's node, whose attr names the function that is derived, a call of the
// function that the library names as its gradient.
absl::Status TakeGradient(const ImportScope& scope, AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(const FuncAttr function, attrs.Get<FuncAttr>("f"));
  const auto gradient = scope.gradients.find(function.name);
  if (gradient != scope.gradients.end()) {
    attrs.Set("f", FuncAttr{gradient->second, function.attrs});
    return absl::OkStatus();
  }
  return Unimplemented("the graph's library has no gradient of '", Shown(function.name),
                       "', and none is derived here: let the client derive it");
}

// Makes a Const's node a constant.
absl::Status TakeConstant(const tf::NodeDef& def, ImportScope& scope, Node& node) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor value, node.attrs->Get<Tensor>("value"));
  if (value.dtype() != node.output_dtypes[0]) {
    return InvalidArgument("the value has another dtype than the node: dtype=",
                           DTypeName(node.output_dtypes[0]), " value=", DTypeName(value.dtype()));
  }
  const int64_t expanded =
      static_cast<int64_t>(value.bytes()) - static_cast<int64_t>(def.ByteSizeLong());
  scope.expanded_bytes += std::max<int64_t>(0, expanded);
  node.kind = NodeKind::kConstant;
  node.constant = std::move(value);
  node.attrs = std::make_shared<AttrMap>();
  return absl::OkStatus();
}

absl::Status Import(const tf::NodeDef& def, ImportScope& scope, ImportedNode& out) {
  Node& node = out.node;
  auto attrs = std::make_shared<AttrMap>();
  if (node.op == nullptr) {
    node.op = ImportCallOp(*scope.functions.at(def.op()), scope, *attrs, out.output_names);
  } else {
    if (scope.expanded_bytes > kMostExpandedBytes) {
      return ResourceExhausted("the graph's constants stand for too much memory: limit=",
                               kMostExpandedBytes);
    }
    FORMWORK_RETURN_IF_ERROR(DecodeAttrs(def, *node.op, scope.allocator, *attrs));
    if (node.op->name == "SymbolicGradient") {
      FORMWORK_RETURN_IF_ERROR(TakeGradient(scope, *attrs));
    }
  }
  for (const FuncAttr* function : FunctionsOf(*node.op, *attrs)) {
    if (!scope.functions.contains(function->name)) {
      return InvalidArgument("function '", Shown(function->name), "' is not in the library");
    }
    scope.called.push_back(function->name);
  }
  out.given_op = node.op;
  for (const ArgDef& arg : node.op->outputs) {
    out.output_starts.push_back(static_cast<int>(node.output_dtypes.size()));
    FORMWORK_RETURN_IF_ERROR(ExpandArg(arg, *attrs, node.output_dtypes));
  }
  scope.num_outputs += static_cast<int64_t>(node.output_dtypes.size());
  if (scope.num_outputs > kMostOutputsInAll) {
    return ResourceExhausted("the graph has too many outputs: limit=", kMostOutputsInAll);
  }
  node.attrs = std::move(attrs);
  return node.op->name == "Const" ? TakeConstant(def, scope, node) : absl::OkStatus();
}

// `callee`: of the function that is `index` in the order of the node's attrs.
absl::Status CheckCallee(const Node& node, size_t index, absl::Span<const DType> inputs,
                         const tf::OpDef& callee) {
  auto wrong = [&](absl::string_view what, const auto& expected, const auto& given) {
    return InvalidArgument("function '", Shown(callee.name()), "' has ", what,
                           ": expected=", expected, " given=", given);
  };
  const size_t own = node.op->inputs_before_functions();
  const size_t parameters = static_cast<size_t>(callee.input_arg_size());
  if (parameters != inputs.size() - own) {
    return wrong("a wrong number of parameters", inputs.size() - own, parameters);
  }
  for (size_t i = 0; i < parameters; ++i) {
    const DType given = DTypeFromNumber(callee.input_arg(static_cast<int>(i)).type());
    if (given != inputs[own + i]) {
      return wrong(absl::StrCat("a parameter ", i, " of another dtype"), DTypeName(inputs[own + i]),
                   DTypeName(given));
    }
  }
  const size_t results = static_cast<size_t>(callee.output_arg_size());
  if (node.op->control_flow == ControlFlow::kWhile && index == 0) {
    return results == 1 ? absl::OkStatus() : wrong("a wrong number of results", 1, results);
  }
  if (results != node.output_dtypes.size()) {
    return wrong("a wrong number of results", node.output_dtypes.size(), results);
  }
  for (size_t i = 0; i < results; ++i) {
    const DType given = DTypeFromNumber(callee.output_arg(static_cast<int>(i)).type());
    if (given != node.output_dtypes[i]) {
      return wrong(absl::StrCat("a result ", i, " of another dtype"),
                   DTypeName(node.output_dtypes[i]), DTypeName(given));
    }
  }
  return absl::OkStatus();
}

void NoteDevice(const std::string& text, ImportScope& scope, Node& node) {
  const std::optional<DeviceName> name = DeviceName::Parse(text);
  if (!name) return;
  node.wants_host = name->type == "CPU";
  if (scope.devices.size() < kMostDevices) scope.devices.insert(text.substr(0, kMostDeviceBytes));
}

}  // namespace

bool ImportNode(const tf::NodeDef& def, absl::string_view where, ImportScope& scope,
                ImportedNode& out) {
  out.node.name = def.name();
  out.node.op = scope.ops.Find(def.op());
  if (out.node.op == nullptr && !scope.functions.contains(def.op())) {
    scope.problems.MissingOp(def.op(), absl::StrCat(where, "node '", Shown(def.name()), "'"));
    return false;
  }
  const absl::Status status = Import(def, scope, out);
  if (status.ok()) {
    if (!def.device().empty()) NoteDevice(def.device(), scope, out.node);
    return true;
  }
  scope.problems.Wrong(absl::StrCat(where, "node '", Shown(def.name()), "': ", Shown(def.op()),
                                    ": ", status.message()),
                       status.code());
  return false;
}

absl::StatusOr<std::vector<DType>> InputDTypes(const Node& node) {
  std::vector<DType> dtypes;
  for (const ArgDef& arg : node.op->inputs) {
    FORMWORK_RETURN_IF_ERROR(ExpandArg(arg, *node.attrs, dtypes));
  }
  return dtypes;
}

namespace {

// The attrs that say how many outputs a def has, and of which dtypes.
absl::StatusOr<AttrMap> TypeAttrs(const tf::NodeDef& def, const OpDef& op,
                                  const ImportScope& scope) {
  AttrMap attrs;
  for (const AttrDef& attr : op.attrs) {
    if (attr.kind != AttrKind::kType && attr.kind != AttrKind::kInt) continue;
    auto given = def.attr().find(attr.name);
    if (given != def.attr().end()) {
      FORMWORK_ASSIGN_OR_RETURN(AttrValue value, DecodeAttr(attr, given->second, scope.allocator));
      attrs.Set(attr.name, std::move(value));
    } else if (attr.default_value) {
      attrs.Set(attr.name, *attr.default_value);
    }
  }
  FORMWORK_RETURN_IF_ERROR(CheckNumbers(def, op, attrs));
  return attrs;
}

}  // namespace

absl::StatusOr<std::vector<DType>> OutputDTypes(const tf::NodeDef& def, const ImportScope& scope) {
  const OpDef* op = scope.ops.Find(def.op());
  if (op == nullptr) return NotFound("unknown op: ", Shown(def.op()));
  FORMWORK_ASSIGN_OR_RETURN(const AttrMap attrs, TypeAttrs(def, *op, scope));
  std::vector<DType> dtypes;
  for (const ArgDef& arg : op->outputs) FORMWORK_RETURN_IF_ERROR(ExpandArg(arg, attrs, dtypes));
  return dtypes;
}

absl::StatusOr<DType> OutputDType(const tf::NodeDef& def, const InputName& name,
                                  const ImportScope& scope) {
  std::vector<DType> dtypes;
  bool known = name.out.empty();  // Whether `out` is an output arg; the dtypes are from there on.
  if (const OpDef* const op = scope.ops.Find(def.op())) {
    FORMWORK_ASSIGN_OR_RETURN(const AttrMap attrs, TypeAttrs(def, *op, scope));
    for (const ArgDef& arg : op->outputs) {
      known = known || arg.name == name.out;
      if (known) FORMWORK_RETURN_IF_ERROR(ExpandArg(arg, attrs, dtypes));
    }
  } else if (const auto function = scope.functions.find(def.op());
             function != scope.functions.end()) {
    for (const auto& arg : function->second->signature().output_arg()) {
      known = known || arg.name() == name.out;
      if (known) dtypes.push_back(DTypeFromNumber(arg.type()));
    }
  } else {
    return NotFound("unknown op: ", Shown(def.op()));
  }
  if (name.valid && name.index < static_cast<int64_t>(dtypes.size())) return dtypes[name.index];
  return InvalidArgument("'", Shown(def.name()), "' has no output ", name.index,
                         name.out.empty() ? "" : " of ", Shown(name.out));
}

void CallHere(const ImportScope& scope, Node& node, std::vector<DType>& inputs) {
  const std::string& op = node.op->name;
  if (op == "RemoteCall") {
    node.inputs.erase(node.inputs.begin());
    inputs.erase(inputs.begin());
  } else if (op != "BatchFunction") {
    return;
  }
  node.op = scope.ops.Find("StatefulPartitionedCall");
  auto attrs = std::make_shared<AttrMap>(DefaultAttrs(*node.op));
  attrs->Set("Tin", inputs);
  attrs->Set("Tout", node.output_dtypes);
  attrs->Set("f", *node.attrs->Find("f"));
  node.attrs = std::move(attrs);
}

absl::Status CheckCallees(const Node& node, absl::Span<const DType> inputs,
                          const ImportScope& scope) {
  if (!node.op->is_control_flow()) return absl::OkStatus();  // Kernels check what they run.
  const std::vector<const FuncAttr*> callees = FunctionsOf(*node.op, *node.attrs);
  for (size_t i = 0; i < callees.size(); ++i) {
    if (WorkIsCut()) return WorkStatus();  // Branches times inputs can be many.
    FORMWORK_RETURN_IF_ERROR(
        CheckCallee(node, i, inputs, scope.functions.at(callees[i]->name)->signature()));
  }
  return absl::OkStatus();
}

}  // namespace formwork
