#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/connection_listener.h"

namespace formwork::server {

/// Whether the server's gRPC port serves, found out as a client does: by a connection of its own
/// and grpc.health.v1's Check. Without TLS, which might want a certificate of it. Thread-safe.
class Readiness {
 public:
  static constexpr absl::Duration kTimeout = absl::Milliseconds(500);
  /// For how long an answer stands.
  static constexpr absl::Duration kFresh = absl::Milliseconds(500);

  /// `listener`: the port's; it outlives this.
  explicit Readiness(ConnectionListener& listener) : listener_(listener) {}

  /// Waits for up to kTimeout; those who ask meanwhile wait for the same answer.
  bool Serves();

 private:
  bool Ask() const;

  ConnectionListener& listener_;
  absl::Mutex mutex_;
  bool serves_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time asked_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace formwork::server
