// Calls that wait for a value of the device without a thread, and what reaches them meanwhile. The
// simulated device runs only what a test lets it run, in an order drawn from a seed.

#include <thread>

#include "tests/support/sim_device.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kMiB = size_t{1} << 20;

class EngineParkedTest : public EngineTest, public ::testing::WithParamInterface<uint64_t> {
 protected:
  void SetUp() override {
    device_.IgnoreHost();  // Which is the engine's.
    options_.device = &device_;
    options_.compute_threads = 1;  // ThreadSanitizer does not see what orders others.
    options_.call_threads = 1;
    options_.memory_limit_bytes = 256 * kMiB;
    Start(options_);
    NewVariable("v", 1);
    // The host waits for the predicate before anything has an effect.
    ASSERT_OK_AND_ASSIGN(Registered adds, Register("adds", R"(
      v = Placeholder dtype=resource
      x = Placeholder dtype=float
      zero = Const float[] 0
      p = Greater(x, zero) T=float
      y = If(p, v, x) Tcond=bool Tin=[resource,float] Tout=[float] then_branch=@add else_branch=@keep
      function add(v: resource, x: float) -> (y: float = r:value:0) runs(a)
        a = AssignAddVariableOp(v, x) dtype=float
        r = ReadVariableOp(v, ^a) dtype=float
      end
      function keep(v: resource, x: float) -> (y: float = r:value:0)
        r = ReadVariableOp(v) dtype=float
      end
    )",
                                                   {Spec("x:0")}, {"y:0"}, {{"v:0", "v"}}));
    adds_ = adds.function.id;
  }
  void TearDown() override {
    engine_.reset();
    device_.RunAll();
    EXPECT_THAT(device_.Reports(), IsEmpty());
  }

  // A call of it, without a thread.
  std::unique_ptr<Pending> Park(absl::Time deadline = absl::InfiniteFuture()) {
    return Park(adds_, Tensor::Scalar(2.0f), deadline);
  }
  std::unique_ptr<Pending> Park(uint64_t id, Tensor input,
                                absl::Time deadline = absl::InfiniteFuture()) {
    device_.RunAll();
    auto call = Begin(id, Owned(std::move(input)), false, deadline);
    while (!device_.CanStep()) absl::SleepFor(absl::Milliseconds(1));
    AwaitQueued(1);  // Again: it has been in line for its thread.
    EXPECT_FALSE(call->done.HasBeenNotified());
    return call;
  }
  // Lets the device run until `request` has been answered.
  template <typename Request>
  auto& Finish(Request& request) {
    while (!request->done.HasBeenNotified()) {
      if (!device_.Step()) absl::SleepFor(absl::Microseconds(50));
    }
    return request->Wait();
  }
  // The variable's value, and that others go on as if nothing had been.
  void ExpectValue(float value) {
    auto read = BeginRead({{0, "v"}});
    ASSERT_OK(Finish(read).status);
    EXPECT_EQ(read->result.values[0].value.template scalar<float>(), value);
    EXPECT_EQ(engine_->Stats().calls_queued, 0);
    EXPECT_EQ(engine_->Stats().calls_running, 0);
  }

  SimDevice device_{GetParam()};
  EngineOptions options_;
  uint64_t adds_ = 0;
};

TEST_P(EngineParkedTest, ACallGoesOnOnceItsValueIsThere) {
  auto call = Park();
  // It has no thread, and nobody else is held up for want of one.
  EXPECT_EQ(engine_->Stats().calls_running, 0);
  const CallResult& result = Finish(call);
  ASSERT_OK(result.status);
  EXPECT_EQ(result.outputs[0].tensor.scalar<float>(), 3);
  ExpectValue(3);
}

