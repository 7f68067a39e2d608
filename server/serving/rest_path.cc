#include "server/serving/rest_path.h"

#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"

namespace formwork::server {

absl::StatusOr<RestPath> ParseRestPath(absl::string_view path) {
  constexpr absl::string_view kVersions = "/versions/";
  RestPath parsed;
  absl::string_view model = path;
  const size_t colon = model.rfind(':');
  if (colon != absl::string_view::npos) {
    const absl::string_view verb = model.substr(colon + 1);
    if (verb == "classify" || verb == "regress") {
      return Unimplemented("':", std::string(verb), "' of examples: there is ':predict'");
    }
    if (verb != "predict") return NotFound("there is no ':", std::string(verb), "'");
    parsed.what = RestPath::What::kPredict;
    model = model.substr(0, colon);
  } else if (absl::ConsumeSuffix(&model, "/metadata")) {
    parsed.what = RestPath::What::kMetadata;
  }
  if (absl::StrContains(model, "/labels/")) {
    return Unimplemented("versions by their labels: ", std::string(path));
  }
  const size_t versions = model.rfind(kVersions);
  if (versions != absl::string_view::npos) {
    const std::string number(model.substr(versions + kVersions.size()));
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    if (!absl::SimpleAtoi(number, &parsed.model.version) || parsed.model.version > kMost ||
        parsed.model.version == 0) {
      return NotFound("there is no version '", number, "'");
    }
    model = model.substr(0, versions);
  }
  if (model.empty()) return NotFound("the path names no model");
  parsed.model.name = std::string(model);
  return parsed;
}

}  // namespace formwork::server
