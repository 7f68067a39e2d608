#include "core/base/beside.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "core/base/parallel.h"

namespace formwork {
namespace {

TEST(Beside, WorkRunsOnAnotherThreadAndNoMoreWaitsThanThereAreThreads) {
  SetParallelThreads(2);
  const int others = ParallelThreads() - 1;
  if (others == 0) {
    EXPECT_FALSE(TryRunBeside([] {}));
    return;
  }
  const std::thread::id self = std::this_thread::get_id();
  absl::Notification go_on;
  absl::BlockingCounter begun(others);
  std::atomic<int> ran_here{0};
  for (int i = 0; i < others; ++i) {
    ASSERT_TRUE(TryRunBeside([&] {
      if (std::this_thread::get_id() == self) ++ran_here;
      begun.DecrementCount();
      go_on.WaitForNotification();
    }));
    if (i + 1 == others) begun.Wait();
  }
  // All threads are taken.
  absl::BlockingCounter waited(others);
  for (int i = 0; i < others; ++i) {
    EXPECT_TRUE(TryRunBeside([&waited] { waited.DecrementCount(); }));
  }
  EXPECT_FALSE(TryRunBeside([] { ADD_FAILURE() << "it was refused"; }));
  // Loops go on.
  std::atomic<int64_t> sum{0};
  ParallelFor(100, 1, [&sum](int64_t begin, int64_t end) { sum += end - begin; });
  EXPECT_EQ(sum, 100);
  go_on.Notify();
  waited.Wait();
  EXPECT_EQ(ran_here, 0);
}

// What it waits for is a loop of its own: it is given nothing that was asked for meanwhile.
TEST(Beside, WorkWithLoopsRunsNoOtherWorkMeanwhile) {
  SetParallelThreads(2);
  static thread_local int depth = 0;
  std::atomic<int> nested{0}, ran{0}, asked{0};
  for (int i = 0; i < 2000; ++i) {
    const bool accepted = TryRunBeside([&] {
      if (++depth > 1) ++nested;
      ParallelFor(16, 1, [&](int64_t begin, int64_t end) {
        std::atomic<int64_t> busy{0};
        for (int64_t k = 0; k < (end - begin) * 500; ++k) busy += k;
      });
      --depth;
      ++ran;
    });
    if (accepted) ++asked;
  }
  while (ran < asked) std::this_thread::yield();
  EXPECT_EQ(nested, 0);
}

}  // namespace
}  // namespace formwork
