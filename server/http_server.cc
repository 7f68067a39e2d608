#include "server/http_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "absl/time/clock.h"
#include "core/base/status.h"
#include "server/http_connection.h"
#include "server/listen_socket.h"

namespace formwork::server {
namespace {

// After each such bundle those who are there already get their turn.
constexpr int kAcceptedAtOnce = 16;
}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address, int port,
                                                              Handlers handlers,
                                                              MemoryBudget* budget,
                                                              const Limits& limits,
                                                              const TlsFiles* tls) {
  int bound_port = 0;
  FORMWORK_ASSIGN_OR_RETURN(UniqueFd socket, ListenOnTcp(address, port, &bound_port));
  std::unique_ptr<HttpServer> server(
      new HttpServer(std::move(socket), bound_port, std::move(handlers), budget, limits));
  FORMWORK_RETURN_IF_ERROR(server->StartLibrary(tls));
  FORMWORK_RETURN_IF_ERROR(server->StartThread());
  return server;
}

HttpServer::HttpServer(UniqueFd socket, int port, Handlers handlers, MemoryBudget* budget,
                       const Limits& limits)
    : socket_(std::move(socket)),
      port_(port),
      handlers_(std::move(handlers)),
      budget_(budget),
      limits_(limits),
      outbox_(std::make_shared<HttpOutbox>()),
      waiting_handlers_(2, static_cast<int64_t>(limits.connections)) {}

absl::Status HttpServer::StartThread() {
  const absl::Status started = CatchOutOfMemory([this] {
    thread_ = std::thread([this] { Run(); });
    return absl::OkStatus();
  });
  if (started.ok()) return started;
  return absl::UnavailableError("no thread for HTTP");
}

HttpServer::~HttpServer() {
  outbox_->Close();
  outbox_->Wake();
  if (thread_.joinable()) thread_.join();
  if (daemon_ == nullptr) return;
  for (auto& [id, connection] : connections_) {  // The library cannot stop before.
    if (connection.works()) CutOff(connection);
  }
  MHD_stop_daemon(daemon_);
}

void HttpServer::Run() {
  outbox_->SetTaker(std::this_thread::get_id());
  while (!outbox_->closed()) {
    const absl::Status status = CatchOutOfMemory([this] {
      Poll();
      AcceptSome();
      SendAnswers();
      return absl::OkStatus();
    });
    MHD_run(daemon_);
    CutOffLate();
    if (is_awaited_.load()) TellAnswered();
    if (!status.ok()) absl::SleepFor(absl::Milliseconds(5));
  }
}

