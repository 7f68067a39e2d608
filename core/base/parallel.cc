#include "core/base/parallel.h"

#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

namespace formwork {
namespace {

std::atomic<int> threads_in_use{0};

int HardwareThreads() { return std::max(1u, std::thread::hardware_concurrency()); }

}  // namespace

void ParallelFor(int64_t n, int64_t grain,
                 absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  if (n <= grain || ParallelThreads() == 1) {
    body(0, n);
    return;
  }
  tbb::parallel_for(tbb::blocked_range<int64_t>(0, n, grain),
                    [&](const tbb::blocked_range<int64_t>& r) { body(r.begin(), r.end()); });
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
