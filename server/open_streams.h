#pragma once

// The open streams of a service, so that a server that ends can close them, and those that nobody
// uses end by themselves.

#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace formwork::server {

/// A stream of any method. Thread-safe.
class OpenStream {
 public:
  virtual ~OpenStream() = default;
  /// Ends it as soon as it has nothing left to answer, with kUnavailable.
  virtual void CloseWhenIdle() = 0;
  /// Ends it where nothing has moved since `since`.
  virtual void EndIfIdle(absl::Time since) = 0;
};

/// Keeps the streams alive that are in it. Thread-safe.
class OpenStreams {
 public:
  /// `idle_timeout`: after so long without any progress a stream ends; infinite: never.
  explicit OpenStreams(absl::Duration idle_timeout);
  ~OpenStreams();

  void Add(std::shared_ptr<OpenStream> stream);
  void Remove(OpenStream* stream);
  void CloseWhenIdle();

 private:
  void WatchIdle();

  const absl::Duration idle_timeout_;
  absl::Mutex mutex_;
  absl::flat_hash_map<OpenStream*, std::shared_ptr<OpenStream>> streams_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread watch_;
};

}  // namespace formwork::server
