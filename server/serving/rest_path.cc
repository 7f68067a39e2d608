#include "server/serving/rest_path.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "server/serving/infer.h"

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

// Triton's extensions that are not there, by how their paths begin or end; and what is.
absl::Status CheckInferExtension(absl::string_view path) {
  constexpr std::pair<absl::string_view, absl::string_view> kBeginnings[] = {
      {"/systemsharedmemory/", kInsteadOfSharedMemory},
      {"/cudasharedmemory/", kInsteadOfSharedMemory},
      {"/trace/", kInsteadOfTraces},
      {"/logging", kInsteadOfLogSettings},
  };
  constexpr std::pair<absl::string_view, absl::string_view> kEnds[] = {
      {"/stats", kInsteadOfStatistics},
      {"/trace/setting", kInsteadOfTraces},
      {"/generate", "/infer"},
      {"/generate_stream", "/infer"},
  };
  const auto refused = [path](absl::string_view instead) {
    return Unimplemented("/v2", path, ": there is ", instead);
  };
  for (const auto& [beginning, instead] : kBeginnings) {
    if (absl::StartsWith(path, beginning)) return refused(instead);
  }
  if (absl::StartsWith(path, "/repository/models/")) {
    return refused(absl::EndsWith(path, "/unload") ? kInsteadOfUnloading : kInsteadOfLoading);
  }
  for (const auto& [end, instead] : kEnds) {
    if (absl::EndsWith(path, end)) return refused(instead);
  }
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

absl::StatusOr<InferPath> ParseInferPath(absl::string_view path) {
  using What = InferPath::What;
  constexpr std::pair<absl::string_view, What> kWholes[] = {{"", What::kServer},
                                                            {"/", What::kServer},
                                                            {"/health/live", What::kLive},
                                                            {"/health/ready", What::kReady},
                                                            {"/repository/index", What::kIndex}};
  constexpr std::pair<absl::string_view, What> kEnds[] = {
      {"/ready", What::kModelReady}, {"/config", What::kConfig}, {"/infer", What::kInfer}};
  InferPath parsed;
  for (const auto& [whole, what] : kWholes) {
    if (path != whole) continue;
    parsed.what = what;
    return parsed;
  }
  FORMWORK_RETURN_IF_ERROR(CheckInferExtension(path));
  absl::string_view model = path;
  if (!absl::ConsumePrefix(&model, "/models/")) return NotFound("there is no /v2", path);
  parsed.what = What::kModel;
  for (const auto& [end, what] : kEnds) {
    if (!absl::ConsumeSuffix(&model, end)) continue;
    parsed.what = what;
    break;
  }
  FORMWORK_RETURN_IF_ERROR(ReadModelPath(model, &parsed.model));
  return parsed;
}

}  // namespace formwork::server
