#include "core/ops/op_def.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "core/base/status.h"

namespace formwork {
namespace {

[[noreturn]] void BrokenSpec(absl::string_view spec, absl::string_view why) {
  std::fprintf(stderr, "broken op declaration: %s\n  in: %s\n", std::string(why).c_str(),
               std::string(spec).c_str());
  std::abort();
}

}  // namespace

const AttrDef* OpDef::FindAttr(absl::string_view attr) const {
  for (const AttrDef& def : attrs) {
    if (def.name == attr) return &def;
  }
  return nullptr;
}

std::vector<const FuncAttr*> FunctionsOf(const OpDef& op, const AttrMap& attrs) {
  std::vector<const FuncAttr*> functions;
  if (op.control_flow == ControlFlow::kNone) return functions;
  for (const AttrDef& def : op.attrs) {
    if (def.kind != AttrKind::kFunc) continue;
    const AttrValue* value = attrs.Find(def.name);
    if (value == nullptr) continue;
    if (const auto* one = std::get_if<FuncAttr>(value)) functions.push_back(one);
    if (const auto* many = std::get_if<std::vector<FuncAttr>>(value)) {
      for (const FuncAttr& function : *many) functions.push_back(&function);
    }
  }
  return functions;
}

void OpRegistry::Add(absl::string_view spec, OpTraits traits) {
  absl::StatusOr<OpDef> parsed = ParseOpSpec(spec);
  if (!parsed.ok()) BrokenSpec(spec, parsed.status().message());
  const bool names_functions =
      std::any_of(parsed->attrs.begin(), parsed->attrs.end(),
                  [](const AttrDef& attr) { return attr.kind == AttrKind::kFunc; });
  if (names_functions != (traits.control_flow != ControlFlow::kNone)) {
    BrokenSpec(spec, "attrs of kind func and control_flow do not go together");
  }
  auto op = std::make_unique<OpDef>(*std::move(parsed));
  static_cast<OpTraits&>(*op) = traits;
  std::string name = op->name;
  if (!ops_.emplace(std::move(name), std::move(op)).second) BrokenSpec(spec, "declared twice");
}

const OpDef* OpRegistry::Find(absl::string_view name) const {
  auto it = ops_.find(name);
  return it == ops_.end() ? nullptr : it->second.get();
}

std::vector<const OpDef*> OpRegistry::All() const {
  std::vector<const OpDef*> all;
  all.reserve(ops_.size());
  for (const auto& [name, op] : ops_) all.push_back(op.get());
  std::sort(all.begin(), all.end(),
            [](const OpDef* a, const OpDef* b) { return a->name < b->name; });
  return all;
}

}  // namespace formwork
