#include "core/graph/device_name.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"

namespace formwork {

std::optional<DeviceName> DeviceName::Parse(absl::string_view text) {
  absl::string_view last = text.substr(text.find_last_of('/') + 1);
  constexpr absl::string_view kPrefix = "device:";
  if (absl::StartsWithIgnoreCase(last, kPrefix)) last.remove_prefix(kPrefix.size());
  const size_t colon = last.find(':');
  DeviceName name{absl::AsciiStrToUpper(last.substr(0, colon))};
  if (name.type.empty() || name.type == "JOB" || name.type == "REPLICA" || name.type == "TASK") {
    return std::nullopt;
  }
  if (colon == last.npos || last.substr(colon + 1) == "*") return name;
  if (!absl::SimpleAtoi(last.substr(colon + 1), &name.index) || name.index < 0) {
    return std::nullopt;
  }
  return name;
}

}  // namespace formwork
