#include "core/graph/lower_references.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/stop_flag.h"

namespace formwork {
namespace {

// An op on references, and the op on handles that does the same. Inputs have the same order, attrs
// the same names but for `T`, which may be the other's `dtype`. Where the form on handles has no
// outputs the op gives its first reference on.
struct Form {
  absl::string_view op;
  absl::string_view resource_op;
};
constexpr Form kForms[] = {
    {"ApplyAdaMax", "ResourceApplyAdaMax"},
    {"ApplyAdadelta", "ResourceApplyAdadelta"},
    {"ApplyAdagrad", "ResourceApplyAdagrad"},
    {"ApplyAdagradDA", "ResourceApplyAdagradDA"},
    {"ApplyAdagradV2", "ResourceApplyAdagradV2"},
    {"ApplyAdam", "ResourceApplyAdam"},
    {"ApplyCenteredRMSProp", "ResourceApplyCenteredRMSProp"},
    {"ApplyFtrl", "ResourceApplyFtrl"},
    {"ApplyGradientDescent", "ResourceApplyGradientDescent"},
    {"ApplyMomentum", "ResourceApplyMomentum"},
    {"ApplyProximalAdagrad", "ResourceApplyProximalAdagrad"},
    {"ApplyProximalGradientDescent", "ResourceApplyProximalGradientDescent"},
    {"ApplyRMSProp", "ResourceApplyRMSProp"},
    {"Assign", "AssignVariableOp"},
    {"AssignAdd", "AssignAddVariableOp"},
    {"AssignSub", "AssignSubVariableOp"},
    {"CountUpTo", "ResourceCountUpTo"},
    {"DestroyTemporaryVariable", "ReadVariableOp"},
    {"IsVariableInitialized", "VarIsInitializedOp"},
    {"ScatterAdd", "ResourceScatterAdd"},
    {"ScatterDiv", "ResourceScatterDiv"},
    {"ScatterMax", "ResourceScatterMax"},
    {"ScatterMin", "ResourceScatterMin"},
    {"ScatterMul", "ResourceScatterMul"},
    {"ScatterNdAdd", "ResourceScatterNdAdd"},
    {"ScatterNdMax", "ResourceScatterNdMax"},
    {"ScatterNdMin", "ResourceScatterNdMin"},
    {"ScatterNdSub", "ResourceScatterNdSub"},
    {"ScatterNdUpdate", "ResourceScatterNdUpdate"},
    {"ScatterSub", "ResourceScatterSub"},
    {"ScatterUpdate", "ResourceScatterUpdate"},
    {"SparseApplyAdadelta", "ResourceSparseApplyAdadelta"},
    {"SparseApplyAdagrad", "ResourceSparseApplyAdagrad"},
    {"SparseApplyAdagradV2", "ResourceSparseApplyAdagradV2"},
    {"SparseApplyCenteredRMSProp", "ResourceSparseApplyCenteredRMSProp"},
    {"SparseApplyFtrl", "ResourceSparseApplyFtrl"},
    {"SparseApplyMomentum", "ResourceSparseApplyMomentum"},
    {"SparseApplyProximalAdagrad", "ResourceSparseApplyProximalAdagrad"},
    {"SparseApplyProximalGradientDescent", "ResourceSparseApplyProximalGradientDescent"},
    {"SparseApplyRMSProp", "ResourceSparseApplyRMSProp"},
    {"StridedSliceAssign", "ResourceStridedSliceAssign"},
};

// The form on handles; null where `op` is none on references.
const OpDef* FindForm(absl::string_view op, const OpRegistry& ops) {
  const auto found =
      std::lower_bound(std::begin(kForms), std::end(kForms), op,
                       [](const Form& form, absl::string_view name) { return form.op < name; });
  return found != std::end(kForms) && found->op == op ? ops.Find(found->resource_op) : nullptr;
}

// Ops whose outputs refer to what their first input does, as handles too.
bool GivesHandles(absl::string_view op) { return op == "RefSwitch" || op == "RefEnter"; }

// The op that does with values what `op` does with references; empty: there is none.
absl::string_view FormOnValues(absl::string_view op) {
  const absl::string_view form = absl::StripPrefix(op, "Ref");
  const bool is_one = form == "Switch" || form == "Enter" || form == "Exit" ||
                      form == "NextIteration" || form == "Merge";
  return is_one && form != op ? form : absl::string_view();
}

bool IsVariable(absl::string_view op) {
  return op == "VariableV2" || op == "Variable" || op == "TemporaryVariable";
}

// Of an input text.
bool IsControl(absl::string_view text) { return absl::StartsWith(text, "^"); }
std::string NodeOf(absl::string_view text) { return std::string(text.substr(0, text.find(':'))); }

std::string HandleOf(const tf::NodeDef& variable) {
  return absl::StrCat(variable.name(), "#handle");
}
std::string ValueBehind(absl::string_view node) { return absl::StrCat(node, "#value"); }

void CopyAttr(const tf::NodeDef& from, const char* name, tf::NodeDef& to) {
  const auto attr = from.attr().find(name);
  if (attr != from.attr().end()) (*to.mutable_attr())[name] = attr->second;
}

bool MayReshape(const tf::NodeDef& def) {
  if (def.op() != "Assign") return false;
  const auto attr = def.attr().find("validate_shape");
  return attr != def.attr().end() && !attr->second.b();
}

// The attrs of a node as those of the form on handles.
void TakeAttrs(const tf::NodeDef& def, const OpDef& form, tf::NodeDef& made) {
  auto& attrs = *made.mutable_attr();
  attrs.clear();
  for (const AttrDef& attr : form.attrs) {
    auto given = def.attr().find(attr.name);
    if (given == def.attr().end() && attr.name == "dtype") given = def.attr().find("T");
    if (given != def.attr().end()) attrs[attr.name] = given->second;
  }
  if (def.op() == "Assign") attrs["validate_shape"].set_b(!MayReshape(def));
}

}  // namespace

LoweredReferences::LoweredReferences(const NodeDefs& defs, HashSet<std::string> fed,
                                     const OpRegistry& ops)
    : given_(defs), fed_(std::move(fed)), ops_(ops) {
  if (std::none_of(defs.begin(), defs.end(),
                   [](const tf::NodeDef& def) { return IsVariable(def.op()); })) {
    return;
  }
  FindReferences();
  for (int i = 0; i < defs.size() && !WorkIsCutAt(i, kDearItems); ++i) {
    if (IsVariable(defs.Get(i).op())) {
      LowerVariable(defs.Get(i));
    } else {
      Lower(defs.Get(i));
    }
  }
}

void LoweredReferences::FindReferences() {
  HashMap<std::string, std::vector<const tf::NodeDef*>> users;  // Who gives a node's output on.
  std::vector<const tf::NodeDef*> pending;
  for (int i = 0; i < given_.size() && !WorkIsCutAt(i, kDearItems); ++i) {
    const tf::NodeDef& def = given_.Get(i);
    if (fed_.contains(def.name())) continue;
    if (IsVariable(def.op())) {
      references_.try_emplace(def.name(), Reference{&def, false, HandleOf(def)});
      pending.push_back(&def);
      continue;
    }
    const OpDef* const form = FindForm(def.op(), ops_);
    const bool gives = form != nullptr ? form->outputs.empty()
                                       : def.op() == "RefIdentity" || GivesHandles(def.op());
    if (gives && def.input_size() > 0) users[NodeOf(def.input(0))].push_back(&def);
  }
  for (int64_t i = 0; !pending.empty() && !WorkIsCutAt(i, kDearItems); ++i) {
    const tf::NodeDef& source = *pending.back();
    pending.pop_back();
    const Reference& reference = references_.at(source.name());
    const tf::NodeDef* const variable = reference.variable;
    const auto found = users.find(source.name());
    if (found == users.end()) continue;
    for (const tf::NodeDef* user : found->second) {
      if (Find(user->input(0)) == nullptr) continue;
      if (MayReshape(*user)) reshaped_.insert(variable->name());
      const bool handles = GivesHandles(user->op());
      Reference made{variable, !handles,
                     handles ? user->name() : HandleAt(user->input(0), reference)};
      if (!references_.try_emplace(user->name(), std::move(made)).second) continue;
      if (user->op() == "RefSwitch") switches_.insert(user->name());
      pending.push_back(user);
    }
  }
}

const LoweredReferences::Reference* LoweredReferences::Find(absl::string_view text) const {
  const auto found = references_.find(NodeOf(text));
  if (found == references_.end()) return nullptr;
  const bool first = !absl::StrContains(text, ':') || absl::EndsWith(text, ":0");
  return first || switches_.contains(found->first) ? &found->second : nullptr;
}

std::string LoweredReferences::HandleAt(absl::string_view text, const Reference& reference) const {
  // A Switch's outputs have the names of a RefSwitch's.
  return switches_.contains(NodeOf(text)) ? std::string(text) : reference.handle;
}

std::string LoweredReferences::ValueOf(absl::string_view text) const {
  const Reference* const reference = Find(text);
  if (reference == nullptr) return std::string(text);
  return reference->changed ? ValueBehind(NodeOf(text)) : NodeOf(text);
}

tf::NodeDef& LoweredReferences::Read(const std::string& name, const Reference& reference,
                                     std::string handle) {
  tf::NodeDef& read = *lowered_.Add();
  read.set_name(name);
  read.set_op("ReadVariableOp");
  read.set_device(reference.variable->device());
  read.add_input(std::move(handle));
  CopyAttr(*reference.variable, "dtype", read);
  return read;
}

void LoweredReferences::LowerVariable(const tf::NodeDef& def) {
  tf::NodeDef& handle = *lowered_.Add();
  handle.set_name(HandleOf(def));
  handle.set_device(def.device());
  CopyAttr(def, "dtype", handle);
  CopyAttr(def, "shape", handle);
  auto& attrs = *handle.mutable_attr();
  if (def.op() == "TemporaryVariable") {
    handle.set_op("_TemporaryVariable");
  } else {
    handle.set_op("VarHandleOp");
    CopyAttr(def, "container", handle);
    CopyAttr(def, "shared_name", handle);
    if (attrs["shared_name"].s().empty()) attrs["shared_name"].set_s(def.name());
  }
  const auto shape = def.attr().find("shape");
  const bool scalar = shape != def.attr().end() && shape->second.shape().dim_size() == 0;
  // Variable's scalar shape stands for any.
  if (reshaped_.contains(def.name()) || (def.op() == "Variable" && scalar)) {
    attrs["shape"].mutable_shape()->Clear();
    attrs["shape"].mutable_shape()->set_unknown_rank(true);
  }
  tf::NodeDef& read = Read(def.name(), {&def, false, ""}, HandleOf(def));
  for (const std::string& input : def.input()) read.add_input(input);
}

// Each value is read in its own branch.
void LoweredReferences::LowerMerge(const tf::NodeDef& def) {
  tf::NodeDef made = def;
  made.set_op(std::string(FormOnValues(def.op())));
  for (int i = 0; i < def.input_size() && !IsControl(def.input(i)); ++i) {
    const Reference* const source = Find(def.input(i));
    if (source == nullptr) continue;
    const std::string name = absl::StrCat(def.name(), "#", i);
    tf::NodeDef& read = Read(name, *source, HandleAt(def.input(i), *source));
    if (source->changed) read.add_input(absl::StrCat("^", NodeOf(def.input(i))));
    made.set_input(i, name);
  }
  *lowered_.Add() = std::move(made);
}

void LoweredReferences::Lower(const tf::NodeDef& def) {
  if (def.op() == "RefMerge") return LowerMerge(def);
  const OpDef* const form = FindForm(def.op(), ops_);
  const auto reference = references_.find(def.name());
  const bool gives_handles = GivesHandles(def.op()) && reference != references_.end();
  tf::NodeDef made = def;
  const absl::string_view on_values = FormOnValues(def.op());
  if (!on_values.empty()) made.set_op(std::string(on_values));
  if (gives_handles) {
    (*made.mutable_attr())["T"].set_type(tf::DT_RESOURCE);
  }
  if (form != nullptr) {
    made.set_op(std::string(form->name));
    TakeAttrs(def, *form, made);
  }
  std::vector<std::string> behind;  // Of references' inputs: who has changed them.
  std::vector<int> values;          // Inputs that are references and used as values.
  for (int i = 0; i < def.input_size() && !IsControl(def.input(i)); ++i) {
    const Reference* const source = Find(def.input(i));
    const bool takes_handle = (gives_handles && i == 0) ||
                              (form != nullptr && i < static_cast<int>(form->inputs.size()) &&
                               form->inputs[i].type == DType::kResource);
    if (source == nullptr && takes_handle) {
      *lowered_.Add() = def;
      return;
    }
    if (source == nullptr) continue;
    if (source->changed) behind.push_back(absl::StrCat("^", NodeOf(def.input(i))));
    if (takes_handle) {
      made.set_input(i, HandleAt(def.input(i), *source));
    } else if (def.op() != "RefIdentity") {
      values.push_back(i);
    }
  }
  if (def.op() == "RefIdentity" && reference != references_.end()) {
    made.set_op("NoOp");
    made.clear_attr();
    made.mutable_input()->DeleteSubrange(0, 1);
  }
  if (!values.empty()) {
    tf::NodeDef& before = *lowered_.Add();
    before.set_name(absl::StrCat(def.name(), "#before"));
    before.set_op("NoOp");
    for (const std::string& input : def.input()) {
      if (IsControl(input)) {
        before.add_input(input);
      } else if (Find(input) == nullptr && !fed_.contains(NodeOf(input))) {
        before.add_input(absl::StrCat("^", NodeOf(input)));
      }
    }
    for (std::string& change : behind) before.add_input(std::move(change));
    behind.clear();
    for (const int i : values) {
      const std::string name = absl::StrCat(def.name(), "#", i);
      const Reference& source = *Find(def.input(i));
      Read(name, source, HandleAt(def.input(i), source))
          .add_input(absl::StrCat("^", def.name(), "#before"));
      made.set_input(i, name);
    }
    behind.push_back(absl::StrCat("^", def.name(), "#before"));
  }
  for (std::string& change : behind) made.add_input(std::move(change));
  *lowered_.Add() = std::move(made);
  if (reference != references_.end() && reference->second.changed) {
    Read(ValueBehind(def.name()), reference->second, reference->second.handle)
        .add_input(absl::StrCat("^", def.name()));
  }
}

}  // namespace formwork
