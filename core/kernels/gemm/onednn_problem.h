#pragma once

// What oneDNN has compiled, and how that is run: shared by what uses its primitives.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <list>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/base/hash_map.h"

namespace formwork {

/// What oneDNN takes for one problem by other means than operator new: 110 to 250 KB were measured.
inline constexpr int64_t kOnednnProblemBytes = int64_t{200} << 10;

const dnnl::engine& OnednnEngine();

/// A primitive that oneDNN has compiled, and what it takes. What a run of it is given is kept for
/// those that follow: to make it anew takes longer than a small run (README.md). Thread-safe.
class OnednnPrimitive {
 public:
  struct Argument {
    int name;  ///< DNNL_ARG_SRC and its like.
    dnnl::memory::desc desc;
  };

  OnednnPrimitive() = default;  ///< None, which cannot run.
  OnednnPrimitive(dnnl::primitive primitive, std::vector<Argument> arguments);
  OnednnPrimitive(const OnednnPrimitive&) = delete;
  OnednnPrimitive& operator=(OnednnPrimitive&& other);  ///< Before either has run.
  ~OnednnPrimitive();

  /// `data`: of each argument, in order. On this thread. Errors, which name `what`:
  /// kResourceExhausted; kInternal.
  absl::Status Run(std::initializer_list<const void*> data, absl::string_view what) const;

 private:
  // By oneDNN's C API: its C++ classes allocate three times more for each argument.
  using Arguments = std::vector<dnnl_exec_arg_t>;

  dnnl_status_t Make(Arguments* made) const;
  static void Destroy(const Arguments& arguments);

  dnnl::primitive primitive_;
  std::vector<Argument> arguments_;
  mutable absl::Mutex mutex_;
  mutable std::vector<Arguments> spare_ ABSL_GUARDED_BY(mutex_);
};

/// The problems of one kind that were compiled last. Thread-safe.
template <typename Key, typename Problem>
class OnednnCache {
 public:
  using Value = std::shared_ptr<const Problem>;

  Value Find(const Key& key) {
    absl::MutexLock lock(&mutex_);
    const auto found = index_.find(key);
    if (found == index_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return found->second->second;
  }

  void Insert(const Key& key, const Value& value) {
    absl::MutexLock lock(&mutex_);
    if (index_.contains(key)) return;  // Another thread was faster.
    order_.emplace_front(key, value);
    index_.emplace(key, order_.begin());
    if (order_.size() > kMost) {
      index_.erase(order_.back().first);
      order_.pop_back();
    }
  }

  /// What somebody still runs stays until then.
  void Clear() {
    std::list<Entry> dropped;  // Goes after the lock.
    absl::MutexLock lock(&mutex_);
    index_.clear();
    dropped.swap(order_);
  }

 private:
  static constexpr size_t kMost = 512;
  using Entry = std::pair<Key, Value>;
  absl::Mutex mutex_;
  std::list<Entry> order_ ABSL_GUARDED_BY(mutex_);  // Last used first.
  HashMap<Key, typename std::list<Entry>::iterator> index_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace formwork
