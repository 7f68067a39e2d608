#include "core/base/beside.h"

#include <tbb/task_arena.h>

#include <atomic>
#include <new>
#include <utility>

#include "core/base/parallel.h"

namespace formwork {
namespace {

std::atomic<int> waiting{0};

// One apart from those of callers' loops: who waits for a loop of its own is given nothing of it.
tbb::task_arena& Arena() {
  static auto* const arena = new tbb::task_arena(ParallelThreads(), /*reserved_for_masters=*/0);
  return *arena;
}

}  // namespace

bool TryRunBeside(absl::AnyInvocable<void() const> work) {
  const int others = ParallelThreads() - 1;
  if (others < 1) return false;
  if (waiting.fetch_add(1, std::memory_order_relaxed) < others) {
    try {
      Arena().enqueue([work = std::move(work)] {
        waiting.fetch_sub(1, std::memory_order_relaxed);
        // Where it waits for a loop of its own, it is not given what others have asked for, too:
        // that may wait for this.
        tbb::this_task_arena::isolate(work);
      });
      return true;
    } catch (const std::bad_alloc&) {
    }
  }
  waiting.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

}  // namespace formwork
