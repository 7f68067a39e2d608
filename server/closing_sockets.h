#pragma once

#include <poll.h>

#include <deque>
#include <vector>

#include "absl/time/time.h"
#include "server/unique_fd.h"

namespace formwork::server {

/// Connections whose answer is written: closed while bytes of the peer's are unread, its system
/// would throw the answer away. So they are read until the peer closes too, a second at most. Not
/// thread-safe.
class ClosingSockets {
 public:
  /// Takes a copy of the descriptor. Where there is none left, nothing is done.
  void Add(int fd);
  size_t size() const { return sockets_.size(); }
  void CloseOldest() { sockets_.pop_front(); }

  /// What to wait for, after what `polled` holds; then, with what was seen, reads.
  absl::Time Watch(std::vector<pollfd>* polled) const;
  void Read(const pollfd* seen);

 private:
  struct Closing {
    UniqueFd fd;
    absl::Time deadline;
  };
  std::deque<Closing> sockets_;
};

}  // namespace formwork::server
