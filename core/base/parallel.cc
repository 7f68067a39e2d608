#include "core/base/parallel.h"

#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "core/base/stop_flag.h"

namespace formwork {
namespace {

std::atomic<int> threads_in_use{0};

// What runs between two looks at the clock: longer than a grain where there are many, so that what
// `body` sets up is paid less often.
int64_t BlockOf(int64_t n, int64_t grain, const StopFlag* stop) {
  return stop == nullptr ? n : std::clamp(n / 1024, grain, 32 * grain);
}

void RunBlocks(int64_t begin, int64_t end, int64_t block, StopFlag* stop,
               absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  while (begin < end && (stop == nullptr || !stop->CutsWork())) {
    const int64_t next = end - begin > block ? begin + block : end;
    body(begin, next);
    begin = next;
  }
}

int HardwareThreads() { return std::max(1u, std::thread::hardware_concurrency()); }

}  // namespace

void ParallelFor(int64_t n, int64_t grain,
                 absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  StopFlag* const stop = StopScope::current();
  if (n <= grain) {
    if (stop == nullptr || !stop->cut()) body(0, n);
    return;
  }
  if (ParallelThreads() == 1) return RunBlocks(0, n, BlockOf(n, grain, stop), stop, body);
  tbb::parallel_for(tbb::blocked_range<int64_t>(0, n, grain),
                    [&](const tbb::blocked_range<int64_t>& r) {
                      // A thread that waits for its own tasks may be given another call's.
                      const StopScope scope(stop);
                      RunBlocks(r.begin(), r.end(), BlockOf(n, grain, stop), stop, body);
                    });
}

void ForBlocks(int64_t n, int64_t grain, absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  RunBlocks(0, n, std::max<int64_t>(grain, 1), StopScope::current(), body);
}

int ParallelThreads() {
  int threads = threads_in_use.load(std::memory_order_relaxed);
  return threads > 0 ? threads : HardwareThreads();
}

void SetParallelThreads(int threads) {
  // Leaked: oneTBB forgets the limit when the object goes, and it is meant to hold until exit.
  static auto* const limit = new tbb::global_control(tbb::global_control::max_allowed_parallelism,
                                                     static_cast<size_t>(std::max(1, threads)));
  (void)limit;
  threads_in_use.store(std::max(1, threads), std::memory_order_relaxed);
}

}  // namespace formwork
