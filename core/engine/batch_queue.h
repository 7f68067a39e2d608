#pragma once

// Calls of one function that run together. Included by core/engine*.cc alone.

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace formwork {

class CallTask;
struct EngineFunction;

/// Of a function whose calls may be computed as one, row by row (Registration::max_batch_rows):
/// while one of them runs, those that come wait; then the first of them leads, and takes along what
/// waits and fits. So nobody waits for others to come, and the more come, the larger batches are.
/// Every call that has joined leaves. Thread-safe.
class BatchQueue {
 public:
  explicit BatchQueue(int64_t max_rows) : max_rows_(max_rows) {}

  int64_t max_rows() const { return max_rows_; }
  /// Its calls run alone from now on: what they give has no rows after all.
  void SwitchOff() { is_on_.store(false, std::memory_order_relaxed); }
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }

  /// False: nobody runs, and `call` leads. True: it is in line, and waits until it leads, which
  /// CallTask::Lead tells it, or is taken.
  bool Join(std::shared_ptr<CallTask> call);
  /// Those in line that `takes`, which is asked for each in turn; they are in line no longer.
  std::vector<std::shared_ptr<CallTask>> Take(absl::FunctionRef<bool(CallTask&)> takes);
  /// It has ended, or is no longer to run with others. If it led, the next one does.
  void Leave(const CallTask* call);

 private:
  const int64_t max_rows_;
  std::atomic<bool> is_on_{true};
  absl::Mutex mutex_;
  const CallTask* leader_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::list<std::shared_ptr<CallTask>> line_ ABSL_GUARDED_BY(mutex_);
};

/// Whether calls of `function` may be computed as one: its inputs and outputs have any number of
/// rows, it writes nothing and has no other effect. Whether a row of what it gives depends on that
/// row alone is for whoever asks for it to know. Errors: kInvalidArgument saying why not.
absl::Status CheckBatches(const EngineFunction& function);

}  // namespace formwork
