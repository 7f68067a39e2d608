#include "server/connection_listener.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "server/listen_socket.h"
#include "spdlog/spdlog.h"

namespace formwork::server {
namespace {

// A client's first bytes come with its connection: one that is silent for longer is none.
constexpr absl::Duration kFirstBytes = absl::Seconds(1);
// How often all connections are looked through for idle ones, at most.
constexpr absl::Duration kSearchPeriod = absl::Milliseconds(250);
constexpr int kSweepMilliseconds = 1000;

// 0 where `fd` is closed, or no socket.
ino_t SocketOf(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

// For how long the peer of a TCP connection that nobody can miss has been silent.
std::optional<absl::Duration> Silence(int fd, absl::Duration age) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  if (info.tcpi_bytes_received == 0 && age >= kFirstBytes) return age;
  const absl::Duration silence = absl::Milliseconds(info.tcpi_last_data_recv);
  if (silence > ConnectionListener::kBusySilence + kFirstBytes) return silence;
  return std::nullopt;
}

}  // namespace

ConnectionListener::ConnectionListener(size_t max_connections)
    : max_connections_(max_connections), stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void ConnectionListener::Start(std::vector<UniqueFd> sockets, Take take) {
  sockets_ = std::move(sockets);
  take_ = std::move(take);
  thread_ = std::thread([this] { Run(); });
}

void ConnectionListener::Stop() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
  absl::MutexLock lock(&mutex_);
  sockets_.clear();
}

absl::StatusOr<UniqueFd> ConnectionListener::ConnectToSelf() {
  absl::MutexLock lock(&mutex_);  // It is not accepted before it is known.
  if (sockets_.empty()) return absl::UnavailableError("nothing listens any more");
  FORMWORK_ASSIGN_OR_RETURN(UniqueFd connection, ConnectTo(sockets_.front().get()));
  own_ = UniqueFd(fcntl(connection.get(), F_DUPFD_CLOEXEC, 0));
  return connection;
}

ConnectionListener::Stats ConnectionListener::GetStats() {
  absl::MutexLock lock(&mutex_);
  Sweep();
  return stats_;
}

bool ConnectionListener::IsUp(const std::string& peer) {
  if (!absl::StartsWith(peer, "ipv")) return true;
  absl::MutexLock lock(&mutex_);
  // gRPC encodes the brackets of IPv6.
  const auto found = by_peer_.find(absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}}));
  if (found == by_peer_.end()) return false;
  const int fd = found->second;
  if (SocketOf(fd) != connections_[fd].socket) return false;  // Closed.
  pollfd polled{fd, POLLRDHUP, 0};
  return poll(&polled, 1, 0) <= 0;
}

void ConnectionListener::Run() {
  std::vector<pollfd> polled;
  for (const UniqueFd& socket : sockets_) polled.push_back({socket.get(), POLLIN, 0});
  polled.push_back({stop_.get(), POLLIN, 0});
  const bool tells_of_clients = spdlog::should_log(spdlog::level::debug);
  while (true) {
    poll(polled.data(), polled.size(), tells_of_clients ? kSweepMilliseconds : -1);
    if (polled.back().revents != 0) return;
    const absl::Status status = CatchOutOfMemory([&] {
      for (const pollfd& socket : polled) {
        if (socket.revents != 0) AcceptFrom(socket.fd);
      }
      if (tells_of_clients) {
        absl::MutexLock lock(&mutex_);
        Sweep();
      }
      return absl::OkStatus();
    });
    if (!status.ok()) absl::SleepFor(absl::Milliseconds(20));
  }
}

void ConnectionListener::AcceptFrom(int socket) {
  UniqueFd connection(accept4(socket, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (connection.get() >= 0) {
    absl::MutexLock lock(&mutex_);
    Admit(std::move(connection));
    return;
  }
  const int error = errno;
  if (error == EAGAIN || error == EINTR || error == ECONNABORTED) return;
  LogLimited(errors_log_, spdlog::level::err, "cannot accept a connection: {}",
             std::strerror(error));
  // Of descriptors or memory: what waits to be accepted would wake this thread at once.
  absl::SleepFor(absl::Milliseconds(20));
  absl::MutexLock lock(&mutex_);
  CutOffOne();
}

void ConnectionListener::Admit(UniqueFd connection) {
  const int fd = connection.get();
  std::string peer = PeerOf(fd);
  if (stats_.open >= max_connections_) Sweep();
  if (stats_.open >= max_connections_ && !CutOffOne()) {
    ++stats_.refused;
    LogLimited(refusals_log_, spdlog::level::warn,
               "refuses a connection: there are as many as --max-connections allows: limit={} "
               "peer={}",
               max_connections_, peer);
    return;
  }
  if (connections_.size() <= static_cast<size_t>(fd)) connections_.resize(fd + 1);
  if (connections_[fd].socket != 0) Forget(fd);
  spdlog::debug("client {} connects", peer);
  by_peer_[peer] = fd;
  connections_[fd] = {SocketOf(fd), absl::Now(), std::move(peer)};
  ++stats_.open;
  ++stats_.accepted;
  const bool is_own = own_.get() >= 0 && AreEndsOfOne(own_.get(), fd);
  if (is_own) own_ = UniqueFd();
  const bool is_remote = !is_own && connections_[fd].peer != "unix:";
  take_(connection.release(), is_remote);
}

void ConnectionListener::Forget(int fd) {
  Connection& connection = connections_[fd];
  spdlog::debug(
      "client {} has gone after {}", connection.peer,
      absl::FormatDuration(absl::Trunc(absl::Now() - connection.since, absl::Milliseconds(1))));
  const auto by_peer = by_peer_.find(connection.peer);
  if (by_peer != by_peer_.end() && by_peer->second == fd) by_peer_.erase(by_peer);
  connection = {};
  --stats_.open;
}

void ConnectionListener::Sweep() {
  for (size_t i = 0; i < connections_.size(); ++i) {
    const int fd = static_cast<int>(i);
    if (connections_[i].socket != 0 && SocketOf(fd) != connections_[i].socket) Forget(fd);
  }
}

void ConnectionListener::FindIdle(absl::Time now) {
  std::vector<std::pair<absl::Duration, int>> found;
  for (size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i].socket == 0) continue;
    const int fd = static_cast<int>(i);
    if (const auto silence = Silence(fd, now - connections_[i].since)) {
      found.emplace_back(*silence, fd);
    }
  }
  std::sort(found.begin(), found.end(), std::greater<>());
  for (const auto& [silence, fd] : found) idle_.push_back(fd);
}

bool ConnectionListener::CutOffOne() {
  const absl::Time now = absl::Now();
  if (idle_.empty() && now - searched_ >= kSearchPeriod) {
    FindIdle(now);
    searched_ = now;
  }
  while (!idle_.empty()) {
    const int fd = idle_.front();
    idle_.pop_front();
    const Connection& connection = connections_[fd];
    // It may have gone, or have woken up, since it was found.
    if (connection.socket == 0 || SocketOf(fd) != connection.socket) continue;
    if (!Silence(fd, now - connection.since)) continue;
    shutdown(fd, SHUT_RDWR);  // Whoever has it sees its end, and closes it.
    ++stats_.cut_off;
    LogLimited(refusals_log_, spdlog::level::warn,
               "cuts off an idle connection for a new one: there are as many as "
               "--max-connections allows: limit={} peer={}",
               max_connections_, connection.peer);
    Forget(fd);
    return true;
  }
  return false;
}

}  // namespace formwork::server
