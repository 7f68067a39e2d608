#include "core/function/named_values.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace formwork {
namespace {

bool IsKeyword(const Parameter* parameter) {
  return parameter->kind == ParameterKind::kKeywordOnly;
}

// In the order of the inputs: keyword-only ones last, and by name.
std::vector<const Parameter*> InOrder(const FunctionType& type) {
  std::vector<const Parameter*> order;
  for (const Parameter& parameter : type.parameters()) order.push_back(&parameter);
  const auto keywords = std::stable_partition(order.begin(), order.end(),
                                              [](const Parameter* p) { return !IsKeyword(p); });
  std::sort(keywords, order.end(),
            [](const Parameter* a, const Parameter* b) { return a->name < b->name; });
  return order;
}

// The parameter of each of so many inputs; none where not each has one of its own.
std::optional<std::vector<std::string>> InputNames(const FunctionType& type, size_t count) {
  std::vector<std::string> names(count);
  std::set<std::string> seen;
  size_t next = 0;
  for (const Parameter* const parameter : InOrder(type)) {
    const TypeNode& node = parameter->type;
    const bool is_one = node.kind() == TypeKind::kTensor || node.kind() == TypeKind::kVariable;
    const bool is_many = parameter->kind == ParameterKind::kVarPositional ||
                         parameter->kind == ParameterKind::kVarKeyword;
    const size_t place = node.flat() >= 0 ? static_cast<size_t>(node.flat()) : next;
    ++next;
    if (!is_one || is_many || place >= count || !names[place].empty()) return std::nullopt;
    if (parameter->name.empty() || !seen.insert(parameter->name).second) return std::nullopt;
    names[place] = parameter->name;
  }
  if (next != count) return std::nullopt;
  return names;
}

std::string OutputName(const std::string& key) {
  const nlohmann::json parsed = nlohmann::json::parse(key, nullptr, /*allow_exceptions=*/false);
  return parsed.is_string() ? parsed.get<std::string>() : key;
}

std::vector<std::string> OutputNames(const FunctionType& type, size_t count) {
  std::vector<std::string> names;
  if (type.result() && type.result()->kind() == TypeKind::kDict) {
    const std::vector<TypeNode>& items = type.result()->items();
    const bool all_tensors = std::all_of(items.begin(), items.end(), [](const TypeNode& item) {
      return item.kind() == TypeKind::kTensor;
    });
    if (all_tensors && items.size() == count) {
      for (const std::string& key : type.result()->keys()) names.push_back(OutputName(key));
      if (std::set<std::string>(names.begin(), names.end()).size() == count) return names;
      names.clear();
    }
  }
  for (size_t i = 0; i < count; ++i) names.push_back(absl::StrCat("output_", i));
  return names;
}

std::vector<TensorSpec> Renamed(absl::Span<const TensorSpec> specs,
                                std::vector<std::string> names) {
  std::vector<TensorSpec> renamed(specs.begin(), specs.end());
  for (size_t i = 0; i < renamed.size(); ++i) renamed[i].name = std::move(names[i]);
  return renamed;
}

}  // namespace

size_t NamedValues::bytes() const {
  size_t bytes = sizeof(*this);
  for (const auto* const specs : {&inputs, &outputs}) {
    for (const TensorSpec& spec : *specs) bytes += sizeof(TensorSpec) + spec.name.size();
  }
  return bytes;
}

std::shared_ptr<const NamedValues> NamedValuesOf(const FunctionType& type,
                                                 absl::Span<const TensorSpec> inputs,
                                                 absl::Span<const TensorSpec> outputs) {
  std::optional<std::vector<std::string>> names = InputNames(type, inputs.size());
  if (!names) return nullptr;
  auto named = std::make_shared<NamedValues>();
  named->inputs = Renamed(inputs, *std::move(names));
  named->outputs = Renamed(outputs, OutputNames(type, outputs.size()));
  return named;
}

}  // namespace formwork
