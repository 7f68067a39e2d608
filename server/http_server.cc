#include "server/http_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "server/listen_socket.h"

namespace formwork::server {
namespace {

// After each such bundle those who are there already get their turn.
constexpr int kAcceptedAtOnce = 16;

absl::string_view Reason(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Service Unavailable";
  }
}

HttpAnswer AnswerOf(const HttpServer::Handler& handler) {
  absl::StatusOr<HttpAnswer> answer =
      CatchOutOfMemory([&]() -> absl::StatusOr<HttpAnswer> { return handler.answer(); });
  if (answer.ok()) return *std::move(answer);
  return {.code = 503, .body = "out of memory\n"};
}

bool WouldBlock() { return errno == EAGAIN || errno == EINTR; }

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address, int port,
                                                              Handlers handlers, Limits limits) {
  int bound_port = 0;
  FORMWORK_ASSIGN_OR_RETURN(UniqueFd socket, ListenOnTcp(address, port, &bound_port));
  return std::unique_ptr<HttpServer>(
      new HttpServer(std::move(socket), bound_port, std::move(handlers), limits));
}

HttpServer::HttpServer(UniqueFd socket, int port, Handlers handlers, const Limits& limits)
    : socket_(std::move(socket)),
      port_(port),
      handlers_(std::move(handlers)),
      limits_(limits),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      waiting_handlers_(2, limits.connections),
      thread_([this] { Run(); }) {}

HttpServer::~HttpServer() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

void HttpServer::Run() {
  while (true) {
    const absl::Status status = CatchOutOfMemory([this] {
      Poll();
      SendAnswers();
      AcceptSome();
      return absl::OkStatus();
    });
    if (!status.ok()) {  // Who asked asks again.
      connections_.clear();
      absl::SleepFor(absl::Milliseconds(5));
    }
    absl::MutexLock lock(&mutex_);
    if (stopped_) return;
  }
}

// Waits until something can be done, and does it for the connections that are there.
void HttpServer::Poll() {
  using State = Connection::State;
  std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
  absl::Time deadline = absl::InfiniteFuture();
  for (const auto& [id, connection] : connections_) {
    // One whose answer is not there yet is only watched for its end.
    const short events = connection.state == State::kWriting     ? POLLOUT
                         : connection.state == State::kAnswering ? 0
                                                                 : POLLIN;
    polled.push_back({connection.fd.get(), events, 0});
    deadline = std::min(deadline, connection.deadline);
  }
  const int timeout = deadline == absl::InfiniteFuture()
                          ? -1
                          : static_cast<int>(std::clamp<int64_t>(
                                absl::ToInt64Milliseconds(deadline - absl::Now()) + 1, 0, 60'000));
  poll(polled.data(), polled.size(), timeout);
  const absl::Time now = absl::Now();
  auto next = polled.begin() + 2;
  for (auto it = connections_.begin(); it != connections_.end();) {
    const short events = (next++)->revents;
    const bool answering = it->second.state == State::kAnswering;
    const bool broken = (events & (POLLERR | POLLNVAL | (answering ? POLLHUP : 0))) != 0;
    const bool stays =
        !broken && now < it->second.deadline && (events == 0 || Advance(it->first, it->second));
    it = stays ? std::next(it) : connections_.erase(it);
  }
}

void HttpServer::AcceptSome() {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    UniqueFd fd(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.get() < 0) {
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
      // No descriptor is left: one of ours goes, else who waits would wake this thread at once.
      if (!connections_.empty()) connections_.erase(connections_.begin());
      absl::SleepFor(absl::Milliseconds(5));
      return;
    }
    if (connections_.size() >= limits_.connections) connections_.erase(connections_.begin());
    const uint64_t id = next_id_++;
    Connection& connection = connections_[id];
    connection.fd = std::move(fd);
    connection.deadline = absl::Now() + limits_.request_time;
    // Most requests are here with their connection.
    if (!Advance(id, connection)) connections_.erase(id);
  }
}

void HttpServer::SendAnswers() {
  eventfd_t ignored;
  eventfd_read(wake_.get(), &ignored);
  std::vector<std::pair<uint64_t, HttpAnswer>> answers;
  {
    absl::MutexLock lock(&mutex_);
    answers.swap(answers_);
  }
  for (const auto& [id, answer] : answers) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) continue;  // It has gone meanwhile.
    Answer(found->second, answer);
    if (!Advance(id, found->second)) connections_.erase(found);
  }
}

