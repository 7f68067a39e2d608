#include "core/function/function_type.h"

#include <algorithm>

#include "absl/hash/hash.h"
#include "absl/strings/ascii.h"
#include "core/base/hash_map.h"
#include "core/base/status.h"

namespace formwork {
namespace {

absl::string_view KindName(ParameterKind kind) {
  switch (kind) {
    case ParameterKind::kPositionalOrKeyword:
      return "POSITIONAL_OR_KEYWORD";
    case ParameterKind::kPositionalOnly:
      return "POSITIONAL_ONLY";
    case ParameterKind::kVarPositional:
      return "VAR_POSITIONAL";
    case ParameterKind::kKeywordOnly:
      return "KEYWORD_ONLY";
    case ParameterKind::kVarKeyword:
      return "VAR_KEYWORD";
  }
  return "";
}

bool SameShell(const Parameter& a, const Parameter& b) {
  return a.kind == b.kind && a.optional == b.optional && a.name == b.name;
}

// TensorFlow's sanitize_arg_name of a tensor's node.
std::string ParameterName(absl::string_view tensor) {
  std::string name(tensor.substr(0, tensor.rfind(':')));
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  if (name.empty() || !absl::ascii_isalpha(static_cast<unsigned char>(name[0]))) {
    name.insert(0, "arg_");
  }
  return name;
}

void AppendFlat(const TypeNode& node, HashSet<int64_t>& aliases, std::vector<FlatInput>& flat) {
  if (node.kind() == TypeKind::kTensor) {
    flat.push_back({node.dtype(), node.shape(), DType::kInvalid, node.flat()});
  } else if (node.kind() == TypeKind::kVariable) {
    if (aliases.insert(node.alias_id()).second) {
      flat.push_back({DType::kResource, node.shape(), node.dtype(), node.flat()});
    }
  }
  for (const TypeNode::Component& component : node.components()) {
    flat.push_back({component.dtype, component.shape, DType::kInvalid, component.flat});
  }
  for (const TypeNode& item : node.items()) AppendFlat(item, aliases, flat);
}

}  // namespace

FunctionType::FunctionType() {
  // Shared: results have one before they are known to be any, and that must not need memory.
  static const auto& none = *new FunctionType(std::vector<Parameter>());
  rep_ = none.rep_;
}

FunctionType::FunctionType(std::vector<Parameter> parameters, std::optional<TypeNode> result) {
  auto rep = std::make_shared<Rep>();
  rep->parameters = std::move(parameters);
  rep->result = std::move(result);
  rep->hash = absl::HashOf(rep->parameters.size());
  rep->bytes = sizeof(Rep) + (rep->result ? rep->result->bytes() : 0);
  for (const Parameter& p : rep->parameters) {
    rep->hash = absl::HashOf(rep->hash, p.name, p.kind, p.optional, p.type.Hash());
    rep->bytes += sizeof(Parameter) + p.name.capacity() + p.type.bytes();
  }
  rep_ = std::move(rep);
}

FunctionType FunctionType::FromInputs(absl::Span<const TensorSpec> inputs) {
  std::vector<Parameter> parameters;
  parameters.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    parameters.push_back({ParameterName(inputs[i].name), ParameterKind::kPositionalOrKeyword, false,
                          TypeNode::Tensor(inputs[i].dtype, inputs[i].shape, static_cast<int>(i))});
  }
  return FunctionType(std::move(parameters));
}

bool FunctionType::operator==(const FunctionType& other) const {
  if (rep_ == other.rep_) return true;
  if (hash() != other.hash() || parameters().size() != other.parameters().size()) return false;
  for (size_t i = 0; i < parameters().size(); ++i) {
    const Parameter& a = parameters()[i];
    const Parameter& b = other.parameters()[i];
    if (!SameShell(a, b) || !(a.type == b.type)) return false;
  }
  return true;
}

bool FunctionType::IsSubtypeOf(const FunctionType& other) const {
  if (parameters().size() != other.parameters().size()) return false;
  for (size_t i = 0; i < parameters().size(); ++i) {
    const Parameter& a = parameters()[i];
    const Parameter& b = other.parameters()[i];
    if (!SameShell(a, b) || !a.type.IsSubtypeOf(b.type)) return false;
  }
  return true;
}

std::optional<FunctionType> FunctionType::CommonSupertype(const FunctionType& other) const {
  // TensorFlow looks at no more of the other's parameters than there are here.
  if (other.parameters().size() < parameters().size()) return std::nullopt;
  std::vector<Parameter> common;
  common.reserve(parameters().size());
  for (size_t i = 0; i < parameters().size(); ++i) {
    const Parameter& a = parameters()[i];
    const Parameter& b = other.parameters()[i];
    if (!SameShell(a, b)) return std::nullopt;
    std::optional<TypeNode> type = a.type.CommonSupertype(b.type);
    if (!type) return std::nullopt;
    common.push_back({a.name, a.kind, a.optional, *std::move(type)});
  }
  return FunctionType(std::move(common));
}

std::vector<FlatInput> FunctionType::FlatInputs() const {
  std::vector<const Parameter*> order, keyword_only;
  for (const Parameter& p : parameters()) {
    (p.kind == ParameterKind::kKeywordOnly ? keyword_only : order).push_back(&p);
  }
  std::stable_sort(keyword_only.begin(), keyword_only.end(),
                   [](const Parameter* a, const Parameter* b) { return a->name < b->name; });
  order.insert(order.end(), keyword_only.begin(), keyword_only.end());
  std::vector<FlatInput> flat;
  HashSet<int64_t> aliases;
  for (const Parameter* p : order) AppendFlat(p->type, aliases, flat);
  return flat;
}

std::string FunctionType::ToString(absl::Span<const TensorSpec> captures) const {
  std::string text = "Input Parameters:\n";
  for (const Parameter& p : parameters()) {
    absl::StrAppend(&text, "  ", p.name, " (", KindName(p.kind), "): ", p.type.ToString(), "\n");
  }
  absl::StrAppend(&text, "Output Type:\n  ", result() ? result()->ToString() : "None",
                  "\nCaptures:");
  for (size_t i = 0; i < captures.size(); ++i) {
    absl::StrAppend(&text, "\n  <capture ", i,
                    ">: ", TypeNode::Tensor(captures[i].dtype, captures[i].shape).ToString());
  }
  if (captures.empty()) text += "\n  None";
  return text;
}

}  // namespace formwork
