#include "core/base/parallel.h"

#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/base/call_once.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "core/base/memory_budget.h"
#include "core/base/stop_flag.h"

namespace formwork {
namespace {

std::atomic<int> threads_in_use{0};

alignas(64) std::atomic<int> computing{0};
thread_local bool computes = false;

// Runs `body` over [begin, end) and looks at the flag in between: after a grain at first, and after
// up to 64 where they are quick, so that what `body` sets up is paid less often.
void RunBlocks(int64_t begin, int64_t end, int64_t grain, StopFlag* stop,
               absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  if (stop == nullptr) return body(begin, end);
  if (end - begin <= grain) {
    // Many short ones can take long, too: each looks, but not at the clock.
    if (!stop->requested() || !stop->CutsWork()) body(begin, end);
    return;
  }
  constexpr int64_t kQuickNanos = 500'000;
  const int64_t longest = grain > INT64_MAX / 64 ? INT64_MAX : 64 * grain;
  int64_t block = grain;
  int64_t started = absl::GetCurrentTimeNanos();
  while (begin < end && !stop->CutsWork()) {
    const int64_t next = end - begin > block ? begin + block : end;
    body(begin, next);
    begin = next;
    const int64_t now = absl::GetCurrentTimeNanos();
    if (now - started < kQuickNanos && block <= longest / 2) block *= 2;
    started = now;
  }
}

int HardwareThreads() { return std::max(1u, std::thread::hardware_concurrency()); }

// How many of `wanted` threads the system gives at once. oneTBB ends the process where it cannot
// start one, so this is found out before.
int StartableThreads(int wanted) {
  absl::Notification done;
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(std::max(0, wanted)));
  try {
    while (static_cast<int>(threads.size()) < wanted) {
      threads.emplace_back([&done] { done.WaitForNotification(); });
    }
  } catch (const std::system_error&) {  // No more threads.
  }
  done.Notify();
  for (std::thread& thread : threads) thread.join();
  return static_cast<int>(threads.size());
}

// Has oneTBB start its workers now, where a thread that is missing would be noticed: one task for
// each thread, which waits until all are running. They stay as long as this thread does.
void StartWorkers(int threads) {
  constexpr absl::Duration kMost = absl::Seconds(1);  // A busy machine starts them later.
  const absl::Time deadline = absl::Now() + kMost;
  absl::Mutex mutex;
  int running = 0;
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism,
                                  static_cast<size_t>(threads));
  tbb::task_arena arena(threads);
  arena.execute([&] {
    tbb::parallel_for(
        0, threads,
        [&](int) {
          absl::MutexLock lock(&mutex);
          ++running;
          auto all = [&running, threads] { return running >= threads; };
          mutex.AwaitWithDeadline(absl::Condition(&all), deadline);
        },
        tbb::simple_partitioner());
  });
}

}  // namespace

void ParallelFor(int64_t n, int64_t grain,
                 absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  StopFlag* const stop = StopScope::current();
  if (n <= grain || ParallelThreads() == 1) return RunBlocks(0, n, grain, stop, body);
  MemoryBudget* const budget = HeapScope::current();
  MemoryShare* const share = HeapScope::share();
  tbb::parallel_for(tbb::blocked_range<int64_t>(0, n, grain),
                    [&](const tbb::blocked_range<int64_t>& r) {
                      // A thread that waits for its own tasks may be given another call's.
                      const StopScope scope(stop);
                      const HeapScope heap(budget, share);
                      RunBlocks(r.begin(), r.end(), grain, stop, body);
                    });
}

void ForBlocks(int64_t n, int64_t grain, absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  if (n <= 0) return;
  RunBlocks(0, n, std::max<int64_t>(grain, 1), StopScope::current(), body);
}

ComputeScope::ComputeScope() : counts_(!computes) {
  if (!counts_) return;
  computes = true;
  computing.fetch_add(1, std::memory_order_relaxed);
}

ComputeScope::~ComputeScope() {
  if (!counts_) return;
  computes = false;
  computing.fetch_sub(1, std::memory_order_relaxed);
}

bool ThreadsAreFree() { return computing.load(std::memory_order_relaxed) < ParallelThreads(); }

int ParallelThreads() {
  int threads = threads_in_use.load(std::memory_order_relaxed);
  return threads > 0 ? threads : HardwareThreads();
}

void SetParallelThreads(int threads) {
  static absl::once_flag once;
  absl::call_once(once, [threads] {
    const int wanted = threads > 0 ? threads : HardwareThreads();
    const int workers = wanted > 1 ? StartableThreads(wanted - 1) : 0;
    threads_in_use.store(workers + 1, std::memory_order_relaxed);
    if (workers > 0) StartWorkers(workers + 1);
    // Leaked: oneTBB forgets the limit when the object goes, and it is meant to hold until exit.
    static auto* const limit = new tbb::global_control(tbb::global_control::max_allowed_parallelism,
                                                       static_cast<size_t>(workers) + 1);
    (void)limit;
  });
}

}  // namespace formwork
