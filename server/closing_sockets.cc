#include "server/closing_sockets.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/time/clock.h"

namespace formwork::server {
namespace {

// Whether more may come.
bool DiscardAll(int fd) {
  char buffer[16 << 10];
  for (int i = 0; i < 16; ++i) {  // Then the others get their turn.
    const ssize_t size = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (size <= 0) return size < 0 && (errno == EAGAIN || errno == EINTR);
  }
  return true;
}

}  // namespace

void ClosingSockets::Add(int fd) {
  UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (copy.get() < 0) return;
  shutdown(copy.get(), SHUT_WR);
  if (!DiscardAll(copy.get())) return;
  sockets_.push_back({std::move(copy), absl::Now() + absl::Seconds(1)});
}

absl::Time ClosingSockets::Watch(std::vector<pollfd>* polled) const {
  for (const Closing& closing : sockets_) polled->push_back({closing.fd.get(), POLLIN, 0});
  return sockets_.empty() ? absl::InfiniteFuture() : sockets_.front().deadline;
}

void ClosingSockets::Read(const pollfd* seen) {
  const absl::Time now = absl::Now();
  std::deque<Closing> left;
  for (Closing& closing : sockets_) {
    const bool stays = (seen++)->revents == 0 || DiscardAll(closing.fd.get());
    if (stays && now < closing.deadline) left.push_back(std::move(closing));
  }
  sockets_.swap(left);
}

}  // namespace formwork::server
