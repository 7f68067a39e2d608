#pragma once

// A bounded number of places that keys (namespaces) share so that none can take them all.

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/base/hash_map.h"

namespace formwork {

/// A key may hold three times as many places as are free: alone it gets three quarters of them, and
/// the more of its kind there are, the less each (dynamic thresholds: Choudhury and Hahne, 1998). A
/// key that holds none always gets one, until twice the number are taken. Thread-safe.
class FairPlaces {
 public:
  explicit FairPlaces(int64_t places) : places_(places) {}

  /// False where the key may not have another one now.
  bool Take(absl::string_view key);
  /// One more, whatever is taken: for what has been let in before, and makes room for another.
  void TakeAnyway(absl::string_view key);
  void Release(absl::string_view key);

  int64_t taken() const;
  int64_t taken(absl::string_view key) const;

 private:
  const int64_t places_;
  void Add(absl::string_view key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  HashMap<std::string, int64_t> by_key_ ABSL_GUARDED_BY(mutex_);
  int64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace formwork
