#include "core/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace formwork {
namespace {

int ThreadsOfThisProcess() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

// oneTBB ends the process where it cannot start a thread, so all are to be there from the start.
TEST(Parallel, StartsNoThreadWhileManyLoopsRun) {
  SetParallelThreads(2);
  const int before = ThreadsOfThisProcess();
  constexpr int kCallers = 16;
  constexpr int kRounds = 2000;
  constexpr int64_t kItems = 64;
  std::atomic<int64_t> sum = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&sum] {
      for (int round = 0; round < kRounds; ++round) {
        ParallelFor(kItems, 1, [&sum](int64_t begin, int64_t end) { sum += end - begin; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, kCallers * kRounds * kItems);
  // One that has been joined may still be listed for a moment.
  for (int i = 0; i < 1000 && ThreadsOfThisProcess() > before; ++i) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_LE(ThreadsOfThisProcess(), before);
}

TEST(Parallel, ThreadsAreFreeUntilAsManyCompute) {
  SetParallelThreads(2);
  const int others = ParallelThreads() - 1;  // An engine may have started more before.
  ASSERT_GT(others, 0);
  const ComputeScope scope;
  const ComputeScope within;  // The same thread.
  EXPECT_TRUE(ThreadsAreFree());
  absl::BlockingCounter computing(others);
  absl::Notification done;
  std::vector<std::thread> threads;
  for (int i = 0; i < others; ++i) {
    threads.emplace_back([&] {
      const ComputeScope computes;
      computing.DecrementCount();
      done.WaitForNotification();
    });
  }
  computing.Wait();
  EXPECT_FALSE(ThreadsAreFree());
  done.Notify();
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(ThreadsAreFree());
}

}  // namespace
}  // namespace formwork
