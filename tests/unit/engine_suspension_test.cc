// Calls that leave their threads to others, and what reaches them meanwhile.

#include <iostream>
#include <thread>

#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;

class EngineSuspensionTest : public EngineTest {
 protected:
  // One thread for calls, unless another namespace has none running.
  void SetUp() override {
    options_.call_threads = 1;
    Start(options_);
  }

  // Takes the thread from what runs on it, and keeps it until the test lets go.
  class Holder {
   public:
    explicit Holder(EngineSuspensionTest& test) {
      // With a loop, so that it never runs on its caller's thread.
      EXPECT_OK(test.Register("hold",
                              absl::StrCat("x = Placeholder dtype=float\n"
                                           "text = Const string[] \"held\"\n"
                                           "p = PrintV2(text)\n"
                                           "y = While(x, ^p) cond=@cond body=@body T=[float]\n",
                                           kSpin),
                              {Spec("x:0")}, {"y:0"}, {}, {"p"}));
      CallSpec spec;
      spec.name_space = "ns";
      spec.function.name = "hold";
      spec.inputs.resize(1);
      spec.inputs[0].tensor = Tensor::Scalar(-1.0f);
      spec.print = [this](absl::string_view) {
        holds_.Notify();
        let_go_.WaitForNotification();
      };
      call_ = test.Begin(std::move(spec));
    }
    ~Holder() { LetGo(); }
    void AwaitHolds() { holds_.WaitForNotification(); }
    bool Holds() { return holds_.HasBeenNotified(); }
    void LetGo() {
      if (!let_go_.HasBeenNotified()) let_go_.Notify();
      call_->Wait();
    }

   private:
    absl::Notification holds_, let_go_;
    std::unique_ptr<Pending> call_;
  };

  // Adds 1 to v, turns as kSpin does, and stores where it came to.
  uint64_t RegisterCounts() {
    absl::StatusOr<Registered> made =
        Register("counts",
                 absl::StrCat("v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
                              "one = Const float[] 1\n"
                              "a = AssignAddVariableOp(v, one) dtype=float\n"
                              "loop = While(x, ^a) cond=@cond body=@body T=[float]\n"
                              "b = AssignVariableOp(v, loop) dtype=float\n",
                              kSpin),
                 {Spec("x:0")}, {}, {{"v:0", "v"}}, {"b"});
    EXPECT_OK(made);
    return made.ok() ? made->function.id : 0;
  }

  EngineOptions options_;
};

// Turns from `x` on while below `limit`.
constexpr char kTurns[] = R"(
  x = Placeholder dtype=float
  limit = Placeholder dtype=float
  w = StatelessWhile(x, limit) cond=@cond body=@body T=[float,float]
  function cond(v: float, limit: float) -> (go: bool = l:z:0)
    l = Less(v, limit) T=float
  end
  function body(v: float, limit: float) -> (w: float = n:z:0, same: float = limit)
    one = Const float[] 1
    n = AddV2(v, one:output:0) T=float
  end
)";

TEST_F(EngineSuspensionTest, ALoopMakesRoomAndThenEndsAsItWould) {
  ASSERT_OK_AND_ASSIGN(Registered turns,
                       Register("turns", kTurns, {Spec("x:0"), Spec("limit:0")}, {"w:0"}));
  constexpr float kTimes = 1 << 22;
  auto loop = Begin(turns.function.id, Owned(Tensor::Scalar(0.0f), Tensor::Scalar(kTimes)));
  Holder holder(*this);
  holder.AwaitHolds();
  if (!loop->done.HasBeenNotified()) {
    EXPECT_EQ(engine_->Stats().calls_queued, 1);
    EXPECT_EQ(engine_->Stats().calls_running, 1);
  }
  holder.LetGo();
  ASSERT_OK(loop->Wait().status);
  EXPECT_EQ(loop->result.outputs[0].tensor.scalar<float>(), kTimes);
  EXPECT_EQ(engine_->Stats().calls_queued, 0);
}

