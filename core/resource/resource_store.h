#pragma once

// All resources, by namespace and name and by ID, and the lock under which calls take their places.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/base/hash_map.h"
#include "core/resource/commit_log.h"
#include "core/resource/resource.h"

namespace formwork {

/// Thread-safe.
class ResourceStore {
 public:
  /// `first_id`: where IDs start. `usages`: where what it holds is counted, and limited; outlives
  /// it; may be null.
  explicit ResourceStore(uint64_t first_id = 1, NamespaceUsages* usages = nullptr)
      : usages_(usages), next_id_(first_id) {}

  /// From now on all that changes in namespaces of Durability::kSync (without `usages`: in all)
  /// goes to `log`, which outlives the store. To be called before anybody else knows the store.
  void set_log(CommitLog* log) { log_ = log; }
  /// Null where nothing is logged.
  CommitLog* log() const { return log_; }

  /// Creates, or finds what has that name (then `value` is not used and `*existed` is set).
  /// `value`: a variable's. Errors: kInvalidArgument naming the resource if what is there is of
  /// another type, or the value does not fit; kResourceExhausted if the namespace may not hold it.
  /// `exact_shape`: whether a compatible shape will not do.
  absl::StatusOr<std::shared_ptr<Resource>> Create(absl::string_view name_space,
                                                   absl::string_view name, ResourceType type,
                                                   std::optional<Tensor> value, bool exact_shape,
                                                   bool* existed);
  /// A resource as a graph declares it.
  struct Declaration {
    std::string name;
    ResourceType type;
  };
  /// The resources of those names, all of them or, on an error, none: what is not there is created
  /// without a value. Errors: as Create, where a compatible shape will do.
  absl::StatusOr<std::vector<std::shared_ptr<Resource>>> FindOrCreateAll(
      absl::string_view name_space, absl::Span<const Declaration> declared);
  /// Null where there is none.
  std::shared_ptr<Resource> Find(uint64_t id) const;
  std::shared_ptr<Resource> FindByName(absl::string_view name_space, absl::string_view name) const;
  std::vector<std::shared_ptr<Resource>> List(absl::string_view name_space) const;  ///< By name.
  std::vector<std::shared_ptr<Resource>> ListAll() const;                           ///< By ID.
  /// A resource of an earlier life, with all that it had; `value` may have none. To be called
  /// before anybody else knows the store.
  void Restore(uint64_t id, absl::string_view name_space, absl::string_view name, ResourceType type,
               uint64_t version, Tensor value, size_t bytes);
  /// Calls that hold the resource go on with it. False where it was gone.
  bool Remove(const Resource& resource);
  void Clear(absl::string_view name_space);

  int64_t count() const;
  uint64_t bytes() const;
  uint64_t next_id() const { return next_id_.load(std::memory_order_relaxed); }
  uint64_t NextId() { return next_id_.fetch_add(1, std::memory_order_relaxed); }

  // Of the tickets.
  uint64_t waits() const { return waits_.load(std::memory_order_relaxed); }
  double wait_seconds() const { return wait_nanos_.load(std::memory_order_relaxed) * 1e-9; }

 private:
  friend class AccessTicket;
  using Names = std::map<std::string, std::shared_ptr<Resource>, std::less<>>;

  // The resource of that name, or null where it may be created.
  absl::StatusOr<std::shared_ptr<Resource>> Check(absl::string_view name_space,
                                                  const Declaration& declared,
                                                  bool exact_shape) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // One that is not there, counted as `bytes`. `anyway`: whatever the limits say. Errors:
  // kResourceExhausted.
  absl::StatusOr<std::shared_ptr<Resource>> Add(uint64_t id, absl::string_view name_space,
                                                const Declaration& declared, size_t bytes,
                                                bool anyway = false)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Null where it was gone.
  std::shared_ptr<Resource> Erase(const Resource& resource) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // They are there now, or no more: under mutex_, so that the log has it before anybody can act on
  // it.
  void LogAdded(absl::Span<const std::shared_ptr<Resource>> added)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LogRemoved(absl::Span<const std::shared_ptr<Resource>> removed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Log(CommitRecord record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  NamespaceUsages* const usages_;
  CommitLog* log_ = nullptr;
  mutable absl::Mutex mutex_;
  HashMap<std::string, Names> namespaces_ ABSL_GUARDED_BY(mutex_);
  HashMap<uint64_t, std::shared_ptr<Resource>> by_id_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> next_id_;

  // The one lock under which tickets are taken and passed on; it also guards every line.
  absl::Mutex line_mutex_;
  std::atomic<uint64_t> waits_{0};
  std::atomic<int64_t> wait_nanos_{0};
};

}  // namespace formwork
