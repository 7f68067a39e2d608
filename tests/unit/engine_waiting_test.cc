// Requests that wait: cancellation, deadlines, shares of namespaces, the drain.

#include <thread>

#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

class EngineWaitingTest : public EngineTest {
 protected:
  // A call of a function of namespace `name_space`.
  std::unique_ptr<Pending> BeginIn(const std::string& name_space, uint64_t id, float x,
                                   absl::Time deadline = absl::InfiniteFuture()) {
    CallSpec spec;
    spec.name_space = name_space;
    spec.function.id = id;
    spec.inputs.resize(1);
    spec.inputs[0].tensor = Tensor::Scalar(x);
    spec.deadline = deadline;
    return Begin(std::move(spec));
  }
  uint64_t SpinIn(const std::string& name_space) {
    absl::StatusOr<tf::GraphDef> graph = ParseGraph(absl::StrCat(
        "x = Placeholder dtype=float\ny = While(x) cond=@cond body=@body T=[float]\n", kSpin));
    Registration registration;
    registration.name_space = name_space;
    registration.name = "spin";
    registration.graph_def = graph->SerializeAsString();
    registration.inputs = {Spec("x:0")};
    registration.outputs = {"y:0"};
    absl::StatusOr<Registered> made = Register(std::move(registration));
    EXPECT_OK(made);
    return made.ok() ? made->function.id : 0;
  }
};

// --------------------------------------------------------------------- variables read and written

