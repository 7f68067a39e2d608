// Memory that several streams of a call use: when it goes back.

#include "core/kernels/stream_scope.h"
#include "core/base/status.h"
#include "core/device/host_allocator.h"
#include "core/resource/resource_store.h"
#include "tests/support/sim_device.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using ::testing::IsEmpty;

// Counts the blocks that are there.
class Counted final : public Allocator {
 public:
  explicit Counted(Allocator& memory) : memory_(memory) {}
  absl::StatusOr<BufferBlock*> Allocate(size_t bytes, Stream* stream) override {
    absl::StatusOr<BufferBlock*> block = memory_.Allocate(bytes, stream);
    if (!block.ok()) return block;
    (*block)->allocator = this;
    ++blocks;
    return block;
  }
  void Free(BufferBlock* block) override {
    --blocks;
    memory_.Free(block);
  }

  int blocks = 0;

 private:
  Allocator& memory_;
};

class StreamScopeTest : public ::testing::Test {
 protected:
  StreamScopeTest() {
    ticket_.Take({}, [] {});
  }
  ~StreamScopeTest() override {
    ticket_.ReleaseAll();
    while (IsWaiting(scope_.Ready())) scope_.Block();
    EXPECT_EQ(memory_.blocks, 0);
    device_.RunAll();
    EXPECT_THAT(device_.Reports(), IsEmpty());
  }
  void Write(const Tensor& value) {
    scope_.stream().Launch({.reads = {}, .writes = {&value.buffer()}},
                           [] { return absl::OkStatus(); });
  }
  void Read(const Tensor& value) {
    scope_.NoteRead(value);
    scope_.stream().Launch({.reads = {&value.buffer()}, .writes = {}},
                           [] { return absl::OkStatus(); });
  }
  // Made on stream 0; its point is 0.
  Tensor Made() {
    Tensor value = scope_.Allocate(DType::kFloat, Shape({16})).value();
    Write(value);
    scope_.RecordPoint(0);
    return value;
  }

  SimDevice device_{1};
  Counted memory_{device_.allocator()};
  ResourceStore store_;
  AccessTicket ticket_{store_, ProcessAllocator()};
  const std::unique_ptr<Stream> streams_[2] = {device_.NewStream().value(),
                                               device_.NewStream().value()};
  StreamScope scope_{memory_, {streams_[0].get(), streams_[1].get()}, ticket_, ProcessAllocator()};
};

TEST_F(StreamScopeTest, WhatItsOwnStreamReadsGoesBackAtOnce) {
  Tensor value = Made();
  Read(value);
  value = Tensor();
  EXPECT_EQ(memory_.blocks, 0);
}

TEST_F(StreamScopeTest, WhatAnotherStreamReadsGoesBackOnceItsOwnWaitsForThat) {
  Tensor value = Made();
  scope_.Go(1);
  scope_.WaitForPoint(0);
  Read(value);
  scope_.RecordPoint(1);
  scope_.Go(0);
  value = Tensor();
  EXPECT_EQ(memory_.blocks, 1);
  scope_.WaitForPoint(1);
  EXPECT_EQ(memory_.blocks, 0);
}

TEST_F(StreamScopeTest, AWaitForWhatWasBeforeTheReadIsNotEnough) {
  Tensor value = Made();
  scope_.Go(1);
  scope_.WaitForPoint(0);
  scope_.RecordPoint(1);
  scope_.Go(1);
  Read(value);
  scope_.Go(0);
  value = Tensor();
  scope_.WaitForPoint(1);
  EXPECT_EQ(memory_.blocks, 1);
}

TEST_F(StreamScopeTest, WhatStreamZeroReadsOfAnotherIsHeldToo) {
  scope_.Go(1);
  Tensor value = Made();
  scope_.Go(0);
  scope_.WaitForPoint(0);
  Read(value);
  value = Tensor();
  EXPECT_EQ(memory_.blocks, 1);
}

TEST_F(StreamScopeTest, NothingIsHeldOnceAllHasRun) {
  Tensor value = Made();
  scope_.Go(1);
  scope_.WaitForPoint(0);
  Read(value);
  scope_.Go(0);
  value = Tensor();
  EXPECT_TRUE(IsWaiting(scope_.Ready()));
  EXPECT_EQ(memory_.blocks, 1);
  device_.RunAll();
  EXPECT_OK(scope_.Ready());
  EXPECT_EQ(memory_.blocks, 0);
}

TEST_F(StreamScopeTest, ThereIsNoSecondWaitForWhatFollows) {
  int waits = 0;
  device_.LeaveOutWaits([&](const SimWait&) {
    ++waits;
    return false;
  });
  const Tensor value = Made();
  scope_.Go(1);
  scope_.WaitForPoint(0);
  scope_.WaitForPoint(0);
  Read(value);
  scope_.RecordPoint(1);
  scope_.Go(0);
  scope_.WaitForPoint(1);
  scope_.WaitForPoint(0);
  EXPECT_EQ(waits, 2);
}

TEST(EnqueuedStatus, IsThatOfTheEarliestStepThatFailed) {
  EnqueuedStatus status;
  EXPECT_FALSE(status.FailedBefore(100));
  status.Fail(7, InvalidArgument("seven"), 2);
  EXPECT_TRUE(status.FailedBefore(8));
  EXPECT_FALSE(status.FailedBefore(7));
  status.Fail(9, InvalidArgument("nine"), 3);
  EXPECT_EQ(status.Get().message(), "seven");
  status.Fail(4, InvalidArgument("four"), 1);
  EXPECT_EQ(status.Get().message(), "four");
  EXPECT_EQ(status.effects_before_failure(), 1);
  EXPECT_TRUE(status.FailedBefore(5));
}

}  // namespace
}  // namespace formwork::testing
