#pragma once

// How fast SnapshotStore writes, so that calls beside it notice little.

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "rocksdb/rate_limiter.h"

namespace formwork {

/// What is put without being logged keeps to the pace, and the database's files to one that is a
/// little faster and has room for what is logged meanwhile. Were the files alone slowed down, the
/// database's buffers would fill up, and whoever logs would wait for them. Thread-safe.
class WritePace {
 public:
  WritePace();

  /// What the database's files are to be written by.
  const std::shared_ptr<rocksdb::RateLimiter>& files() const { return files_; }
  /// 0: as fast as can be.
  void Set(uint64_t bytes_per_second);
  void Logged(uint64_t bytes) { logged_.fetch_add(bytes, std::memory_order_relaxed); }
  /// Returns when so many bytes may be put; to be called before that.
  void AwaitTurn(uint64_t bytes);

 private:
  const std::shared_ptr<rocksdb::RateLimiter> files_;
  std::atomic<uint64_t> logged_{0};  // Bytes, since a turn was looked for last.
  absl::Mutex mutex_;
  uint64_t pace_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time looked_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  // When, by the pace, all is put that turns were given for.
  absl::Time next_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace formwork
