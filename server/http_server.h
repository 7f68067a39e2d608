#pragma once

// A small HTTP server for what machines ask: metrics and health (civetweb underneath).

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

struct mg_connection;
struct mg_context;

namespace formwork::server {

struct HttpAnswer {
  int code = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

/// Serves GET and HEAD of fixed paths from threads of its own. Handlers may be called from several
/// of them at once, until the destructor returns.
class HttpServer {
 public:
  using Handlers = std::map<std::string, std::function<HttpAnswer()>>;

  /// Listens on `address` (an IP address); port 0 picks one.
  /// Errors: kUnavailable, saying why, if the port cannot be had.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address, int port,
                                                           Handlers handlers);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return port_; }

 private:
  HttpServer(std::string address, Handlers handlers)
      : address_(std::move(address)), handlers_(std::move(handlers)) {}
  static int Handle(mg_connection* connection, void* handler);

  const std::string address_;
  const Handlers handlers_;
  mg_context* context_ = nullptr;
  int port_ = 0;
};

}  // namespace formwork::server
