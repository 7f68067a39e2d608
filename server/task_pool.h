#pragma once

// Threads for what may take long, so that gRPC's callback threads never wait: two slow handlers on
// those freeze every connection for as long.

#include <cstdint>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "core/base/fair_places.h"
#include "core/base/thread_pool.h"

namespace formwork::server {

/// A ThreadPool whose queue is bounded; namespaces share threads and places. Its threads are there
/// from the start. Thread-safe.
class TaskPool {
 public:
  TaskPool(int threads, int64_t max_queued) : places_(max_queued), pool_(threads) {}

  /// Queues `task`; false, without having touched it, where too much of `name_space` waits already
  /// or the system gave no threads. Does not wait.
  bool Add(absl::string_view name_space, absl::AnyInvocable<void()>&& task) {
    if (pool_.threads() == 0 || !places_.Take(name_space)) return false;
    absl::Cleanup give_back = [&] { places_.Release(name_space); };
    pool_.Schedule(name_space,
                   [this, key = std::string(name_space), task = std::move(task)]() mutable {
                     places_.Release(key);
                     task();
                   });
    std::move(give_back).Cancel();
    return true;
  }

 private:
  FairPlaces places_;
  ThreadPool pool_;  // Its threads use the above.
};

}  // namespace formwork::server
