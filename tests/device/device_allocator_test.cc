// A device's memory within a budget.

#include "core/device/device_allocator.h"

#include <memory>

#include "tests/support/sim_device.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

class DeviceAllocatorTest : public ::testing::Test {
 protected:
  absl::StatusOr<BufferBlock*> Allocate(size_t bytes) {
    return memory_.Allocate(bytes, stream_.get());
  }

  SimDevice device_{1};
  std::unique_ptr<Stream> stream_ = device_.NewStream().value();
  MemoryBudget budget_{1000};
  DeviceAllocator memory_{device_.allocator(), budget_};
};

TEST_F(DeviceAllocatorTest, CountsWhatIsHeldAndGivesItBack) {
  Buffer first(Allocate(600).value());
  EXPECT_TRUE(first.on_device());
  EXPECT_EQ(budget_.used(), 600u);
  const Buffer second(Allocate(1).value());
  EXPECT_EQ(budget_.used(), 601u);
  first.Reset();  // Nothing has run: the stream's later memory may be the same.
  EXPECT_EQ(budget_.used(), 1u);
  const Buffer third(Allocate(999).value());
  EXPECT_EQ(budget_.used(), 1000u);
}

TEST_F(DeviceAllocatorTest, RefusesWhatGoesPastTheLimitAndNamesTheNumbers) {
  const Buffer first(Allocate(600).value());
  EXPECT_THAT(Allocate(401), StatusIs(StatusCode::kResourceExhausted,
                                      HasSubstr("bytes wanted=401 used=600 limit=1000")));
  EXPECT_EQ(budget_.refusals(), 1u);
  EXPECT_EQ(budget_.used(), 600u);
  const Buffer second(Allocate(400).value());
  EXPECT_EQ(budget_.used(), 1000u);
}

TEST_F(DeviceAllocatorTest, IsTakenOffTheShareOfTheCall) {
  MemoryShare share(100);
  const HeapScope scope(nullptr, &share);
  Buffer first(Allocate(60).value());
  EXPECT_THAT(Allocate(50), StatusIs(StatusCode::kResourceExhausted,
                                     HasSubstr("bytes wanted=50 used=60 limit=100")));
  EXPECT_EQ(budget_.used(), 60u);
  EXPECT_EQ(budget_.refusals(), 1u);
  first.Reset();
  EXPECT_EQ(share.used(), 0u);
  const Buffer second(Allocate(100).value());
}

TEST_F(DeviceAllocatorTest, KeepsNothingOfWhatTheDeviceRefuses) {
  MemoryShare share(100);
  const HeapScope scope(nullptr, &share);
  EXPECT_THAT(memory_.Allocate(10, nullptr), StatusIs(StatusCode::kInvalidArgument));
  device_.Lose();
  EXPECT_THAT(Allocate(10), StatusIs(StatusCode::kUnavailable));
  EXPECT_EQ(budget_.used(), 0u);
  EXPECT_EQ(share.used(), 0u);
}

}  // namespace
}  // namespace formwork::testing
