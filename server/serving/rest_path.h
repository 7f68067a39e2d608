#pragma once

// The paths of the APIs over HTTP.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/serving/model.h"

namespace formwork::server {

/// One of TensorFlow Serving's REST API.
struct PredictPath {
  enum class What : uint8_t { kStatus, kMetadata, kPredict };
  What what = What::kStatus;
  ModelSpec model;  ///< Its name and version.
};

/// `path`: what follows "/v1/models/": NAME, NAME/metadata or NAME:predict, with /versions/N behind
/// the name. Errors: kNotFound; kUnimplemented of labels, and of :classify and :regress.
absl::StatusOr<PredictPath> ParsePredictPath(absl::string_view path);

/// One of the Open Inference Protocol.
struct InferPath {
  enum class What : uint8_t {
    kServer,
    kLive,
    kReady,
    kIndex,
    kModel,
    kModelReady,
    kConfig,
    kInfer
  };
  What what = What::kServer;
  ModelSpec model;  ///< Its name and version, of the last four.

  /// Whether it is asked for by POST, else by GET.
  bool by_post() const { return what == What::kInfer || what == What::kIndex; }
};

/// `path`: what follows "/v2": nothing, /health/live, /health/ready, /repository/index, or
/// /models/NAME, with /versions/N behind the name, and /ready, /config or /infer at the end.
/// Errors: kNotFound; kUnimplemented of Triton's extensions that are not there.
absl::StatusOr<InferPath> ParseInferPath(absl::string_view path);

}  // namespace formwork::server
