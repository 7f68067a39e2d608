#pragma once

// The APIs over HTTP for the clients of other servers: TensorFlow Serving's.

#include "server/http_server.h"
#include "server/request_scope.h"
#include "server/serving/rest_request.h"

namespace formwork::server {

/// What handlers of HTTP requests share. Thread-safe. What `scope` refers to outlives it.
class RestApi {
 public:
  explicit RestApi(const RequestScope& scope);
  /// Waits for the calls that are under way.
  ~RestApi();
  RestApi(const RestApi&) = delete;
  RestApi& operator=(const RestApi&) = delete;

  /// Adds those of all paths, for an HttpServer that goes before this does.
  void AddTo(HttpServer::Handlers& handlers);

 private:
  const RequestScope& scope_;
  RestRequests requests_;
};

}  // namespace formwork::server
