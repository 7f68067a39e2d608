#include "server/serving/rest_path.h"

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"

namespace formwork::server {
namespace {

// NAME or NAME/versions/N.
absl::Status ReadModelPath(absl::string_view path, ModelSpec* model) {
  constexpr absl::string_view kVersions = "/versions/";
  const size_t versions = path.rfind(kVersions);
  if (versions != absl::string_view::npos) {
    const absl::string_view number = path.substr(versions + kVersions.size());
    if (number.empty()) return NotFound("the path names no version");
    FORMWORK_ASSIGN_OR_RETURN(model->version, VersionFrom(number));
    path = path.substr(0, versions);
  }
  if (path.empty()) return NotFound("the path names no model");
  model->name = std::string(path);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PredictPath> ParsePredictPath(absl::string_view path) {
  PredictPath parsed;
  absl::string_view model = path;
  const size_t colon = model.rfind(':');
  if (colon != absl::string_view::npos) {
    const absl::string_view verb = model.substr(colon + 1);
    if (verb == "classify" || verb == "regress") {
      return Unimplemented("':", verb, "' of examples: there is ':predict'");
    }
    if (verb != "predict") return NotFound("there is no ':", verb, "'");
    parsed.what = PredictPath::What::kPredict;
    model = model.substr(0, colon);
  } else if (absl::ConsumeSuffix(&model, "/metadata")) {
    parsed.what = PredictPath::What::kMetadata;
  }
  if (absl::StrContains(model, "/labels/")) {
    return Unimplemented("versions by their labels: ", path);
  }
  FORMWORK_RETURN_IF_ERROR(ReadModelPath(model, &parsed.model));
  return parsed;
}

}  // namespace formwork::server
