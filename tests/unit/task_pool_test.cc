#include "server/task_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "tests/support/status_matchers.h"

namespace formwork::server {
namespace {

// One task runs until the test is over, and another takes the one place to wait.
class FullTaskPoolTest : public ::testing::Test {
 protected:
  FullTaskPoolTest() {
    EXPECT_OK(pool_.Add("ns", [this] {
      runs_.Notify();
      over_.WaitForNotification();
    }));
    runs_.WaitForNotification();
    EXPECT_OK(pool_.Add("ns", [] {}));
  }
  ~FullTaskPoolTest() override { over_.Notify(); }

  absl::Notification runs_, over_;
  TaskPool pool_{1, 1};
};

TEST_F(FullTaskPoolTest, RefusesWhatItDoesNotTouch) {
  bool ran = false;
  absl::AnyInvocable<void()> task = [&ran, kept = std::make_unique<int>(1)] { ran = *kept == 1; };
  const absl::Status added = pool_.Add("ns", std::move(task));
  EXPECT_TRUE(absl::IsResourceExhausted(added)) << added;
  EXPECT_EQ(ReasonOf(added), Reason::kQueueFull);
  EXPECT_FALSE(ran);
  task();
  EXPECT_TRUE(ran);
}

TEST_F(FullTaskPoolTest, WhatMustBeDoneIsDoneHere) {
  std::thread::id where;
  pool_.AddOrRun("ns", [&] { where = std::this_thread::get_id(); });
  EXPECT_EQ(where, std::this_thread::get_id());
}

TEST(TaskPool, WhatMustBeDoneIsDoneThereWhereThereIsRoom) {
  std::thread::id where;
  absl::Notification done;
  TaskPool pool(1, 4);
  pool.AddOrRun("ns", [&] {
    where = std::this_thread::get_id();
    done.Notify();
  });
  done.WaitForNotification();
  EXPECT_NE(where, std::this_thread::get_id());
}

}  // namespace
}  // namespace formwork::server
