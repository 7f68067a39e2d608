#pragma once

// Splitting one kernel's work: over the compute threads (oneTBB underneath), and into pieces
// between which the thread's StopFlag is looked at (stop_flag.h). Where work is cut the rest of the
// range is left undone, and so is every later loop of the same step.

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace formwork {

/// Runs `body(begin, end)` over disjoint ranges that cover [0, n), side by side where n > grain,
/// and returns when all are done. `grain` is about how many items are worth a task of their own
/// (aim at 20 us or more; at most 20 ms, for the sake of stopping). The calling thread takes part.
/// `body` may run on several threads, each in the caller's HeapScope; what it throws, it gets.
void ParallelFor(int64_t n, int64_t grain,
                 absl::FunctionRef<void(int64_t begin, int64_t end)> body);

/// Runs `body(begin, end)` over blocks of `grain` items that cover [0, n), in order, on the calling
/// thread: for loops that cannot be split, or that are not worth it. `grain`: as above.
void ForBlocks(int64_t n, int64_t grain, absl::FunctionRef<void(int64_t begin, int64_t end)> body);

/// The number of threads that ParallelFor uses at the most.
int ParallelThreads();

/// Counts the thread, once, among those that compute, while it lives: of who runs a call.
class ComputeScope {
 public:
  ComputeScope();
  ~ComputeScope();
  ComputeScope(const ComputeScope&) = delete;
  ComputeScope& operator=(const ComputeScope&) = delete;

 private:
  const bool counts_;
};

/// Whether fewer threads compute than ParallelThreads(): what takes so little that its parts cost
/// others more than they gain is split only then. Changes at any time.
bool ThreadsAreFree();

/// Starts them, for the life of the process: as many, or what the system gives. Once; 0: all cores.
void SetParallelThreads(int threads);

}  // namespace formwork
