#pragma once

// All variables, by namespace and name and by ID, and the lock under which calls take their places.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/resource/variable.h"

namespace formwork {

/// Thread-safe.
class ResourceStore {
 public:
  /// `max_waiting`: how many tickets may stand in line at once.
  explicit ResourceStore(int64_t max_waiting = 1024) : max_waiting_(max_waiting) {}

  /// Creates, or finds what has that name (then `value` is not used and `*existed` is set).
  /// Errors: kInvalidArgument naming the variable if what is there has another dtype or shape, or
  /// the value does not fit the shape. `exact_shape`: whether a compatible shape will not do.
  absl::StatusOr<std::shared_ptr<Variable>> Create(absl::string_view name_space,
                                                   absl::string_view name, DType dtype,
                                                   const PartialShape& shape,
                                                   std::optional<Tensor> value, bool exact_shape,
                                                   bool* existed);
  /// Null where there is none.
  std::shared_ptr<Variable> Find(uint64_t id) const;
  std::shared_ptr<Variable> FindByName(absl::string_view name_space, absl::string_view name) const;
  std::vector<std::shared_ptr<Variable>> List(absl::string_view name_space) const;  ///< By name.
  /// Calls that hold the variable go on with it. False where it was gone.
  bool Remove(const Variable& variable);
  void Clear(absl::string_view name_space);

  int64_t count() const;
  uint64_t bytes() const;
  uint64_t NextId() { return next_id_.fetch_add(1, std::memory_order_relaxed); }

  // Of the tickets.
  uint64_t waits() const { return waits_.load(std::memory_order_relaxed); }
  double wait_seconds() const { return wait_nanos_.load(std::memory_order_relaxed) * 1e-9; }

 private:
  friend class AccessTicket;
  using Names = absl::btree_map<std::string, std::shared_ptr<Variable>>;

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, Names> namespaces_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, std::shared_ptr<Variable>> by_id_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> next_id_{1};

  // The one lock under which tickets are taken and passed on; it also guards every line.
  absl::Mutex line_mutex_;
  int64_t waiting_ ABSL_GUARDED_BY(line_mutex_) = 0;
  const int64_t max_waiting_;
  std::atomic<uint64_t> waits_{0};
  std::atomic<int64_t> wait_nanos_{0};
};

}  // namespace formwork
