#pragma once

// TensorFlow Serving's REST API over an Engine: predictions, and what models there are, as JSON.

#include <memory>

#include "server/http_server.h"
#include "server/request_scope.h"

namespace formwork::server {

/// What handlers of HTTP requests share. The namespace is what a request's header calls
/// `Formwork-Namespace`. Thread-safe. What `scope` refers to outlives it.
class RestApi {
 public:
  /// The path that all of its paths begin with.
  static constexpr char kPath[] = "/v1/models/";

  explicit RestApi(const RequestScope& scope);
  /// Waits for the calls that are under way.
  ~RestApi();
  RestApi(const RestApi&) = delete;
  RestApi& operator=(const RestApi&) = delete;

  /// For an HttpServer that goes before this does.
  HttpServer::Handler handler();

 private:
  class Request;
  class Requests;

  const RequestScope& scope_;
  const std::unique_ptr<Requests> requests_;
};

}  // namespace formwork::server
