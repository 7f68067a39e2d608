#pragma once

// TensorFlow Serving's REST API: predictions, and what models there are, as JSON.

#include <memory>

#include "server/serving/rest_request.h"

namespace formwork::server {

/// What all of its paths begin with.
inline constexpr char kPredictPath[] = "/v1/models/";

/// A request for such a path.
std::shared_ptr<RestRequest> MakePredictRest(const RequestScope& scope, RestRequests& requests,
                                             HttpRequest http, HttpServer::Reply reply);

}  // namespace formwork::server
