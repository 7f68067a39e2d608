#include "server/serving/model.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/reason.h"
#include "core/base/status.h"

namespace formwork::server {
namespace {

constexpr char kDefaultSignature[] = "serving_default";

std::string FunctionNameOf(const ModelSpec& model) {
  if (model.signature.empty() || model.signature == kDefaultSignature) return model.name;
  return absl::StrCat(model.name, "/", model.signature);
}

// Of functions of one name: those of the version.
absl::Status KeepVersion(const ModelSpec& model, std::vector<NamedFunction>& functions) {
  if (model.version == 0 || functions.empty()) return absl::OkStatus();
  const uint64_t there = functions[0].model_version;
  functions.erase(std::remove_if(functions.begin(), functions.end(),
                                 [&model](const NamedFunction& function) {
                                   return function.model_version != model.version;
                                 }),
                  functions.end());
  if (!functions.empty()) return absl::OkStatus();
  return NotFound("model '", model.name, "' has no version ", model.version, ": version=", there);
}

std::string Quoted(const std::vector<std::string>& names) {
  return absl::StrCat("'", absl::StrJoin(names, "', '"), "'");
}

}  // namespace

absl::StatusOr<std::vector<NamedFunction>> FindModel(Engine& engine, const ModelSpec& model) {
  if (model.name.empty()) return InvalidArgument("the request names no model");
  const std::string name = FunctionNameOf(model);
  std::vector<NamedFunction> functions = engine.FindNamed(model.name_space, name);
  if (functions.empty()) {
    return NotFound("there is no model '", model.name, "' with a signature '",
                    model.signature.empty() ? kDefaultSignature : model.signature,
                    "': no function '", name, "'");
  }
  FORMWORK_RETURN_IF_ERROR(KeepVersion(model, functions));
  functions.erase(
      std::remove_if(functions.begin(), functions.end(),
                     [](const NamedFunction& function) { return function.values == nullptr; }),
      functions.end());
  if (!functions.empty()) return functions;
  return InvalidArgument("function '", name,
                         "' takes no values by names: its inputs are not one parameter each");
}

absl::StatusOr<std::map<std::string, NamedFunction>> SignaturesOf(Engine& engine,
                                                                  const ModelSpec& model) {
  if (model.name.empty()) return InvalidArgument("the request names no model");
  const std::string stem = absl::StrCat(model.name, "/");
  std::map<std::string, NamedFunction> signatures;
  std::optional<uint64_t> other_version;
  for (const FunctionInfo& function : engine.ListFunctions(model.name_space, false)) {
    const bool is_default = function.name == model.name;
    if (!is_default && !absl::StartsWith(function.name, stem)) continue;
    const std::string signature =
        is_default ? kDefaultSignature : function.name.substr(stem.size());
    if (signatures.contains(signature)) continue;
    for (NamedFunction& named : engine.FindNamed(model.name_space, function.name)) {
      if (named.values == nullptr) continue;
      if (model.version != 0 && named.model_version != model.version) {
        other_version = named.model_version;
        continue;
      }
      signatures.emplace(signature, std::move(named));
      break;
    }
  }
  if (!signatures.empty()) return signatures;
  if (other_version) {
    return NotFound("model '", model.name, "' has no version ", model.version,
                    ": version=", *other_version);
  }
  return NotFound("there is no model '", model.name, "'");
}

absl::Status CheckInputNames(absl::Span<const std::string> names,
                             absl::Span<const TensorSpec> inputs) {
  std::vector<std::string> missing, unknown, known;
  for (const TensorSpec& input : inputs) {
    known.push_back(input.name);
    const auto times = std::count(names.begin(), names.end(), input.name);
    if (times == 0) missing.push_back(input.name);
    if (times > 1) return InvalidArgument("input '", input.name, "' is given twice");
  }
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) unknown.push_back(name);
  }
  if (missing.empty() && unknown.empty()) return absl::OkStatus();
  std::string text;
  if (!missing.empty()) absl::StrAppend(&text, "missing inputs: ", Quoted(missing), "; ");
  if (!unknown.empty()) absl::StrAppend(&text, "unknown inputs: ", Quoted(unknown), "; ");
  return InvalidArgument(text, "the signature takes ", Quoted(known));
}

absl::StatusOr<std::vector<size_t>> FindOutputs(absl::Span<const std::string> wanted,
                                                absl::Span<const TensorSpec> outputs) {
  std::vector<size_t> places;
  for (size_t i = 0; wanted.empty() && i < outputs.size(); ++i) places.push_back(i);
  for (const std::string& name : wanted) {
    const auto found = std::find_if(outputs.begin(), outputs.end(),
                                    [&name](const TensorSpec& spec) { return spec.name == name; });
    if (found == outputs.end()) {
      return InvalidArgument("output_filter: the signature has no output '", name, "'");
    }
    const size_t place = static_cast<size_t>(found - outputs.begin());
    if (std::find(places.begin(), places.end(), place) != places.end()) {
      return InvalidArgument("output_filter: output '", name, "' is named twice");
    }
    places.push_back(place);
  }
  return places;
}

bool WasReplaced(const CallResult& result) {
  const Reason reason = ReasonOf(result.status);
  return (reason == Reason::kFunctionNotFound || reason == Reason::kVariableDeleted) &&
         result.details.effects == Effects::kNone;
}

}  // namespace formwork::server
