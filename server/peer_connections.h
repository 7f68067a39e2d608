#pragma once

// Whether a request was cancelled, or its connection lost: gRPC says the same of both.

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/hash_map.h"

namespace formwork::server {

/// The connections that gRPC was given, by their peers. Thread-safe.
class PeerConnections {
 public:
  /// Of a connection that gRPC is given next, which closes it some time: not told of here. A
  /// descriptor that comes again is another connection's.
  void Add(int fd);
  /// Whether both sides still have the connection of `peer`, as gRPC writes it. True where that
  /// cannot be told, because it has no address of its own: over a UNIX socket.
  bool IsUp(const std::string& peer);

 private:
  struct Connection {
    std::string peer;
    ino_t socket = 0;
  };

  absl::Mutex mutex_;
  std::vector<Connection> by_fd_ ABSL_GUARDED_BY(mutex_);
  HashMap<std::string, int> by_peer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace formwork::server
