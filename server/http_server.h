#pragma once

// HTTP/1.1, by GNU libmicrohttpd: what machines ask (metrics, health), and requests with bodies.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/memory_budget.h"
#include "server/http_body.h"

namespace formwork::server {

struct HttpRequest {
  std::string method;                          ///< "GET" for HEAD, too.
  std::string path;                            ///< Percent-decoded, without its query.
  std::map<std::string, std::string> headers;  ///< By name, in small letters. The last of a name.
  HttpBody body;                               ///< Holds what it has reserved of the budget.

  /// The value of a header, whatever its name's case; "" where there is none.
  absl::string_view Header(absl::string_view name) const;
};

struct HttpAnswer {
  int code = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

/// Answers requests for paths. Connections are kept alive. One thread reads and writes all of them
/// and waits for none, so that slow and silent peers cost a descriptor each and hold up nobody;
/// where there are too many connections the one that is longest without a request goes for the
/// newest.
class HttpServer {
 public:
  /// To be called once, on any thread, also before the handler returns or after the server has
  /// gone. One that goes without having been called answers 503.
  using Reply = absl::AnyInvocable<void(HttpAnswer)>;

  struct Handler {
    /// What it throws for want of memory is answered 503.
    std::function<void(HttpRequest, Reply)> handle;
    /// All others are answered 405. With GET comes HEAD.
    std::vector<std::string> methods = {"GET"};
    /// Whether it runs on a thread where it may wait: then it may run on two at once. Else it is
    /// not to wait; to take its time it keeps its Reply.
    bool may_wait = false;
    /// More is answered 413.
    size_t max_body_bytes = 0;
  };
  /// By path. One that ends in "/" has all paths that begin with it; the longest that fits counts.
  using Handlers = std::map<std::string, Handler>;

  /// One for GET that needs nothing of the request.
  static Handler Get(std::function<HttpAnswer()> answer, bool may_wait = false);

  struct Limits {
    size_t connections = 128;
    /// Requests that handlers with bodies work on; more are answered 503, so that there is always
    /// a connection for the others.
    size_t requests = 96;
    size_t request_bytes = 16 << 10;  ///< Of the request's line and headers.
    /// For the line and headers, or without progress of a body. For a body in all as much and a
    /// second per 64 KiB of it.
    absl::Duration request_time = absl::Seconds(5);
    /// Without progress of an answer. For it in all as much and a second per 64 KiB of it.
    absl::Duration answer_time = absl::Seconds(15);
    absl::Duration idle_time = absl::Seconds(60);  ///< Between two requests.
  };

  /// Listens on `address` (an IP address); port 0 picks one. What bodies take is held to `budget`,
  /// if there is one, which outlives the server and the requests.
  /// Errors: kUnavailable, saying why, if the port, or a thread, cannot be had.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address, int port,
                                                           Handlers handlers, MemoryBudget* budget,
                                                           const Limits& limits);
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address, int port,
                                                           Handlers handlers,
                                                           MemoryBudget* budget = nullptr) {
    return Start(address, port, std::move(handlers), budget, Limits());
  }
  /// Waits for handlers that run.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return port_; }
};

}  // namespace formwork::server