// Waits until something can be done.
void HttpServer::Poll() {
  MHD_UNSIGNED_LONG_LONG milliseconds = 0;
  absl::Time deadline = absl::InfiniteFuture();
  if (MHD_get_timeout(daemon_, &milliseconds) == MHD_YES) {
    deadline = absl::Now() + absl::Milliseconds(milliseconds);
  }
  const int epoll_fd = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
  polled_ = {{outbox_->wake_fd(), POLLIN, 0}, {socket_.get(), POLLIN, 0}, {epoll_fd, POLLIN, 0}};
  const size_t first_working = polled_.size();
  for (const auto& [id, connection] : connections_) {
    deadline = std::min(deadline, connection.deadline);
    if (!connection.works()) continue;
    // Who has sent a body and then ends the connection is taken not to wait for its answer.
    const short events = connection.takes_bodies() ? POLLRDHUP : 0;
    polled_.push_back({connection.fd, events, 0});
  }
  const size_t first_closing = polled_.size();
  deadline = std::min(deadline, closing_.Watch(&polled_));
  if (outbox_->HasSome()) deadline = absl::InfinitePast();
  const absl::Duration left = absl::Ceil(deadline - absl::Now(), absl::Milliseconds(1));
  poll(polled_.data(), polled_.size(),
       static_cast<int>(std::clamp<int64_t>(absl::ToInt64Milliseconds(left), 0, 60'000)));
  const pollfd* seen = polled_.data() + first_working;
  for (auto& [id, connection] : connections_) {
    if (connection.works() && (seen++)->revents != 0) CutOff(connection);
  }
  closing_.Read(polled_.data() + first_closing);
}

void HttpServer::AcceptSome() {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    if (connections_.size() + closing_.size() >= limits_.connections) {
      pollfd waits = {socket_.get(), POLLIN, 0};
      if (poll(&waits, 1, 0) <= 0) return;
      if (closing_.size() > 0) {
        closing_.CloseOldest();
      } else {
        if (!CutOffOne()) return;
        MHD_run(daemon_);
        if (connections_.size() >= limits_.connections) return;
      }
    }
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    UniqueFd fd(accept4(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size,
                        SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.get() < 0) {
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
      // No descriptor is left: one of ours goes, else who waits would wake this thread at once.
      if (closing_.size() > 0) {
        closing_.CloseOldest();
      } else {
        CutOffOne();
      }
      absl::SleepFor(absl::Milliseconds(5));
      return;
    }
    Accept(std::move(fd), &address, size);
  }
}

void HttpServer::Accept(UniqueFd fd, const void* address, size_t size) {
  const uint64_t id = next_id_++;
  Connection& connection = connections_.try_emplace(id, this, id, fd.get()).first->second;
  connection.deadline = connection.since + limits_.request_time;
  accepted_ = &connection;
  // Where it fails, it has closed the descriptor, and may have told of the connection's end.
  MHD_add_connection(daemon_, fd.release(), static_cast<const sockaddr*>(address),
                     static_cast<socklen_t>(size));
  if (std::exchange(accepted_, nullptr) != nullptr) connections_.erase(id);
}

void HttpServer::SendAnswers() {
  for (HttpOutbox::Sent& sent : outbox_->TakeAll()) {
    const auto found = connections_.find(sent.id);
    if (found == connections_.end() || found->second.cut_off) continue;
    found->second.answer = std::move(sent.answer);
    MHD_resume_connection(found->second.handle);
  }
}

void HttpServer::AwaitAnswers(absl::Time deadline) {
  is_awaited_.store(true);
  outbox_->Wake();
  answered_.WaitForNotificationWithDeadline(deadline);
}

void HttpServer::TellAnswered() {
  using State = Connection::State;
  const bool busy = std::any_of(connections_.begin(), connections_.end(), [](const auto& entry) {
    const State state = entry.second.state;
    return state == State::kWorking || state == State::kAnswering;
  });
  if (!busy && !outbox_->HasSome() && !answered_.HasBeenNotified()) answered_.Notify();
}

void HttpServer::CutOffLate() {
  const absl::Time now = absl::Now();
  for (auto& [id, connection] : connections_) {
    if (connection.deadline <= now) CutOff(connection);
  }
}

bool HttpServer::CutOffOne() {
  using State = Connection::State;
  Connection* chosen = nullptr;
  const auto rank = [](const Connection& connection) {
    const int stage = connection.state == State::kIdle      ? 0
                      : connection.state != State::kWorking ? 1
                                                            : 2;
    return std::make_pair(stage, connection.since);
  };
  for (auto& [id, connection] : connections_) {
    const bool works = connection.state == State::kWorking && connection.takes_bodies();
    if (works || connection.cut_off) continue;
    if (chosen == nullptr || rank(connection) < rank(*chosen)) chosen = &connection;
  }
  if (chosen != nullptr) CutOff(*chosen);
  return chosen != nullptr;
}

// The library sees the end of the connection, which it then closes.
void HttpServer::CutOff(Connection& connection) {
  const bool works = connection.works();
  connection.deadline = absl::InfiniteFuture();
  if (std::exchange(connection.cut_off, true)) return;
  shutdown(connection.fd, SHUT_RDWR);
  if (!works) return;
  MHD_resume_connection(connection.handle);
  CatchOutOfMemory([&] {
    connection.peer->NoteGone();
    return absl::OkStatus();
  }).IgnoreError();
}

}  // namespace formwork::server
