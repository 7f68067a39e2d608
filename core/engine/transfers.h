#pragma once

// What is on its way between memory and files, for those who wait for it. Included by
// core/engine*.cc alone.

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/engine.h"

namespace formwork {

/// One that is under way while it is there. `done` may be counted on by any thread.
struct Transfer {
  Transfer(TransferInfo::Kind kind, std::string name_space, std::string path)
      : kind(kind), name_space(std::move(name_space)), path(std::move(path)) {}

  const TransferInfo::Kind kind;
  const std::string name_space;  ///< Empty: of all.
  const std::string path;
  std::atomic<uint64_t> done{0}, total{0};  ///< Bytes; total 0: not known yet.
};

/// Thread-safe.
class Transfers {
 public:
  std::shared_ptr<Transfer> Begin(TransferInfo::Kind kind, std::string name_space,
                                  std::string path) {
    auto begun = std::make_shared<Transfer>(kind, std::move(name_space), std::move(path));
    absl::MutexLock lock(&mutex_);
    under_way_.remove_if([](const auto& one) { return one.expired(); });
    under_way_.push_back(begun);
    return begun;
  }
  /// Those of the namespace and of all, the oldest first.
  std::vector<TransferInfo> List(absl::string_view name_space) const {
    std::vector<TransferInfo> list;
    absl::MutexLock lock(&mutex_);
    for (const auto& known : under_way_) {
      const std::shared_ptr<const Transfer> one = known.lock();
      if (one == nullptr || !(one->name_space.empty() || one->name_space == name_space)) continue;
      list.push_back({one->kind, one->path, one->done.load(), one->total.load()});
    }
    return list;
  }

 private:
  mutable absl::Mutex mutex_;
  std::list<std::weak_ptr<Transfer>> under_way_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace formwork
