// Memory that captured work finds where it was.

#include "core/device/captured_memory.h"

#include <memory>

#include "core/device/device_allocator.h"
#include "tests/support/sim_device.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

class CapturedMemoryTest : public ::testing::Test {
 protected:
  Buffer Allocate(CapturedMemory& memory, size_t bytes) {
    return Buffer(memory.Allocate(bytes, stream_.get()).value());
  }

  SimDevice device_{1};
  std::unique_ptr<Stream> stream_ = device_.NewStream().value();
  MemoryBudget budget_{1000};
  DeviceAllocator memory_{device_.allocator(), budget_};
  MemoryBudget captured_budget_{MemoryBudget::OfDevice(), 500};
};

TEST_F(CapturedMemoryTest, GivesNothingTwiceAndAllBackInTheEnd) {
  std::shared_ptr<CapturedMemory> captured = CapturedMemory::Make(memory_, captured_budget_, 400);
  Buffer first = Allocate(*captured, 100);
  const void* const data = first.data();
  first.Reset();
  EXPECT_EQ(budget_.used(), 100u);
  Buffer second = Allocate(*captured, 100);
  EXPECT_NE(second.data(), data);
  EXPECT_EQ(captured_budget_.used(), 200u);
  captured.reset();  // The block is held still.
  EXPECT_EQ(budget_.used(), 200u);
  second.Reset();
  EXPECT_EQ(budget_.used(), 0u);
  EXPECT_EQ(captured_budget_.used(), 0u);
}

TEST_F(CapturedMemoryTest, BeyondItsRoomMemoryIsAnyOnes) {
  const std::shared_ptr<CapturedMemory> captured =
      CapturedMemory::Make(memory_, captured_budget_, 400);
  const Buffer first = Allocate(*captured, 300);
  EXPECT_TRUE(captured->complete());
  Buffer second = Allocate(*captured, 101);
  EXPECT_FALSE(captured->complete());
  EXPECT_EQ(captured_budget_.used(), 300u);
  second.Reset();
  EXPECT_EQ(budget_.used(), 300u);

  const std::shared_ptr<CapturedMemory> other =
      CapturedMemory::Make(memory_, captured_budget_, 400);
  const Buffer third = Allocate(*other, 201);  // Of what all have together.
  EXPECT_FALSE(other->complete());
  EXPECT_EQ(captured_budget_.used(), 300u);
}

}  // namespace
}  // namespace formwork::testing
