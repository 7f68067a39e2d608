#pragma once

// What each namespace holds, how much it may, and what outlives the process of it.
//
// Who keeps something for a namespace (a variable, a function, a kept tensor) counts it by a
// UsageItem; a namespace is known while something is counted in it, or while it has a durability of
// its own.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/base/hash_map.h"

namespace formwork {

/// What a namespace may hold; of each 0: no limit.
struct NamespaceLimits {
  uint64_t bytes = 0;     ///< Of all together.
  int64_t resources = 0;  ///< Variables and others.
  int64_t functions = 0;
  int64_t kept_tensors = 0;
};

/// What is there of a namespace after its process has ended, however that was.
enum class Durability : uint8_t {
  kMemory,    ///< Nothing.
  kSnapshot,  ///< The last snapshot.
  kSync,      ///< All that was answered.
};

enum class Held : uint8_t { kVariable, kOtherResource, kFunction, kKeptTensor };

/// What one namespace holds.
struct NamespaceHoldings {
  struct Amount {
    int64_t count = 0;
    uint64_t bytes = 0;
  };
  std::string name;
  std::array<Amount, 4> amounts;  ///< By Held.
  Durability durability = Durability::kMemory;

  const Amount& of(Held what) const { return amounts[static_cast<size_t>(what)]; }
  uint64_t bytes() const;  ///< Of all together.
};

/// Of one namespace. Thread-safe.
class NamespaceUsage {
 public:
  NamespaceUsage(absl::string_view name, const NamespaceLimits& limits,
                 Durability durability = Durability::kMemory)
      : name(name), limits_(limits), durability_(durability) {}

  const std::string name;
  /// It does not change while something is counted.
  Durability durability() const { return durability_.load(std::memory_order_relaxed); }
  NamespaceHoldings holdings() const;
  /// Whether so many more, of so many bytes together, may be counted now. Errors: UsageItem's.
  absl::Status CheckRoom(Held what, int64_t count, uint64_t bytes) const;

 private:
  friend class UsageItem;
  friend class NamespaceUsages;
  using Amount = NamespaceHoldings::Amount;

  // Whether there may be `more` of it once there is as much less.
  absl::Status Check(Held what, Amount more, Held gone, Amount less) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Add(Held what, Amount more) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(Held what, Amount less) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Whether nothing is counted, and the durability could be another one.
  bool SetDurability(Durability durability);

  const NamespaceLimits limits_;
  std::atomic<Durability> durability_;  // Is changed under mutex_.
  mutable absl::Mutex mutex_;
  std::array<Amount, 4> amounts_ ABSL_GUARDED_BY(mutex_);
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

/// One thing that is counted in its namespace, from Begin to End or its destruction. One thread at
/// a time may use it, but for End, which may come from another meanwhile. One that has not begun
/// takes everything and counts nothing.
///
/// Errors, and then nothing has changed: kResourceExhausted, which names the namespace, what is
/// wanted, used and the limit.
class UsageItem {
 public:
  UsageItem() = default;
  ~UsageItem() { End(); }
  UsageItem(UsageItem&& other) noexcept { *this = std::move(other); }
  UsageItem& operator=(UsageItem&& other) noexcept;  ///< Of one that has not begun.

  /// `usage` may be null: then it is not counted. `instead_of`, of the same namespace, ends with
  /// that; null: none does.
  absl::Status Begin(std::shared_ptr<NamespaceUsage> usage, Held what, uint64_t bytes,
                     UsageItem* instead_of = nullptr);
  /// Whatever the limits say: of what has been there before.
  void BeginAnyway(std::shared_ptr<NamespaceUsage> usage, Held what, uint64_t bytes);
  absl::Status Resize(uint64_t bytes);
  void ResizeAnyway(uint64_t bytes);
  void End();

 private:
  std::shared_ptr<NamespaceUsage> usage_;
  Held what_ = Held::kVariable;
  bool counted_ = false;            // Under the usage's lock.
  std::atomic<uint64_t> bytes_{0};  // Is changed under the usage's lock.
};

/// Those of all namespaces. Thread-safe; what it gives may outlive it.
class NamespaceUsages {
 public:
  explicit NamespaceUsages(const NamespaceLimits& limits,
                           Durability durability = Durability::kMemory)
      : limits_(limits), durability_(durability) {}

  /// Made where it is not known.
  std::shared_ptr<NamespaceUsage> Of(absl::string_view name);
  /// Null where it holds nothing.
  std::shared_ptr<NamespaceUsage> Find(absl::string_view name) const;
  /// Of those that hold something, or have a durability of their own, by name.
  std::vector<NamespaceHoldings> List() const;

  Durability DurabilityOf(absl::string_view name) const;
  /// Gives it one of its own; none: it has what those have that have none. Errors, and then nothing
  /// has changed: kFailedPrecondition if it is another than before and something is counted;
  /// kResourceExhausted if too many have one.
  absl::Status SetDurability(absl::string_view name, std::optional<Durability> durability);
  /// Those that have one of their own.
  using Durabilities = std::map<std::string, Durability, std::less<>>;
  Durabilities durabilities() const;

 private:
  struct Known {
    absl::Mutex mutex;
    HashMap<std::string, std::weak_ptr<NamespaceUsage>> by_name ABSL_GUARDED_BY(mutex);
    Durabilities durabilities ABSL_GUARDED_BY(mutex);
    std::atomic<bool> has_durabilities{false};
    Durability Of(absl::string_view name, Durability otherwise) const
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
      const auto found = durabilities.find(name);
      return found == durabilities.end() ? otherwise : found->second;
    }
  };

  const NamespaceLimits limits_;
  const Durability durability_;  // Of those that have none of their own.
  const std::shared_ptr<Known> known_ = std::make_shared<Known>();
};

}  // namespace formwork