TEST_F(EngineWaitingTest, AnAssignThatIsLateNeverWrites) {
  NewVariable("v", 1);
  auto writer = Begin(RegisterHolder("f"), Owned(Tensor::Scalar(0.0f)));
  auto late =
      BeginAssign({{{0, "v"}, Tensor::Scalar(42.0f)}}, absl::Now() + absl::Milliseconds(30));
  auto cancelled = BeginAssign({{{0, "v"}, Tensor::Scalar(43.0f)}});
  auto read = BeginRead({{0, "v"}}, absl::Now() + absl::Milliseconds(30));
  EXPECT_THAT(late->Wait().status, StatusIs(StatusCode::kDeadlineExceeded));
  EXPECT_EQ(late->result.details.effects, Effects::kNone);
  EXPECT_THAT(read->Wait().status, StatusIs(StatusCode::kDeadlineExceeded));
  cancelled->handle->Cancel();
  EXPECT_THAT(cancelled->Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(engine_->Stats().calls_queued, 0);
  writer->handle->Cancel();
  writer->Wait();
  EXPECT_EQ(ValueOf("v"), 1);
}

TEST_F(EngineWaitingTest, WhatIsLateFromTheBeginningDoesNothing) {
  NewVariable("v", 1);
  ASSERT_OK_AND_ASSIGN(Registered add, RegisterAdd("f", 1));
  const absl::Time past = absl::Now() - absl::Seconds(1);
  EXPECT_THAT(BeginAssign({{{0, "v"}, Tensor::Scalar(42.0f)}}, past)->Wait().status,
              StatusIs(StatusCode::kDeadlineExceeded));
  EXPECT_THAT(BeginRead({{0, "v"}}, past)->Wait().status, StatusIs(StatusCode::kDeadlineExceeded));
  EXPECT_THAT(Begin(add.function.id, Owned(Tensor::Scalar(0.0f)), false, past)->Wait().status,
              StatusIs(StatusCode::kDeadlineExceeded));
  EXPECT_EQ(ValueOf("v"), 1);
}

TEST_F(EngineWaitingTest, ACancellationBeforeTheStartIsNotLost) {
  NewVariable("v", 1);
  ASSERT_OK_AND_ASSIGN(Registered add, RegisterAdd("f", 1));
  PendingAssign assign;
  assign.handle =
      engine_->AssignVariables({"ns", {{{0, "v"}, Tensor::Scalar(42.0f)}}}, assign.Done());
  assign.handle->Cancel();
  EXPECT_FALSE(assign.done.HasBeenNotified());
  assign.handle->Start();
  EXPECT_THAT(assign.Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(ValueOf("v"), 1);
  Pending call;
  const auto one = [&] {
    CallSpec spec;
    spec.name_space = "ns";
    spec.function.id = add.function.id;
    spec.inputs.resize(1);
    spec.inputs[0].tensor = Tensor::Scalar(1.0f);
    return spec;
  };
  call.handle = engine_->Call(one(), call.Done());
  call.handle->Cancel();
  call.handle->Start();
  EXPECT_THAT(call.Wait().status, StatusIs(StatusCode::kCancelled));
  call.handle->Cancel();  // Too late to do anything.
  // One that is never started is as if never asked.
  engine_->Call(one(), [](CallResult) { FAIL(); });
  EXPECT_EQ(engine_->Stats().calls_running, 0);
}

TEST_F(EngineWaitingTest, CancellationsRaceWithStarts) {
  NewVariable("v", 0);
  const uint64_t holder = RegisterHolder("f");
  for (int i = 0; i < 100; ++i) {
    auto writer = Begin(holder, Owned(Tensor::Scalar(0.0f)));
    PendingAssign assign;
    assign.handle =
        engine_->AssignVariables({"ns", {{{0, "v"}, Tensor::Scalar(42.0f)}}}, assign.Done());
    std::thread starts([&] { assign.handle->Start(); });
    assign.handle->Cancel();
    EXPECT_THAT(assign.Wait().status, StatusIs(StatusCode::kCancelled));
    starts.join();
    writer->handle->Cancel();
    writer->Wait();
  }
  EXPECT_EQ(ValueOf("v"), 0);
  EXPECT_EQ(engine_->Stats().calls_queued, 0);
}

// -------------------------------------------------------------------------------------- long calls

TEST_F(EngineWaitingTest, ManyShortStepsAfterAnEffectAreNotAllWaitedFor) {
  NewVariable("v", 0);
  // Long enough in any build: each step takes some ms, and there is no loop.
  std::string text =
      "v = Placeholder dtype=resource\none = Const float[] 1\n"
      "a = AssignAddVariableOp(v, one) dtype=float\n"
      "x = Placeholder dtype=float\nm0 = MatMul(x, x, ^a) T=float\n";
  constexpr int kSteps = 4000;
  for (int i = 1; i <= kSteps; ++i) {
    absl::StrAppend(&text, "m", i, " = MatMul(m", i - 1, ", x) T=float\n");
  }
  ASSERT_OK_AND_ASSIGN(
      Registered made,
      Register("f", text, {Spec("x:0")}, {absl::StrCat("m", kSteps, ":0")}, {{"v:0", "v"}}, {"a"}));
  Tensor x = *Tensor::Allocate(engine_->allocator(), DType::kFloat, Shape({500, 500}));
  for (float& element : x.mutable_span<float>()) element = 0;
  auto call = Begin(made.function.id, Owned(std::move(x)));
  EXPECT_EQ(ValueOf("v"), 1);  // Once the call has given it back.
  call->handle->Cancel();
  EXPECT_THAT(call->Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(call->result.details.effects, Effects::kAll);
}

// ------------------------------------------------------------------------------------- fair shares

TEST_F(EngineWaitingTest, EndlessLoopsOfOneNamespaceLeaveAnotherItsTurn) {
  EngineOptions options;
  options.call_threads = 4;
  Start(options);
  const uint64_t endless = SpinIn("a");
  const uint64_t other = SpinIn("b");
  std::vector<std::unique_ptr<Pending>> calls;
  for (int i = 0; i < 200; ++i) calls.push_back(BeginIn("a", endless, 0));
  for (int i = 0; i < 3; ++i) {
    EXPECT_OK(BeginIn("b", other, -50, absl::Now() + absl::Seconds(20))->Wait().status);
  }
  for (auto& call : calls) call->handle->Cancel();
  for (auto& call : calls) EXPECT_THAT(call->Wait().status, StatusIs(StatusCode::kCancelled));
}

TEST_F(EngineWaitingTest, OneNamespaceCannotFillTheQueue) {
  EngineOptions options;
  options.call_threads = 1;
  options.max_queued_calls = 8;
  Start(options);
  const uint64_t endless = SpinIn("a");
  const uint64_t other = SpinIn("b");
  NewVariable("v", 1);
  auto writer = Begin(RegisterHolder("f"), Owned(Tensor::Scalar(0.0f)));
  std::vector<std::unique_ptr<Pending>> calls;
  int refused = 0;
  for (int i = 0; i < 40; ++i) {
    calls.push_back(BeginIn("a", endless, 0));
    if (calls.back()->done.HasBeenNotified()) {
      EXPECT_THAT(calls.back()->result.status,
                  StatusIs(StatusCode::kResourceExhausted, HasSubstr("namespace 'a'")));
      ++refused;
    }
  }
  EXPECT_GE(refused, 40 - 8);
  // Others still get a place, for a thread and in line.
  auto waits = BeginAssign({{{0, "v"}, Tensor::Scalar(2.0f)}});
  EXPECT_FALSE(waits->done.HasBeenNotified());
  EXPECT_OK(BeginIn("b", other, -50, absl::Now() + absl::Seconds(20))->Wait().status);
  for (auto& call : calls) call->handle->Cancel();
  for (auto& call : calls) call->Wait();
  writer->handle->Cancel();
  EXPECT_OK(waits->Wait().status);
  EXPECT_EQ(engine_->Stats().calls_queued, 0);
}

TEST_F(EngineWaitingTest, WhatHasEndedWhileItWaitedGivesItsPlaceBack) {
  EngineOptions options;
  options.call_threads = 1;
  options.max_queued_calls = 4;
  Start(options);
  const uint64_t spin = SpinIn("a");
  auto running = BeginIn("a", spin, 0);
  AwaitQueued(0);
  for (int i = 0; i < 20; ++i) {
    std::unique_ptr<Pending> queued[2] = {BeginIn("a", spin, 0), BeginIn("a", spin, 0)};
    for (auto& call : queued) {
      EXPECT_FALSE(call->done.HasBeenNotified());
      call->handle->Cancel();
      EXPECT_THAT(call->Wait().status, StatusIs(StatusCode::kCancelled));
    }
  }
  running->handle->Cancel();
  running->Wait();
}

// ------------------------------------------------------------------------------------------ drain

TEST_F(EngineWaitingTest, ADrainCutsOffWhatDoesNotEndAndSaysWhatItDid) {
  NewVariable("v", 0);
  ASSERT_OK_AND_ASSIGN(
      Registered counts,
      Register("counts",
               absl::StrCat("v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
                            "a = AssignAddVariableOp(v, x) dtype=float\n"
                            "loop = While(x, ^a) cond=@cond body=@body T=[float]\n"
                            "b = AssignVariableOp(v, loop) dtype=float\n",
                            kSpin),
               {Spec("x:0")}, {}, {{"v:0", "v"}}, {"b"}));
  const uint64_t spin = RegisterSpin("spin");
  auto counting = Begin(counts.function.id, Owned(Tensor::Scalar(1.0f)));
  auto waiting = Begin(counts.function.id, Owned(Tensor::Scalar(1.0f)));
  auto spinning = Begin(spin, Owned(Tensor::Scalar(0.0f)));
  AwaitQueued(1);
  absl::SleepFor(absl::Milliseconds(20));
  const DrainResult drained =
      engine_->Drain(absl::Now() + absl::Milliseconds(20), absl::Seconds(20));
  EXPECT_EQ(drained.cut_off, 3);
  EXPECT_EQ(drained.left, 0);
  EXPECT_THAT(counting->Wait().status, StatusIs(StatusCode::kAborted));
  EXPECT_EQ(counting->result.details.effects, Effects::kSome);
  EXPECT_THAT(waiting->Wait().status, StatusIs(StatusCode::kAborted));
  EXPECT_EQ(waiting->result.details.effects, Effects::kNone);
  EXPECT_THAT(spinning->Wait().status, StatusIs(StatusCode::kAborted));
  EXPECT_EQ(spinning->result.details.effects, Effects::kNone);
}

TEST_F(EngineWaitingTest, NothingSlipsInOnceADrainHasCounted) {
  ASSERT_OK_AND_ASSIGN(Registered add, RegisterAdd("f", 1));
  std::atomic<bool> drained{false};
  std::atomic<int> late{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      while (true) {
        const bool after = drained;
        const absl::Status status = Run(add.function.id, Owned(Tensor::Scalar(1.0f))).status;
        if (after && status.ok()) ++late;
        if (!status.ok()) {
          EXPECT_THAT(status, StatusIs(StatusCode::kUnavailable));
          return;
        }
      }
    });
  }
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(engine_->Drain(absl::Now() + absl::Seconds(20), absl::ZeroDuration()).cut_off, 0);
  EXPECT_EQ(engine_->Stats().calls_running, 0);
  drained = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(late, 0);
  EXPECT_THAT(RegisterAdd("g", 2), StatusIs(StatusCode::kUnavailable));
  EXPECT_THAT(Read({{0, "v"}}).status, StatusIs(StatusCode::kUnavailable));
}

}  // namespace
}  // namespace formwork::testing
