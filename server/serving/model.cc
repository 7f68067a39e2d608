#include "server/serving/model.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
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

// Of names that clients make up, and of which there may be many, the first few.
std::string Quoted(absl::Span<const absl::string_view> names) {
  constexpr size_t kMostNames = 10;
  const absl::Span<const absl::string_view> shown = names.subspan(0, kMostNames);
  return absl::StrCat("'", absl::StrJoin(shown, "', '"), "'",
                      shown.size() < names.size()
                          ? absl::StrCat(" and ", names.size() - shown.size(), " more")
                          : "");
}

}  // namespace

absl::StatusOr<uint64_t> VersionFrom(absl::string_view text) {
  if (text.empty()) return 0;
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  uint64_t version;
  if (absl::SimpleAtoi(text, &version) && version > 0 && version <= kMost) return version;
  constexpr size_t kShown = 40;
  return NotFound("there is no version '", text.substr(0, kShown),
                  text.size() > kShown ? "..." : "", "'");
}

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

absl::StatusOr<NamePlaces> PlacesOf(absl::Span<const std::string> names) {
  NamePlaces places;
  for (size_t i = 0; i < names.size(); ++i) {
    if (places.emplace(names[i], i).second) continue;
    return InvalidArgument("'", names[i], "' is named twice");
  }
  return places;
}

absl::Status CheckInputNames(const NamePlaces& names, absl::Span<const TensorSpec> inputs) {
  absl::flat_hash_set<absl::string_view> known;
  std::vector<absl::string_view> taken, missing, unknown;
  for (const TensorSpec& input : inputs) {
    known.insert(input.name);
    taken.push_back(input.name);
    if (!names.contains(input.name)) missing.push_back(input.name);
  }
  for (const auto& [name, place] : names) {
    if (!known.contains(name)) unknown.push_back(name);
  }
  if (missing.empty() && unknown.empty()) return absl::OkStatus();
  std::sort(unknown.begin(), unknown.end());
  return InvalidArgument(missing.empty() ? "" : absl::StrCat("missing inputs: ", Quoted(missing)),
                         missing.empty() || unknown.empty() ? "" : "; ",
                         unknown.empty() ? "" : absl::StrCat("unknown inputs: ", Quoted(unknown)),
                         "; the signature takes ", Quoted(taken));
}

absl::StatusOr<std::vector<size_t>> FindOutputs(absl::Span<const std::string> wanted,
                                                absl::Span<const TensorSpec> outputs) {
  std::vector<size_t> places;
  if (wanted.empty()) {
    for (size_t i = 0; i < outputs.size(); ++i) places.push_back(i);
    return places;
  }
  FORMWORK_RETURN_IF_ERROR(PlacesOf(wanted).status());
  NamePlaces known;
  for (size_t i = 0; i < outputs.size(); ++i) known.emplace(outputs[i].name, i);
  for (const std::string& name : wanted) {
    const auto found = known.find(name);
    if (found == known.end()) {
      return InvalidArgument("the signature has no output '", name, "'");
    }
    places.push_back(found->second);
  }
  return places;
}

bool WasReplaced(const CallResult& result) {
  const Reason reason = ReasonOf(result.status);
  return (reason == Reason::kFunctionNotFound || reason == Reason::kVariableDeleted) &&
         result.details.effects == Effects::kNone;
}

}  // namespace formwork::server