TEST_P(EngineParkedTest, ACancellationEndsItOnceItsValueIsThere) {
  auto call = Park();
  auto next = Begin(adds_, Owned(Tensor::Scalar(5.0f)));
  call->handle->Cancel();
  EXPECT_FALSE(call->done.HasBeenNotified());  // The device still uses its memory.
  const CallResult& result = Finish(call);
  EXPECT_THAT(result.status, StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(result.details.effects, Effects::kNone);
  ASSERT_OK(Finish(next).status);
  EXPECT_EQ(next->result.outputs[0].tensor.scalar<float>(), 6);
  ExpectValue(6);
}

TEST_P(EngineParkedTest, ADeadlineEndsItOnceItsValueIsThere) {
  const absl::Time deadline = absl::Now() + absl::Milliseconds(100);
  auto call = Park(deadline);
  absl::SleepFor(deadline - absl::Now() + absl::Milliseconds(20));
  EXPECT_FALSE(call->done.HasBeenNotified());
  const CallResult& result = Finish(call);
  EXPECT_THAT(result.status, StatusIs(StatusCode::kDeadlineExceeded));
  EXPECT_EQ(result.details.effects, Effects::kNone);
  ExpectValue(1);
}

TEST_P(EngineParkedTest, ADrainWaitsForIt) {
  auto call = Park();
  DrainResult drained;
  std::thread drain(
      [&] { drained = engine_->Drain(absl::Now() + absl::Seconds(60), absl::Seconds(20)); });
  ASSERT_OK(Finish(call).status);
  drain.join();
  EXPECT_EQ(drained.cut_off, 0);
  EXPECT_EQ(drained.left, 0);
}

TEST_P(EngineParkedTest, ADrainWithoutPatienceCutsItOff) {
  auto call = Park();
  DrainResult drained;
  std::thread drain([&] { drained = engine_->Drain(absl::Now(), absl::Seconds(20)); });
  while (Run(12345, {}).status.code() != StatusCode::kUnavailable) {  // Until it has begun.
    absl::SleepFor(absl::Milliseconds(1));
  }
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_FALSE(call->done.HasBeenNotified());
  const CallResult& result = Finish(call);
  EXPECT_THAT(result.status, StatusIs(StatusCode::kAborted));
  EXPECT_EQ(result.details.effects, Effects::kNone);
  drain.join();
  EXPECT_EQ(drained.cut_off, 1);
  EXPECT_EQ(drained.left, 0);
}

TEST_P(EngineParkedTest, WhereMemoryIsUsedUpMeanwhileItFailsAndOthersGoOn) {
  // Makes 4 MiB of what it is given where that is above 0.
  ASSERT_OK_AND_ASSIGN(Registered fills, Register("fills", R"(
    x = Placeholder dtype=float
    zero = Const float[] 0
    p = Greater(x, zero) T=float
    y = StatelessIf(p, x) Tcond=bool Tin=[float] Tout=[float] then_branch=@large else_branch=@small
    function large(x: float) -> (y: float = t:y:0)
      n = Const int32[1] 1048576
      f = Fill(n, x) T=float index_type=int32
      t = Tanh(f:output:0) T=float
    end
    function small(x: float) -> (y: float = t:y:0)
      t = Tanh(x) T=float
    end
  )",
                                                  {Spec("x:0")}, {"y:0"}));
  auto call = Park(fills.function.id, Tensor::Scalar(2.0f));
  MemoryBudget& memory = engine_->memory();
  {
    engine_->allocator().ReleaseCache();
    ASSERT_OK_AND_ASSIGN(const MemoryReservation all,
                         MemoryReservation::Take(memory, memory.limit() - memory.used() - kMiB));
    EXPECT_THAT(Finish(call).status,
                StatusIs(StatusCode::kResourceExhausted,
                         AllOf(HasSubstr("bytes wanted=4194304"), HasSubstr("limit="))));
  }
  auto next = Begin(fills.function.id, Owned(Tensor::Scalar(2.0f)));
  ASSERT_OK(Finish(next).status);
  EXPECT_EQ(next->result.outputs[0].tensor.num_elements(), 1048576);
  ExpectValue(1);
}

TEST_P(EngineParkedTest, WhatItHoldsOfTheDeviceIsHeldToACallsShare) {
  options_.max_call_bytes = 8 * kMiB;
  Start(options_);
  ASSERT_OK_AND_ASSIGN(Registered fills, Register("fills", R"(
    n = Placeholder dtype=int32
    x = Const float[] 1
    f = Fill(n, x) T=float index_type=int32
    y = Tanh(f) T=float
  )",
                                                  {Spec("n:0", DType::kInt32)}, {"y:0"}));
  auto large = Begin(fills.function.id, Owned(VectorOf<int32_t>({4 << 20})));
  EXPECT_THAT(Finish(large).status,
              StatusIs(StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("more than one call may hold"), HasSubstr("wanted=16777216"),
                             HasSubstr("limit=8388608"))));
  auto small = Begin(fills.function.id, Owned(VectorOf<int32_t>({1 << 10})));
  ASSERT_OK(Finish(small).status);
}

TEST_P(EngineParkedTest, WhatHoldsMuchKeepsItsThreadAndRunsTheDeviceItself) {
  // An eighth of the memory may be held by calls without a thread.
  options_.memory_limit_bytes = 64 * kMiB;
  Start(options_);
  ASSERT_OK_AND_ASSIGN(Registered turns, Register("turns", R"(
    n = Placeholder dtype=int32
    x = Const float[] 1
    f = Fill(n, x) T=float index_type=int32
    zero = Const int32[1] 0
    s = Sum(f, zero) T=float Tidx=int32
    p = Greater(s, x) T=float
    y = StatelessIf(p, f) Tcond=bool Tin=[float] Tout=[float] then_branch=@turned else_branch=@same
    function turned(f: float) -> (y: float = t:y:0)
      t = Neg(f) T=float
    end
    function same(f: float) -> (y: float = t:y:0)
      t = Tanh(f) T=float
    end
  )",
                                                  {Spec("n:0", DType::kInt32)}, {"y:0"}));
  auto call = Begin(turns.function.id, Owned(VectorOf<int32_t>({5 << 19})));
  ASSERT_OK(call->Wait().status);  // Without Finish.
  EXPECT_EQ(call->result.outputs[0].tensor.span<float>()[7], -1);
}

TEST_P(EngineParkedTest, ReadsAndWritesOfVariablesWaitWithoutAThread) {
  auto write = BeginAssign({{{0, "v"}, Tensor::Scalar(7.0f)}});
  auto read = BeginRead({{0, "v"}});
  AwaitQueued(2);
  read->handle->Cancel();
  write->handle->Cancel();
  // Their work is enqueued: so they are answered, with what they asked for.
  ASSERT_OK(Finish(read).status);
  EXPECT_EQ(read->result.values[0].value.scalar<float>(), 7);
  ASSERT_OK(Finish(write).status);
  ExpectValue(7);
}

TEST_P(EngineParkedTest, ALostDeviceEndsIt) {
  auto call = Park();
  auto write = BeginAssign({{{0, "v"}, Tensor::Scalar(7.0f)}});
  device_.Lose();
  EXPECT_THAT(Finish(call).status, StatusIs(StatusCode::kUnavailable));
  EXPECT_THAT(Finish(write).status, StatusIs(StatusCode::kUnavailable));
}

INSTANTIATE_TEST_SUITE_P(Seeds, EngineParkedTest, ::testing::Values(1, 2));

}  // namespace
}  // namespace formwork::testing
