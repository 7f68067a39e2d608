#pragma once

// Tensors that calls left on the server.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/base/hash_map.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// One of them, as it is shown.
struct KeptTensorInfo {
  uint64_t id = 0;
  DType dtype = DType::kInvalid;
  Shape shape;
  uint64_t bytes = 0;         ///< What it is counted as: its elements and what keeping it takes.
  std::string owner;          ///< As CallSpec::owner had it.
  std::string function_name;  ///< Whose output it is.
  absl::Time created;
  absl::Time expires = absl::InfiniteFuture();  ///< Put off by each use.
};

/// By namespace and ID. Each has a time to live, which begins anew when it is used. Thread-safe:
/// however many there are, no method holds the lock for long.
class KeptTensors {
 public:
  /// `first_id`: where IDs start. `max_bytes`: of one namespace; 0: no limit.
  KeptTensors(uint64_t first_id, size_t max_bytes) : max_bytes_(max_bytes), next_id_(first_id) {}

  /// Keeps it; its ID. `ttl` infinite: until it is released. Errors: kResourceExhausted if the
  /// namespace would have more than `max_bytes`.
  absl::StatusOr<uint64_t> Put(absl::string_view name_space, absl::string_view owner,
                               absl::string_view function_name, absl::Duration ttl, Tensor tensor);
  /// Its value, for use. Errors: kNotFound.
  absl::StatusOr<Tensor> Use(absl::string_view name_space, uint64_t id);
  std::vector<KeptTensorInfo> List(absl::string_view name_space);  ///< By ID.
  /// How many went.
  int64_t Release(absl::string_view name_space, absl::Span<const uint64_t> ids);
  void Clear(absl::string_view name_space);
  struct Expired {
    std::string name_space;
    KeptTensorInfo info;
  };
  /// Removes those whose time has passed, a thousand at the most, and adds them to `expired`. When
  /// there may be more to do: not after `now` where it is to be called again at once.
  absl::Time Expire(absl::Time now, std::vector<Expired>* expired);

  int64_t count() const;
  uint64_t next_id() const;
  uint64_t bytes() const;
  uint64_t evictions() const;  ///< Those that Expire removed.

 private:
  struct NameSpace;
  // By the time at which to look whether it has been used meanwhile: to use one costs nothing here.
  using Ends = std::set<std::tuple<absl::Time, uint64_t, NameSpace*>>;
  struct Kept {
    Tensor tensor;
    std::string owner;
    std::string function_name;
    absl::Time created;
    absl::Duration ttl;
    absl::Time expires;
    Ends::iterator end;  // ends_.end() where it stays until it is released.
  };
  struct NameSpace {
    absl::string_view name;
    std::map<uint64_t, Kept> tensors;
    uint64_t bytes = 0;
  };
  // What leaves under the lock, to be destroyed after it.
  using Dropped = std::vector<Tensor>;

  static uint64_t BytesOf(const Kept& kept);
  static KeptTensorInfo InfoOf(uint64_t id, const Kept& kept);
  // Null where nothing is kept in it.
  NameSpace* Find(absl::string_view name_space) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Erase(NameSpace& space, uint64_t id, Dropped& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetIfEmpty(NameSpace& space) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t max_bytes_;
  mutable absl::Mutex mutex_;
  HashMap<std::string, NameSpace> name_spaces_ ABSL_GUARDED_BY(mutex_);
  Ends ends_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_);
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t evictions_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace formwork