TEST_F(EngineSuspensionTest, LoopsThatTakeTurnsGiveWhatEachGivesAlone) {
  ASSERT_OK_AND_ASSIGN(Registered turns,
                       Register("turns", kTurns, {Spec("x:0"), Spec("limit:0")}, {"w:0"}));
  std::vector<std::unique_ptr<Pending>> loops;
  for (int i = 0; i < 20; ++i) {
    loops.push_back(
        Begin(turns.function.id,
              Owned(Tensor::Scalar(0.0f), Tensor::Scalar(100'000.0f + static_cast<float>(i)))));
  }
  for (int i = 0; i < 20; ++i) {
    ASSERT_OK(loops[i]->Wait().status);
    EXPECT_EQ(loops[i]->result.outputs[0].tensor.scalar<float>(),
              100'000.0f + static_cast<float>(i));
  }
}

// Endless loops leave their own namespace a turn as well.
TEST_F(EngineSuspensionTest, EndlessLoopsMakeRoomForTheirOwnNamespace) {
  const uint64_t spin = RegisterSpin("spin");
  std::vector<std::unique_ptr<Pending>> loops;
  for (int i = 0; i < 30; ++i) loops.push_back(Begin(spin, Owned(Tensor::Scalar(0.0f))));
  EXPECT_OK(Begin(spin, Owned(Tensor::Scalar(-50.0f)), false, absl::Now() + absl::Seconds(60))
                ->Wait()
                .status);
  for (auto& loop : loops) loop->handle->Cancel();
  for (auto& loop : loops) EXPECT_THAT(loop->Wait().status, StatusIs(StatusCode::kCancelled));
}

TEST_F(EngineSuspensionTest, ACancellationEndsWhatIsSuspendedAtOnce) {
  auto loop = Begin(RegisterSpin("spin"), Owned(Tensor::Scalar(0.0f)));
  Holder holder(*this);
  holder.AwaitHolds();
  EXPECT_FALSE(loop->done.HasBeenNotified());
  loop->handle->Cancel();
  EXPECT_THAT(loop->Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(loop->result.details.effects, Effects::kNone);
  EXPECT_EQ(engine_->Stats().calls_queued, 0);
}

TEST_F(EngineSuspensionTest, ADeadlineEndsWhatIsSuspended) {
  auto loop = Begin(RegisterSpin("spin"), Owned(Tensor::Scalar(0.0f)), false,
                    absl::Now() + absl::Milliseconds(500));
  Holder holder(*this);
  holder.AwaitHolds();
  EXPECT_THAT(loop->Wait().status, StatusIs(StatusCode::kDeadlineExceeded));
}

TEST_F(EngineSuspensionTest, WhatIsSuspendedAmongEffectsKeepsItsVariablesAndSaysWhatItDid) {
  NewVariable("v", 1);
  auto loop = Begin(RegisterCounts(), Owned(Tensor::Scalar(0.0f)));
  Holder holder(*this);
  holder.AwaitHolds();
  auto read = BeginRead({{0, "v"}});
  EXPECT_FALSE(read->done.HasBeenNotified());
  loop->handle->Cancel();
  EXPECT_THAT(loop->Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(loop->result.details.effects, Effects::kSome);
  holder.LetGo();
  ASSERT_OK(read->Wait().status);
  EXPECT_EQ(read->result.values[0].value.scalar<float>(), 2);
}

TEST_F(EngineSuspensionTest, ADrainCutsOffWhatIsSuspended) {
  NewVariable("v", 1);
  auto loop = Begin(RegisterCounts(), Owned(Tensor::Scalar(0.0f)));
  Holder holder(*this);
  holder.AwaitHolds();
  DrainResult drained;
  std::thread drain([&] { drained = engine_->Drain(absl::Now(), absl::Seconds(20)); });
  EXPECT_THAT(loop->Wait().status, StatusIs(StatusCode::kAborted));
  EXPECT_EQ(loop->result.details.effects, Effects::kSome);
  holder.LetGo();
  drain.join();
  EXPECT_EQ(drained.cut_off, 2);
  EXPECT_EQ(drained.left, 0);
}

TEST_F(EngineSuspensionTest, WhatHoldsMuchKeepsItsThread) {
  options_.memory_limit_bytes = size_t{256} << 20;
  Start(options_);
  ASSERT_OK_AND_ASSIGN(Registered large, Register("large", R"(
    n = Placeholder dtype=int32
    one = Const float[] 1
    x = Fill(n, one) T=float index_type=int32
    w = StatelessWhile(x) cond=@cond body=@body T=[float]
    zero = Const int32[1] 0
    y = Sum(w, zero) T=float Tidx=int32
    function cond(x: float) -> (go: bool = t:output:0)
      t = Const bool[] true
    end
    function body(x: float) -> (y: float = n:y:0)
      n = Neg(x) T=float
    end
  )",
                                                  {Spec("n:0", DType::kInt32)}, {"y:0"}));
  // Of the limit an eighth may be held by what is suspended.
  for (const auto& [elements, keeps] : {std::pair(12 << 20, true), std::pair(1 << 20, false)}) {
    auto loop = Begin(large.function.id, Owned(VectorOf<int32_t>({elements})));
    Holder holder(*this);
    if (keeps) {
      absl::SleepFor(absl::Milliseconds(300));
      EXPECT_FALSE(holder.Holds());
      EXPECT_FALSE(loop->done.HasBeenNotified());
    } else {
      holder.AwaitHolds();
    }
    loop->handle->Cancel();
    EXPECT_THAT(loop->Wait().status, StatusIs(StatusCode::kCancelled));
    holder.LetGo();
  }
}

// From the last to the first, which is the longest way through the line.
TEST_F(EngineSuspensionTest, TenThousandThatWaitForAVariableAreCancelledSoon) {
  constexpr int kCalls = 10'000;
  options_.max_queued_calls = 2 * kCalls;
  Start(options_);
  NewVariable("v", 1);
  const uint64_t counts = RegisterCounts();
  auto first = Begin(counts, Owned(Tensor::Scalar(0.0f)));
  std::vector<std::unique_ptr<Pending>> calls;
  calls.reserve(kCalls);
  for (int i = 0; i < kCalls; ++i) calls.push_back(Begin(counts, Owned(Tensor::Scalar(0.0f))));
  EXPECT_EQ(engine_->Stats().calls_queued, kCalls);
  const absl::Time start = absl::Now();
  for (auto call = calls.rbegin(); call != calls.rend(); ++call) (*call)->handle->Cancel();
  const absl::Duration took = absl::Now() - start;
  for (auto& call : calls) EXPECT_THAT(call->Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_LT(took, absl::Seconds(10));
  std::cout << kCalls << " calls cancelled in " << took << "\n";
  first->handle->Cancel();
  first->Wait();
}

TEST_F(EngineSuspensionTest, CancellationsRaceWithTurns) {
  options_.call_threads = 3;
  Start(options_);
  NewVariable("v", 0);
  const uint64_t spin = RegisterSpin("spin");
  const uint64_t counts = RegisterCounts();
  for (int round = 0; round < 5; ++round) {
    std::vector<std::unique_ptr<Pending>> loops;
    for (int i = 0; i < 40; ++i) {
      const absl::Time deadline =
          i % 3 == 0 ? absl::Now() + absl::Milliseconds(7 * i) : absl::InfiniteFuture();
      loops.push_back(
          Begin(i % 5 == 0 ? counts : spin, Owned(Tensor::Scalar(0.0f)), false, deadline));
    }
    std::vector<std::thread> cancels;
    for (int t = 0; t < 4; ++t) {
      cancels.emplace_back([&, t] {
        for (int i = t; i < 40; i += 4) {
          absl::SleepFor(absl::Milliseconds(i % 7));
          loops[i]->handle->Cancel();
        }
      });
    }
    for (std::thread& cancel : cancels) cancel.join();
    for (auto& loop : loops) {
      const StatusCode code = loop->Wait().status.code();
      EXPECT_TRUE(code == StatusCode::kCancelled || code == StatusCode::kDeadlineExceeded);
    }
    EXPECT_EQ(engine_->Stats().calls_queued, 0);
  }
  EXPECT_EQ(engine_->Drain(absl::Now() + absl::Seconds(20), absl::ZeroDuration()).cut_off, 0);
}

}  // namespace
}  // namespace formwork::testing
