#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace formwork {

/// The first error of tasks that run side by side. Thread-safe.
class FirstError {
 public:
  void Note(const absl::Status& status) {
    if (status.ok()) return;
    absl::MutexLock lock(&mutex_);
    if (status_.ok()) status_ = status;
  }
  absl::Status Take() {
    absl::MutexLock lock(&mutex_);
    return status_;
  }

 private:
  absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace formwork
