#include "core/graph/select_implementations.h"

#include <algorithm>
#include <string>

#include "core/base/hash_map.h"

namespace formwork {
namespace {

absl::string_view AttrOf(const tf::FunctionDef& function, const char* name) {
  const auto found = function.attr().find(name);
  return found == function.attr().end() ? absl::string_view() : found->second.s();
}

// What it implements; empty: nothing that others do, too.
absl::string_view ApiOf(const tf::FunctionDef& function) {
  const bool of_gradient = function.attr().contains("forward_function_name") ||
                           function.attr().contains("backward_function_name");
  return of_gradient ? absl::string_view() : AttrOf(function, "api_implements");
}

template <typename Args>
bool SameTypes(const Args& a, const Args& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.type() != tf::DT_INVALID && x.type() == y.type();
  });
}

}  // namespace

void SelectImplementations(const tf::FunctionDefLibrary& library, absl::string_view device_type,
                           ImportScope& scope) {
  HashMap<std::string, const tf::FunctionDef*> meant;  // By what they implement.
  for (const tf::FunctionDef& function : library.function()) {
    const absl::string_view api = ApiOf(function);
    if (api.empty() || AttrOf(function, "api_preferred_device") != device_type) continue;
    meant.try_emplace(std::string(api), &function);
  }
  if (meant.empty()) return;
  for (const tf::FunctionDef& function : library.function()) {
    const auto found = meant.find(std::string(ApiOf(function)));
    if (found == meant.end()) continue;
    const tf::OpDef& own = function.signature();
    const tf::OpDef& other = found->second->signature();
    if (SameTypes(own.input_arg(), other.input_arg()) &&
        SameTypes(own.output_arg(), other.output_arg())) {
      scope.functions[own.name()] = found->second;
    }
  }
}

}  // namespace formwork
