#pragma once

// The APIs over HTTP for the clients of other servers: TensorFlow Serving's and the Open Inference
// Protocol.

#include <functional>

#include "server/http_server.h"
#include "server/request_scope.h"
#include "server/serving/rest_request.h"

namespace formwork::server {

/// What handlers of HTTP requests share. Thread-safe. What `scope` refers to outlives it.
class RestApi {
 public:
  /// `is_ready`: whether the server serves; from any thread, and does not wait.
  RestApi(const RequestScope& scope, std::function<bool()> is_ready);
  /// Waits for the calls that are under way.
  ~RestApi();
  RestApi(const RestApi&) = delete;
  RestApi& operator=(const RestApi&) = delete;

  /// Adds those of all paths, for an HttpServer that goes before this does.
  void AddTo(HttpServer::Handlers& handlers);

 private:
  const RequestScope& scope_;
  const std::function<bool()> is_ready_;
  RestRequests requests_;
};

}  // namespace formwork::server
