#include "core/base/stop_flag.h"

#include <atomic>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "core/base/parallel.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace formwork {
namespace {

TEST(StopFlag, SaysWhyTheWorkIsToStop) {
  StopFlag flag;
  EXPECT_FALSE(flag.Poll());
  EXPECT_OK(flag.status());
  flag.Cancel();
  flag.Expire();  // The first reason stays.
  EXPECT_TRUE(flag.requested());
  EXPECT_EQ(flag.status().code(), absl::StatusCode::kCancelled);
}

TEST(StopFlag, SeesADeadlineThatHasPassedWhenPolled) {
  StopFlag flag(absl::Now() - absl::Seconds(1));
  EXPECT_FALSE(flag.requested());
  EXPECT_TRUE(flag.Poll());
  EXPECT_EQ(flag.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(StopFlag().deadline(), absl::InfiniteFuture());
}

TEST(StopFlag, KnowsWhetherAStopIsNear) {
  EXPECT_FALSE(WorkStopsWithin(absl::Hours(1)));
  StopFlag flag(absl::Now() + absl::Minutes(1));
  const StopScope scope(&flag);
  EXPECT_FALSE(WorkStopsWithin(absl::Seconds(1)));
  EXPECT_TRUE(WorkStopsWithin(absl::Hours(1)));
  flag.Cancel();
  EXPECT_TRUE(WorkStopsWithin(absl::ZeroDuration()));
  EXPECT_FALSE(StopFlag().StopsWithin(absl::Hours(1)));
}

TEST(StopFlag, CutsWorkOfItsOwnThreadsAlone) {
  StopFlag flag;
  flag.Cancel();
  EXPECT_FALSE(WorkIsCut());
  {
    const StopScope scope(&flag);
    EXPECT_OK(WorkStatus());  // Nothing has been cut yet.
    EXPECT_TRUE(WorkIsCut());
    EXPECT_EQ(WorkStatus().code(), absl::StatusCode::kCancelled);
    {
      const StopScope none(nullptr);
      EXPECT_FALSE(WorkIsCut());
    }
    EXPECT_TRUE(WorkIsCut());
  }
  EXPECT_FALSE(WorkIsCut());
}

TEST(StopFlag, LetsStepsAfterAnEffectTakeAWhile) {
  StopFlag flag;
  flag.NoteEffect();
  flag.Cancel();
  EXPECT_OK(flag.BeforeStep());
  absl::SleepFor(absl::Milliseconds(60));
  EXPECT_TRUE(flag.CutsWork());
  // One during which the stop comes has that long from when it is seen.
  StopFlag other;
  other.NoteEffect();
  other.Cancel();
  EXPECT_FALSE(other.CutsWork());
  absl::SleepFor(absl::Milliseconds(60));
  EXPECT_TRUE(other.CutsWork());
}

TEST(StopFlag, StopsBetweenStepsBeforeAnyEffect) {
  StopFlag flag;
  flag.Cancel();
  EXPECT_EQ(flag.BeforeStep().code(), absl::StatusCode::kCancelled);
}

TEST(StopFlag, CutsNothingThatIsAllOrNothing) {
  StopFlag flag;
  flag.Cancel();
  const StopScope scope(&flag);
  {
    const UncutScope uncut;
    int64_t done = 0;
    ForBlocks(100, 10, [&](int64_t begin, int64_t end) { done += end - begin; });
    EXPECT_EQ(done, 100);
    EXPECT_OK(WorkStatus());
  }
  EXPECT_TRUE(WorkIsCut());
}

TEST(StopFlag, ForBlocksLeavesTheRestUndone) {
  StopFlag flag;
  const StopScope scope(&flag);
  int64_t done = 0;
  ForBlocks(1'000'000, 100, [&](int64_t begin, int64_t end) {
    EXPECT_FALSE(flag.requested());
    EXPECT_EQ(begin, done);
    done = end;
    if (done >= 300) flag.Cancel();
  });
  EXPECT_GE(done, 300);
  EXPECT_LE(done, 300 + 64 * 100);  // Blocks grow while they are quick.
  EXPECT_TRUE(flag.cut());
  // Nor is anything done that comes later.
  ForBlocks(1, 100, [&](int64_t, int64_t) { ADD_FAILURE(); });
  ParallelFor(1, 100, [&](int64_t, int64_t) { ADD_FAILURE(); });
}

TEST(StopFlag, ParallelForHandsItToTheThreadsThatHelp) {
  StopFlag flag;
  const StopScope scope(&flag);
  std::atomic<int64_t> strangers{0};
  ParallelFor(10000, 1, [&](int64_t, int64_t) { strangers += StopScope::current() != &flag; });
  EXPECT_EQ(strangers, 0);
  std::atomic<int64_t> done{0};
  ParallelFor(1 << 20, 1, [&](int64_t begin, int64_t end) {
    done += end - begin;
    flag.Cancel();
  });
  EXPECT_GT(done, 0);
  EXPECT_LT(done, 1 << 20);
  EXPECT_TRUE(flag.cut());
}

TEST(StopFlag, WithoutOneEverythingIsDone) {
  int64_t done = 0;
  ForBlocks(1000, 100, [&](int64_t begin, int64_t end) { done += end - begin; });
  EXPECT_EQ(done, 1000);
}

}  // namespace
}  // namespace formwork
