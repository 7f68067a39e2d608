#pragma once

// A small HTTP server for what machines ask: metrics and health.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/task_pool.h"
#include "server/unique_fd.h"

namespace formwork::server {

struct HttpAnswer {
  int code = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

/// Answers GET and HEAD of fixed paths, one request per connection. One thread reads and writes all
/// connections and waits for none, so that slow and silent peers cost a descriptor each and hold up
/// nobody; where there are too many connections the oldest goes for the newest.
class HttpServer {
 public:
  struct Handler {
    std::function<HttpAnswer()> answer;
    /// Whether it runs on a thread where it may wait: then it may run on two at once.
    bool may_wait = false;
  };
  using Handlers = std::map<std::string, Handler>;  ///< By path.

  struct Limits {
    size_t connections = 128;
    size_t request_bytes = 16 << 10;  ///< Of the request's line and headers.
    absl::Duration request_time = absl::Seconds(5);
    absl::Duration answer_time = absl::Seconds(15);
  };

  /// Listens on `address` (an IP address); port 0 picks one.
  /// Errors: kUnavailable, saying why, if the port cannot be had.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address, int port,
                                                           Handlers handlers, Limits limits);
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address, int port,
                                                           Handlers handlers) {
    return Start(address, port, std::move(handlers), Limits());
  }
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return port_; }

 private:
  struct Connection {
    enum class State : uint8_t { kReading, kAnswering, kWriting, kClosing };
    UniqueFd fd;
    State state = State::kReading;
    absl::Time deadline;
    std::string request;
    std::string response;
    size_t sent = 0;
  };
  using Connections = std::map<uint64_t, Connection>;  // In the order of their making.

  HttpServer(UniqueFd socket, int port, Handlers handlers, const Limits& limits);
  void Run();
  void Poll();
  void AcceptSome();
  void SendAnswers();
  // One step of a connection, as far as it goes without waiting; false where it is to be closed.
  bool Advance(uint64_t id, Connection& connection);
  bool Read(uint64_t id, Connection& connection);
  bool Write(Connection& connection);
  static bool Discard(Connection& connection);
  void Handle(uint64_t id, Connection& connection);
  void Answer(Connection& connection, const HttpAnswer& answer);

  const UniqueFd socket_;
  const int port_;
  const Handlers handlers_;
  const Limits limits_;
  const UniqueFd wake_;  // An eventfd.

  Connections connections_;  // Of the thread alone.
  uint64_t next_id_ = 0;

  absl::Mutex mutex_;
  std::vector<std::pair<uint64_t, HttpAnswer>> answers_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  TaskPool waiting_handlers_;
  std::thread thread_;
};

}  // namespace formwork::server
