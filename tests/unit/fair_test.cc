// What keeps namespaces from starving each other.

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "core/base/fair_places.h"
#include "core/base/fair_queue.h"
#include "core/base/thread_pool.h"
#include "tests/support/status_matchers.h"

namespace formwork {
namespace {

TEST(FairPlacesTest, OneKeyAloneGetsThreeQuarters) {
  FairPlaces places(1024);
  int taken = 0;
  while (places.Take("a")) ++taken;
  EXPECT_EQ(taken, 768);
  EXPECT_EQ(places.taken("a"), 768);
  EXPECT_EQ(places.taken("b"), 0);
  taken = 0;
  while (places.Take("b")) ++taken;
  EXPECT_EQ(taken, 192);
  places.Release("a");
  EXPECT_TRUE(places.Take("b"));
}

TEST(FairPlacesTest, AnotherKeyAlwaysGetsOneUpToTwiceTheNumber) {
  FairPlaces places(4);
  while (places.Take("a")) {
  }
  EXPECT_EQ(places.taken(), 3);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(places.Take(absl::StrCat("b", i))) << i;
  EXPECT_FALSE(places.Take("b0"));
  EXPECT_EQ(places.taken(), 8);
  EXPECT_FALSE(places.Take("c"));
  places.Release("b0");
  EXPECT_TRUE(places.Take("c"));
}

TEST(FairPlacesTest, OnePlaceIsUsed) {
  FairPlaces places(1);
  EXPECT_TRUE(places.Take("a"));
  EXPECT_FALSE(places.Take("a"));
  EXPECT_TRUE(places.Take("b"));
}

// The keys in the order in which their work is taken; all runs on.
std::string TakeAll(FairQueue& queue) {
  std::string order;
  while (queue.HasNext(false)) order += std::string(queue.Take().key);
  return order;
}

TEST(FairQueueTest, TheKeyWithTheFewestRunningComesFirst) {
  FairQueue queue;
  for (int i = 0; i < 4; ++i) queue.Add("a", [] {});
  queue.Add("b", [] {});
  queue.Add("b", [] {});
  EXPECT_EQ(TakeAll(queue),
            "abab"
            "aa");
  queue.Add("a", [] {});
  queue.Add("b", [] {});
  queue.Add("c", [] {});
  EXPECT_EQ(TakeAll(queue), "cba");
}

TEST(FairQueueTest, EqualsTakeTurns) {
  FairQueue queue;
  std::string order;
  for (int i = 0; i < 3; ++i) {
    for (const char* key : {"a", "b", "c"}) queue.Add(key, [] {});
  }
  for (int i = 0; i < 9; ++i) {
    const FairQueue::Next next = queue.Take();
    order += std::string(next.key);
    queue.Done(next.key);  // Quick work.
  }
  EXPECT_EQ(order, "abcabcabc");
  EXPECT_FALSE(queue.HasNext(false));
}

TEST(FairQueueTest, EachKeysOwnWorkStaysInOrder) {
  FairQueue queue;
  std::vector<int> ran;
  for (int i = 0; i < 5; ++i) queue.Add("a", [&ran, i] { ran.push_back(i); });
  while (queue.HasNext(false)) queue.Take().work();
  EXPECT_THAT(ran, ::testing::ElementsAre(0, 1, 2, 3, 4));
}

TEST(FairQueueTest, OnlyIdleKeysHaveANextOneWhereAskedFor) {
  FairQueue queue;
  queue.Add("a", [] {});
  queue.Add("a", [] {});
  EXPECT_TRUE(queue.HasNext(true));
  queue.Take();
  EXPECT_FALSE(queue.HasNext(true));
  EXPECT_TRUE(queue.HasNext(false));
  queue.Add("b", [] {});
  EXPECT_TRUE(queue.HasNext(true));
  EXPECT_EQ(queue.Take().key, "b");
  queue.Done("a");
  EXPECT_TRUE(queue.HasNext(true));
}

TEST(FairQueueTest, WhatIsRemovedIsNotTaken) {
  FairQueue queue;
  const uint64_t first = queue.Add("a", [] { FAIL(); });
  const uint64_t second = queue.Add("a", [] {});
  EXPECT_TRUE(queue.Remove("a", first));
  EXPECT_FALSE(queue.Remove("a", first));
  EXPECT_FALSE(queue.Remove("b", second));
  queue.Take().work();
  EXPECT_FALSE(queue.Remove("a", second));
  queue.Done("a");
  const uint64_t third = queue.Add("a", [] { FAIL(); });
  EXPECT_TRUE(queue.Remove("a", third));
  EXPECT_FALSE(queue.HasNext(false));
}

TEST(ThreadPoolTest, EndlessWorkOfOneKeyLeavesAThreadForAnother) {
  absl::Notification end;
  {
    ThreadPool pool(2);
    for (int i = 0; i < 20; ++i) pool.Schedule("a", [&] { end.WaitForNotification(); });
    for (const char* key : {"b", "c", "b"}) {
      absl::Notification ran;
      pool.Schedule(key, [&] { ran.Notify(); });
      EXPECT_TRUE(ran.WaitForNotificationWithTimeout(absl::Seconds(20)));
    }
    end.Notify();
  }
}

TEST(ThreadPoolTest, RunsWhatIsQueuedBeforeItEnds) {
  std::atomic<int> ran{0};
  {
    ThreadPool pool(2);
    for (int i = 0; i < 100; ++i) {
      pool.Schedule(absl::StrCat(i % 3), [&] { ++ran; });
    }
    pool.Remove("0", 9999);
  }
  EXPECT_EQ(ran, 100);
}

}  // namespace
}  // namespace formwork
