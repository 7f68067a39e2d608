#pragma once

// FunctionCache: (namespace, name) -> ConcreteFunctions; dispatch by subtyping; bounded.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/types/span.h"
#include "core/base/hash_map.h"
#include "core/base/namespace_usage.h"
#include "core/function/concrete_function.h"
#include "core/function/dispatch.h"

namespace formwork {

using FunctionPtr = std::shared_ptr<const ConcreteFunction>;

/// Where a call goes.
struct Dispatch {
  FunctionPtr function;       ///< Null where there is none; then:
  bool unknown_name = false;  ///< The namespace has no function of that name.
  /// Else: those that did not fit, earliest first; of very many, not all.
  std::vector<FunctionType> candidates;
  std::optional<FunctionType> suggested;  ///< And the type to trace next.
};

struct FunctionCacheStats {
  int64_t entries = 0;
  size_t bytes = 0;
  uint64_t hits = 0, misses = 0, evictions = 0;
};

/// Owns what is registered; a function that a caller still holds is not evicted. Thread-safe.
class FunctionCache {
 public:
  /// Bounds of what is kept: the least recently used go first. While callers hold more than that,
  /// the cache is larger.
  /// `first_id`: where IDs start; by another start after a restart an old ID is never a new
  /// function's.
  /// `usages`: where what it holds is counted, and limited; outlives it; may be null.
  FunctionCache(int64_t max_entries, size_t max_bytes, uint64_t first_id = 1,
                NamespaceUsages* usages = nullptr);

  /// Told, from now on, of each function that is there (`there`) or is no longer, in the order in
  /// which that is seen: under the cache's lock, so that it is to be short, and does not throw. To
  /// be called before anybody else knows the cache.
  void set_on_change(std::function<void(const ConcreteFunction& function, bool there)> told) {
    on_change_ = std::move(told);
  }

  /// Dispatches as TensorFlow does: an equal type, else the most specific of those that the request
  /// is a subtype of, the earliest where several are.
  Dispatch Find(absl::string_view name_space, absl::string_view name, const FunctionType& request);
  /// The same for a call that has flat inputs alone: by the tensors' types, whatever structure the
  /// functions' signatures put around them.
  Dispatch Find(absl::string_view name_space, absl::string_view name,
                absl::Span<const InputType> inputs);
  /// Null where there is none, or no longer.
  FunctionPtr Find(absl::string_view name_space, uint64_t id);

  struct Registered {
    FunctionPtr function;
    bool existed = false;                   ///< Found by its identity; nothing was compiled.
    std::vector<FunctionPtr> evicted = {};  ///< What had to go for it.
  };
  /// Returns the function of that identity, compiling it where there is none: by `compile`, which
  /// fills in all but id (unless it is one of an earlier life), name_space, name and identity;
  /// called without a lock, by one of those who ask for the same identity at once, while the others
  /// wait and share its result. Errors: kAlreadyExists if name and type stand for another identity
  /// and `replace` is not set; kResourceExhausted if the function is larger than the cache, or if
  /// the namespace may not hold it; those of `compile`; that of the thread's StopFlag, of one that
  /// is stopped while it waits. Where the one that compiles is stopped another goes on.
  absl::StatusOr<Registered> Register(
      absl::string_view name_space, absl::string_view name, FunctionIdentity identity, bool replace,
      absl::FunctionRef<absl::StatusOr<std::shared_ptr<ConcreteFunction>>()> compile);

  /// How many went.
  int64_t Remove(absl::string_view name_space, uint64_t id);
  int64_t Remove(absl::string_view name_space, absl::string_view name);
  int64_t Clear(absl::string_view name_space);

  /// By name, each name's in order of registration.
  std::vector<FunctionPtr> List(absl::string_view name_space) const;
  std::vector<FunctionPtr> List(absl::string_view name_space, absl::string_view name) const;
  std::vector<FunctionPtr> ListAll() const;  ///< Of all namespaces, by ID.
  uint64_t next_id() const;

  FunctionCacheStats stats() const;

 private:
  struct Entry {
    std::shared_ptr<const ConcreteFunction> function;
    std::vector<FlatInput> inputs;  // What dispatch by flat inputs compares.
    uint64_t last_used = 0;
    UsageItem counted;
  };
  // In order of registration. Shared, so that a search needs no lock.
  using Entries = std::vector<std::shared_ptr<Entry>>;
  // A registration that is being compiled.
  struct Flight {
    FunctionIdentity identity;
    absl::Notification done;
    absl::StatusOr<FunctionPtr> result = absl::UnknownError("");
    bool stopped = false;  // Who compiled was stopped: that is nobody else's result.
  };
  struct Name {
    Entries entries;
    std::vector<std::shared_ptr<Flight>> flights;
    // Where earlier requests went; emptied whenever `entries` changes.
    HashMap<InputsKey, Entry*> by_inputs;
    HashMap<size_t, std::pair<FunctionType, Entry*>> by_type;
  };
  using NameSpace = HashMap<std::string, Name>;
  // What a registration may turn out to be the same as.
  struct Rivals {
    FunctionPtr function;   // The one of its name and type that can be called; null: none.
    bool replaces = false;  // One of its name and type, which can be called or not.
    std::vector<std::shared_ptr<Flight>> flights;  // Of its name.
    bool operator==(const Rivals&) const = default;
  };

  // What leaves the cache under the lock, to be destroyed after it.
  using Dropped = std::vector<FunctionPtr>;

  Name* FindName(absl::string_view name_space, absl::string_view name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Dispatch Hit(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Dispatch UnknownName() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Dispatch Miss(const Entries& entries, const FunctionType& request) ABSL_LOCKS_EXCLUDED(mutex_);
  Rivals RivalsOf(absl::string_view name_space, absl::string_view name, const FunctionType& type)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<FunctionPtr> Insert(absl::string_view name_space, absl::string_view name,
                                     std::shared_ptr<ConcreteFunction> function, bool replace,
                                     Dropped& dropped, Dropped& evicted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Evict(Dropped& evicted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Erase(Name& name, size_t index, Dropped& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EraseAll(Name& name, Dropped& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetIfEmpty(absl::string_view name_space, absl::string_view name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::function<void(const ConcreteFunction& function, bool there)> on_change_;
  const int64_t max_entries_;
  const size_t max_bytes_;
  NamespaceUsages* const usages_;
  mutable absl::Mutex mutex_;
  HashMap<std::string, NameSpace> name_spaces_ ABSL_GUARDED_BY(mutex_);
  HashMap<uint64_t, Entry*> by_id_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_);
  uint64_t clock_ ABSL_GUARDED_BY(mutex_) = 0;
  FunctionCacheStats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace formwork
