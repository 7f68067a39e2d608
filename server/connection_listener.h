#pragma once

// Accepts gRPC's connections in place of gRPC's own listener, which has no bound and is gone for
// good at the first accept that fails (no file descriptor left).

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/hash_map.h"
#include "server/logging.h"
#include "server/unique_fd.h"

namespace formwork::server {

/// Hands on what connects, from a thread of its own, with at most so many connections at once.
///
/// Where there are that many, a connection that nobody can miss is cut off for a new one: one that
/// has sent nothing a second after it was made, or one over TCP that has been silent for longer
/// than gRPC would leave a connection with calls (kBusySilence). Else the new one is closed at
/// once. Thread-safe.
class ConnectionListener {
 public:
  /// What the peer of a connection with calls answers is gRPC's keepalive ping, at least this
  /// often.
  static constexpr absl::Duration kBusySilence = absl::Seconds(20);

  struct Stats {
    size_t open = 0;        ///< Not closed yet, by either side.
    uint64_t accepted = 0;  ///< In all.
    uint64_t refused = 0;   ///< Closed at once.
    uint64_t cut_off = 0;   ///< Closed for new ones.
  };

  explicit ConnectionListener(size_t max_connections);
  ConnectionListener(const ConnectionListener&) = delete;
  ConnectionListener& operator=(const ConnectionListener&) = delete;
  ~ConnectionListener() { Stop(); }

  /// What gets each connection's file descriptor, and closes it some time. `is_remote`: it is over
  /// TCP, and not one of ConnectToSelf's.
  using Take = std::function<void(int fd, bool is_remote)>;
  /// Accepts from `sockets` from now on, of which the first is over TCP. Once. Not thread-safe.
  void Start(std::vector<UniqueFd> sockets, Take take);
  /// Closes the sockets, not the connections. Not thread-safe.
  void Stop();
  /// A connection to the first of the sockets, which is accepted as a client's is, but is not
  /// remote: who looks whether clients are served need not be one that TLS lets in. The latest
  /// alone is known. After Start. Errors: kUnavailable.
  absl::StatusOr<UniqueFd> ConnectToSelf();
  /// Whether both sides still have the connection of `peer`, as gRPC writes it. True where that
  /// cannot be told, because it has no address of its own: over a UNIX socket.
  bool IsUp(const std::string& peer);
  Stats GetStats();
  size_t max_connections() const { return max_connections_; }

 private:
  // A connection that was handed on. Whoever has it does not say when it closes it; a descriptor
  // that is closed, or stands for another socket, tells.
  struct Connection {
    ino_t socket = 0;  // 0: there is none with this descriptor.
    absl::Time since;
    std::string peer;
  };

  void Run();
  void AcceptFrom(int socket);
  void Admit(UniqueFd connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets what has been closed.
  void Sweep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(int fd) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Cuts off a connection that nobody can miss; false where there is none.
  bool CutOffOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FindIdle(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::vector<UniqueFd> sockets_;
  const size_t max_connections_;
  Take take_;
  const UniqueFd stop_;  // An eventfd.
  LogLimit refusals_log_;
  LogLimit errors_log_;

  absl::Mutex mutex_;
  std::vector<Connection> connections_ ABSL_GUARDED_BY(mutex_);  // By descriptor.
  HashMap<std::string, int> by_peer_ ABSL_GUARDED_BY(mutex_);    // Their descriptors.
  Stats stats_ ABSL_GUARDED_BY(mutex_);
  UniqueFd own_ ABSL_GUARDED_BY(mutex_);  // ConnectToSelf's end, until the other is accepted.
  std::deque<int> idle_ ABSL_GUARDED_BY(mutex_);  // The longest silent first.
  absl::Time searched_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::thread thread_;
};

}  // namespace formwork::server
