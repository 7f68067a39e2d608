#pragma once

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace formwork::server {

/// Whether the server's gRPC port serves, found out as a client does: by a connection of its own
/// and grpc.health.v1's Check. Thread-safe.
class Readiness {
 public:
  static constexpr absl::Duration kTimeout = absl::Milliseconds(500);
  /// For how long an answer stands.
  static constexpr absl::Duration kFresh = absl::Milliseconds(500);

  /// `target`: a gRPC target: "ipv4:127.0.0.1:8500".
  explicit Readiness(std::string target) : target_(std::move(target)) {}

  /// Waits for up to kTimeout; those who ask meanwhile wait for the same answer.
  bool Serves();

 private:
  bool Ask() const;

  const std::string target_;
  absl::Mutex mutex_;
  bool serves_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time asked_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace formwork::server
