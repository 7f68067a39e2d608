#include "server/peer_connections.h"

#include <poll.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "core/base/memory_budget.h"
#include "server/listen_socket.h"
#include "server/unique_fd.h"

namespace formwork::server {

void PeerConnections::Add(int fd) {
  const HeapScope unlimited(nullptr);  // The descriptor is on its way.
  Connection connection{PeerOf(fd), SocketOf(fd)};
  absl::MutexLock lock(&mutex_);
  if (by_fd_.size() <= static_cast<size_t>(fd)) by_fd_.resize(fd + 1);
  const auto before = by_peer_.find(by_fd_[fd].peer);
  if (before != by_peer_.end() && before->second == fd) by_peer_.erase(before);
  by_peer_[connection.peer] = fd;
  by_fd_[fd] = std::move(connection);
}

bool PeerConnections::IsUp(const std::string& peer) {
  if (!absl::StartsWith(peer, "ipv")) return true;
  absl::MutexLock lock(&mutex_);
  // gRPC encodes the brackets of IPv6.
  const auto found = by_peer_.find(absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}}));
  if (found == by_peer_.end()) return false;
  const int fd = found->second;
  if (SocketOf(fd) != by_fd_[fd].socket) return false;  // Closed.
  pollfd polled{fd, POLLRDHUP, 0};
  return poll(&polled, 1, 0) <= 0;
}

}  // namespace formwork::server
