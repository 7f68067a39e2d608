#pragma once

// HTTP/1.1, by GNU libmicrohttpd: what machines ask (metrics, health), and requests with bodies.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "core/base/memory_budget.h"
#include "server/closing_sockets.h"
#include "server/http_message.h"
#include "server/http_outbox.h"
#include "server/http_tls.h"
#include "server/task_pool.h"
#include "server/tls_files.h"
#include "server/unique_fd.h"

struct MHD_Connection;
struct MHD_Daemon;

namespace formwork::server {

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
    /// Whether it answers those, too, who show no certificate where clients need one: others get
    /// 403. For what machines ask that have none.
    bool is_for_all = false;
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
  /// if there is one, which outlives the server and the requests. `tls`: it speaks HTTPS; outlives
  /// the server; may be null.
  /// Errors: kUnavailable, saying why, if the port, or a thread, cannot be had; kFailedPrecondition
  /// if TLS cannot be done.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address, int port,
                                                           Handlers handlers, MemoryBudget* budget,
                                                           const Limits& limits,
                                                           const TlsFiles* tls = nullptr);
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address, int port,
                                                           Handlers handlers,
                                                           MemoryBudget* budget = nullptr) {
    return Start(address, port, std::move(handlers), budget, Limits());
  }
  /// Returns once no answer is on its way, or at `deadline`: for those that are still being sent
  /// when all has been answered. Once.
  void AwaitAnswers(absl::Time deadline);
  /// Waits for handlers that run; sends nothing more.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return port_; }

 private:
  struct Connection;
  struct Callbacks;  // What the library calls.
  using Connections = std::map<uint64_t, Connection>;

  HttpServer(UniqueFd socket, int port, Handlers handlers, MemoryBudget* budget,
             const Limits& limits);
  absl::Status StartLibrary(const TlsFiles* tls);
  absl::Status StartThread();
  void Run();
  void Poll();
  void AcceptSome();
  void Accept(UniqueFd fd, const void* address, size_t size);
  void SendAnswers();
  void CutOffLate();
  void TellAnswered();
  // Cuts off a connection that can be missed; false where there is none.
  bool CutOffOne();
  void CutOff(Connection& connection);

  // Steps of a request. They who answer leave the answer with the connection.
  void Begin(Connection& connection, const char* path, absl::string_view method);
  void CheckClient(Connection& connection);
  void CheckSize(Connection& connection, size_t size);
  void Refuse(Connection& connection, const absl::Status& memory);
  void Take(Connection& connection, absl::string_view piece);
  void Handle(Connection& connection);
  bool Send(Connection& connection);
  void Closed(Connection& connection);
  const Handler* Find(absl::string_view path) const;

  const UniqueFd socket_;
  const int port_;
  const Handlers handlers_;
  MemoryBudget* const budget_;
  const Limits limits_;
  const std::shared_ptr<HttpOutbox> outbox_;
  std::atomic<bool> is_awaited_{false};
  absl::Notification answered_;

  // Of the thread alone.
  std::unique_ptr<HttpTls> tls_;  // Null where it is not encrypted.
  MHD_Daemon* daemon_ = nullptr;
  Connections connections_;
  Connection* accepted_ = nullptr;  // The one that the library is being given.
  uint64_t next_id_ = 0;
  ClosingSockets closing_;
  std::vector<pollfd> polled_;

  TaskPool waiting_handlers_;
  std::thread thread_;
};

}  // namespace formwork::server
