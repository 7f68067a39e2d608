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

}  // namespace formwork::server