bool HttpServer::Advance(uint64_t id, Connection& connection) {
  using State = Connection::State;
  if (connection.state == State::kReading && !Read(id, connection)) return false;
  if (connection.state == State::kWriting && !Write(connection)) return false;
  if (connection.state == State::kClosing) return Discard(connection);
  return true;
}

bool HttpServer::Read(uint64_t id, Connection& connection) {
  char buffer[4096];
  while (true) {
    const ssize_t size = recv(connection.fd.get(), buffer, sizeof(buffer), 0);
    if (size < 0) return WouldBlock();
    if (size == 0) return false;
    connection.request.append(buffer, static_cast<size_t>(size));
    if (absl::StrContains(connection.request, "\r\n\r\n")) {
      Handle(id, connection);
      return true;
    }
    if (connection.request.size() > limits_.request_bytes) {
      Answer(connection, {.code = 431, .body = "the request's headers are too large\n"});
      return true;
    }
  }
}

void HttpServer::Handle(uint64_t id, Connection& connection) {
  const absl::string_view text = connection.request;
  const std::vector<absl::string_view> line =
      absl::StrSplit(text.substr(0, text.find("\r\n")), ' ');
  if (line.size() != 3 || !absl::StartsWith(line[2], "HTTP/1.")) {
    return Answer(connection, {.code = 400, .body = "not an HTTP/1 request\n"});
  }
  const auto found = handlers_.find(std::string(line[1].substr(0, line[1].find('?'))));
  if (found == handlers_.end()) return Answer(connection, {.code = 404, .body = "not found\n"});
  if (line[0] != "GET" && line[0] != "HEAD") {
    return Answer(connection, {.code = 405, .body = "only GET and HEAD\n"});
  }
  const Handler& handler = found->second;
  if (!handler.may_wait) return Answer(connection, AnswerOf(handler));
  connection.state = Connection::State::kAnswering;
  connection.deadline = absl::Now() + limits_.answer_time;
  const absl::Status added = waiting_handlers_.Add("", [this, id, &handler] {
    CatchOutOfMemory([&] {
      HttpAnswer answer = AnswerOf(handler);
      absl::MutexLock lock(&mutex_);
      answers_.emplace_back(id, std::move(answer));
      return absl::OkStatus();
    }).IgnoreError();  // It is closed when its time is over.
    eventfd_write(wake_.get(), 1);
  });
  if (!added.ok()) Answer(connection, {.code = 503, .body = "too many requests wait\n"});
}

void HttpServer::Answer(Connection& connection, const HttpAnswer& answer) {
  connection.response = absl::StrCat("HTTP/1.1 ", answer.code, " ", Reason(answer.code),
                                     "\r\nContent-Type: ", answer.content_type,
                                     "\r\nContent-Length: ", answer.body.size(),
                                     "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n");
  if (!absl::StartsWith(connection.request, "HEAD ")) connection.response += answer.body;
  connection.state = Connection::State::kWriting;
  connection.deadline = absl::Now() + limits_.answer_time;
}

bool HttpServer::Write(Connection& connection) {
  while (connection.sent < connection.response.size()) {
    const ssize_t size = send(connection.fd.get(), connection.response.data() + connection.sent,
                              connection.response.size() - connection.sent, MSG_NOSIGNAL);
    if (size < 0) return WouldBlock();
    connection.sent += static_cast<size_t>(size);
  }
  // Closed while bytes of the peer's are unread, its system would throw the answer away.
  shutdown(connection.fd.get(), SHUT_WR);
  connection.state = Connection::State::kClosing;
  connection.deadline = absl::Now() + absl::Seconds(1);
  return true;
}

bool HttpServer::Discard(Connection& connection) {
  char buffer[4096];
  while (true) {
    const ssize_t size = recv(connection.fd.get(), buffer, sizeof(buffer), 0);
    if (size <= 0) return size < 0 && WouldBlock();
  }
}

}  // namespace formwork::server
