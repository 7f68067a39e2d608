#pragma once

// The Open Inference Protocol over HTTP, with its extension for binary tensors.

#include <functional>
#include <memory>

#include "server/serving/rest_request.h"

namespace formwork::server {

/// A path of its own, and what all the others begin with.
inline constexpr char kInferPath[] = "/v2";

/// A request for such a path. `is_ready` outlives it.
std::shared_ptr<RestRequest> MakeInferRest(const RequestScope& scope, RestRequests& requests,
                                           const std::function<bool()>& is_ready, HttpRequest http,
                                           HttpServer::Reply reply);

}  // namespace formwork::server
