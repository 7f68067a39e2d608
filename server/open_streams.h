#pragma once

// The open streams of a service, so that a server that ends can close them, and those that nobody
// uses end by themselves.

#include <cstddef>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/hash_map.h"
#include "core/base/memory_budget.h"

namespace formwork::server {

/// A stream of any method. Thread-safe.
class OpenStream {
 public:
  virtual ~OpenStream() = default;
  /// Ends it as soon as it has nothing left to answer, with kUnavailable.
  virtual void CloseWhenIdle() = 0;
  /// Ends it where nothing has moved since `since`.
  virtual void EndIfIdle(absl::Time since) = 0;

 protected:
  /// Runs `work`, which gRPC, the engine or a thread of ours has called for; where it throws for
  /// want of memory, the stream is broken.
  void Guard(absl::FunctionRef<void()> work);
  /// Ends it with an error, whatever it has left to do. Does not throw.
  virtual void Break(const absl::Status& status) = 0;
};

/// Keeps the streams alive that are in it, and bounds their number. Thread-safe.
class OpenStreams {
 public:
  /// `idle_timeout`: after so long without any progress a stream ends; infinite: never. `memory`,
  /// which outlives this: what gRPC takes for a stream counts there.
  OpenStreams(absl::Duration idle_timeout, MemoryBudget& memory);
  ~OpenStreams();

  /// Errors: kResourceExhausted; then the stream is to end, and is kept until Remove all the same.
  /// Where this throws, it is not.
  absl::Status Add(std::shared_ptr<OpenStream> stream);
  void Remove(OpenStream* stream);
  void CloseWhenIdle();

 private:
  struct Entry {
    std::shared_ptr<OpenStream> stream;
    MemoryReservation held;
  };

  void WatchIdle();
  void EndIdle();

  const absl::Duration idle_timeout_;
  MemoryBudget& memory_;
  const size_t most_;  // A quarter of the memory limit: gRPC, which has half, is not used up.
  absl::Mutex mutex_;
  HashMap<OpenStream*, Entry> streams_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread watch_;
};

}  // namespace formwork::server
