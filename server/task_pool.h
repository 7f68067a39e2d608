#pragma once

// Threads for what may take long, so that gRPC's callback threads never wait: two slow handlers on
// those freeze every connection for as long.

#include <cstdint>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/fair_places.h"
#include "core/base/reason.h"
#include "core/base/status.h"
#include "core/base/thread_pool.h"

namespace formwork::server {

/// A ThreadPool whose queue is bounded; namespaces share threads and places. Its threads are there
/// from the start. Thread-safe.
class TaskPool {
 public:
  TaskPool(int threads, int64_t max_queued) : places_(max_queued), pool_(threads) {}

  /// Queues `task`. Does not wait. Errors: kResourceExhausted, and `task` is as it was, where too
  /// much of `name_space` waits already or the system gave no threads.
  absl::Status Add(absl::string_view name_space, absl::AnyInvocable<void()>&& task) {
    if (pool_.threads() == 0 || !places_.Take(name_space)) {
      return WithReason(ResourceExhausted("too many requests wait for a thread"),
                        Reason::kQueueFull);
    }
    absl::Cleanup give_back = [&] { places_.Release(name_space); };
    pool_.Schedule(name_space,
                   [this, key = std::string(name_space), task = std::move(task)]() mutable {
                     places_.Release(key);
                     task();
                   });
    std::move(give_back).Cancel();
    return absl::OkStatus();
  }

  /// Queues `task`, or runs it here where it cannot be queued: for what is done, and is answered
  /// however much waits.
  void AddOrRun(absl::string_view name_space, absl::AnyInvocable<void()> task) {
    if (!Add(name_space, std::move(task)).ok()) task();
  }

 private:
  FairPlaces places_;
  ThreadPool pool_;  // Its threads use the above.
};

}  // namespace formwork::server
