// The engine as the server uses it.

#include "core/engine.h"

#include <algorithm>
#include <thread>

#include "core/base/reason.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ---------------------------------------------------------------------------------- registration

TEST_F(EngineTest, TheSameGraphUnderOtherNodeNamesIsTheSameFunction) {
  ASSERT_OK_AND_ASSIGN(Registered first, RegisterAdd("f", 1));
  ASSERT_OK_AND_ASSIGN(
      Registered again,
      Register("f", "x = Placeholder dtype=float\nb = Const float[] 1\nd = AddV2(x, b) T=float",
               {Spec("x:0")}, {"d:0"}));
  EXPECT_FALSE(first.existed);
  EXPECT_TRUE(again.existed);
  EXPECT_EQ(again.function.id, first.function.id);
  EXPECT_EQ(engine_->ListFunctions("ns").size(), 1u);
}

TEST_F(EngineTest, AnotherGraphUnderATakenNameAndTypeNeedsReplace) {
  ASSERT_OK_AND_ASSIGN(Registered first, RegisterAdd("f", 1));
  EXPECT_THAT(RegisterAdd("f", 2), StatusIs(StatusCode::kAlreadyExists, HasSubstr(": f")));
  EXPECT_EQ(Value(first.function.id, 10), 11);
  ASSERT_OK_AND_ASSIGN(Registered second, RegisterAdd("f", 2, /*replace=*/true));
  EXPECT_NE(second.function.id, first.function.id);
  EXPECT_EQ(Value(second.function.id, 10), 12);
  const CallResult gone = Run(first.function.id, Owned(Tensor::Scalar(1.0f)));
  EXPECT_THAT(gone.status, StatusIs(StatusCode::kNotFound));
  EXPECT_EQ(ReasonOf(gone.status), Reason::kFunctionNotFound);
  EXPECT_EQ(gone.details.effects, Effects::kNone);
}

TEST_F(EngineTest, InstancesWithVariablesOfTheirOwnAreKeptApart) {
  NewVariable("a", 1);
  NewVariable("b", 2);
  const char* text = "h = Placeholder dtype=resource\ny = ReadVariableOp(h) dtype=float";
  ASSERT_OK_AND_ASSIGN(Registered one, Register("one", text, {}, {"y:0"}, {{"h:0", "a"}}));
  ASSERT_OK_AND_ASSIGN(Registered two, Register("two", text, {}, {"y:0"}, {{"h:0", "b"}}));
  EXPECT_THAT(Register("one", text, {}, {"y:0"}, {{"h:0", "b"}}),
              StatusIs(StatusCode::kAlreadyExists));
  EXPECT_THAT(one.function.captured_variables, ElementsAre("a"));
  EXPECT_EQ(Run(one.function.id, {}).outputs[0].tensor.scalar<float>(), 1);
  EXPECT_EQ(Run(two.function.id, {}).outputs[0].tensor.scalar<float>(), 2);
}

TEST_F(EngineTest, ARefusedRegistrationTellsAllAndLeavesNothing) {
  EXPECT_THAT(Register("f",
                       "h = VarHandleOp dtype=float shape=shape:[] shared_name=\"new\"\n"
                       "r = ReadVariableOp(h) dtype=float\ny = NoSuchOp(r)\nz = NorThis(r)",
                       {}, {"y:0", "z:0"}),
              StatusIs(StatusCode::kUnimplemented, HasSubstr("NoSuchOp")));
  EXPECT_EQ(details_.culprits.size(), 2u);
  EXPECT_TRUE(engine_->ListFunctions("ns").empty());
  EXPECT_TRUE(engine_->ListResources("ns").empty());
}

TEST_F(EngineTest, ManyWhoRegisterTheSameGetOneFunction) {
  constexpr int kThreads = 8;
  std::vector<uint64_t> ids(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      absl::StatusOr<tf::GraphDef> graph =
          ParseGraph("x = Placeholder dtype=float\nc = Const float[] 1\ny = AddV2(x, c) T=float");
      Registration registration;
      registration.name_space = "ns";
      registration.name = "f";
      registration.graph_def = graph->SerializeAsString();
      registration.inputs = {Spec("x:0")};
      registration.outputs = {"y:0"};
      absl::Notification done;
      engine_
          ->Register(std::move(registration),
                     [&, t](RegisterResult made) {
                       if (made.status.ok()) ids[t] = made.registered.function.id;
                       done.Notify();
                     })
          ->Start();
      done.WaitForNotification();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(ids[0], 0u);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), ids[0]), kThreads);
}

// --------------------------------------------------------------------------------------- eviction

TEST_F(EngineTest, WhatACallUsesIsNotTakenFromIt) {
  EngineOptions options;
  options.max_functions = 1;
  Start(options);
  const uint64_t spin = RegisterSpin("spin");
  auto running = Begin(spin, Owned(Tensor::Scalar(0.0f)));
  ASSERT_OK_AND_ASSIGN(Registered add, RegisterAdd("f", 1));
  EXPECT_EQ(Value(add.function.id, 1), 2);
  EXPECT_EQ(engine_->Stats().cache_evictions, 0u);
  running->handle->Cancel();
  EXPECT_THAT(running->Wait().status, StatusIs(StatusCode::kCancelled));
  running.reset();
  // The thread that ran it may hold it for a moment still.
  for (int i = 0; i < 1000 && engine_->ListFunctions("ns").size() != 1; ++i) {
    absl::SleepFor(absl::Milliseconds(i));
    ASSERT_OK(RegisterAdd(absl::StrCat("g", i), 1));
  }
  EXPECT_EQ(engine_->ListFunctions("ns").size(), 1u);
  EXPECT_GE(engine_->Stats().cache_evictions, 2u);
  const CallResult gone = std::move(
      Begin(spin, Owned(Tensor::Scalar(0.0f)), false, absl::Now() + absl::Seconds(1))->Wait());
  EXPECT_THAT(gone.status, StatusIs(StatusCode::kNotFound));
  EXPECT_EQ(ReasonOf(gone.status), Reason::kFunctionNotFound);
}

TEST_F(EngineTest, ARemovedFunctionEndsItsCallsInPeace) {
  const uint64_t spin = RegisterSpin("spin");
  auto running =
      Begin(spin, Owned(Tensor::Scalar(0.0f)), false, absl::Now() + absl::Milliseconds(300));
  EXPECT_OK(engine_->Unregister("ns", {spin, ""}));
  engine_->Clear("ns");
  EXPECT_THAT(running->Wait().status, StatusIs(StatusCode::kDeadlineExceeded));
}

// ----------------------------------------------------------------------------------- kept tensors

TEST_F(EngineTest, KeptTensorsAreInputsUntilTheyAreReleased) {
  ASSERT_OK_AND_ASSIGN(Registered add, RegisterAdd("f", 1));
  const uint64_t id = add.function.id;
  CallResult kept = std::move(Begin(id, Owned(Tensor::Scalar(4.0f)), /*keep=*/true)->Wait());
  ASSERT_OK(kept.status);
  const uint64_t tensor = kept.outputs[0].kept_id;
  EXPECT_NE(tensor, 0u);
  EXPECT_EQ(engine_->Stats().kept_tensors, 1);
  const auto with_tensor = [&] {
    CallSpec spec;
    spec.name_space = "ns";
    spec.function.id = id;
    spec.inputs.resize(1);
    spec.inputs[0].kind = Argument::Kind::kKeptTensor;
    spec.inputs[0].id = tensor;
    return spec;
  };
  EXPECT_EQ(Begin(with_tensor())->Wait().outputs[0].tensor.scalar<float>(), 6);
  EXPECT_EQ(engine_->ReadTensor("ns", tensor)->scalar<float>(), 5);
  EXPECT_THAT(engine_->ReadTensor("other", tensor), StatusIs(StatusCode::kNotFound));
  EXPECT_EQ(engine_->ReleaseTensors("other", {tensor}), 0);
  EXPECT_EQ(engine_->ReleaseTensors("ns", {tensor, tensor, 999}), 1);
  EXPECT_THAT(Begin(with_tensor())->Wait().status, StatusIs(StatusCode::kNotFound));
  EXPECT_EQ(engine_->Stats().kept_tensors, 0);
}

// ------------------------------------------------------------------------------ errors and effects

class EffectsTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    NewVariable("v", 0);
    NewVariable("w", 0);
  }
  // Runs a graph over the variables v and w, whose last nodes are the targets.
  CallResult RunOn(absl::string_view text, std::vector<std::string> targets) {
    absl::StatusOr<Registered> made =
        Register("f",
                 absl::StrCat("v = Placeholder dtype=resource\nw = Placeholder dtype=resource\n"
                              "x = Placeholder dtype=float\none = Const float[] 1\n",
                              text),
                 {Spec("x:0")}, {}, {{"v:0", "v"}, {"w:0", "w"}}, std::move(targets));
    EXPECT_OK(made);
    if (!made.ok()) return {};
    return Run(made->function.id, Owned(Tensor::Scalar(-1.0f)));
  }
};

TEST_F(EffectsTest, WhatWasOrderedBeforeTheFailureStaysAndWhatCameAfterDoesNotHappen) {
  const CallResult result = RunOn(R"(
    a = AssignVariableOp(v, one) dtype=float
    zero = Const float[] 0
    c = Greater(x, zero) T=float
    text = Const string[] "x must be positive"
    s = Assert(c, text, x, ^a) T=[string,float]
    b = AssignVariableOp(w, one, ^s) dtype=float
  )",
                                  {"b"});
  EXPECT_THAT(result.status, StatusIs(StatusCode::kInvalidArgument,
                                      AllOf(HasSubstr("x must be positive"), HasSubstr("-1"))));
  EXPECT_EQ(result.details.effects, Effects::kSome);
  EXPECT_EQ(ValueOf("v"), 1);
  EXPECT_EQ(ValueOf("w"), 0);
}

TEST_F(EffectsTest, AFailureBeforeTheFirstEffectLeavesNone) {
  const CallResult result = RunOn(R"(
    m = MatMul(x, x) T=float
    a = AssignVariableOp(v, one, ^m) dtype=float
    r = AssignVariableOp(w, m, ^a) dtype=float
  )",
                                  {"r"});
  EXPECT_THAT(result.status, StatusIs(StatusCode::kInvalidArgument, HasSubstr("node 'm'")));
  EXPECT_EQ(result.details.effects, Effects::kNone);
  EXPECT_EQ(ValueOf("v"), 0);
}

TEST_F(EffectsTest, AFailureAfterTheLastEffectLeavesAll) {
  absl::StatusOr<Registered> made =
      Register("f",
               "v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
               "a = AssignVariableOp(v, x) dtype=float\ni = Identity(x, ^a) T=float\n"
               "y = MatMul(i, i) T=float",
               {Spec("x:0")}, {"y:0"}, {{"v:0", "v"}}, {"a"});
  ASSERT_OK(made);
  const CallResult result = Run(made->function.id, Owned(Tensor::Scalar(3.0f)));
  EXPECT_THAT(result.status, StatusIs(StatusCode::kInvalidArgument, HasSubstr("node 'y'")));
  EXPECT_EQ(result.details.effects, Effects::kAll);
  EXPECT_EQ(ValueOf("v"), 3);
}

TEST_F(EffectsTest, AFailedStoreLeavesThePreviousValue) {
  const CallResult result = RunOn(R"(
    a = AssignVariableOp(v, one) dtype=float
    wide = Const float[2] 1 2
    b = AssignVariableOp(w, wide, ^a) dtype=float
  )",
                                  {"b"});
  EXPECT_THAT(result.status, StatusIs(StatusCode::kInvalidArgument, HasSubstr("'w'")));
  EXPECT_EQ(result.details.effects, Effects::kSome);
  EXPECT_EQ(ValueOf("v"), 1);
  EXPECT_EQ(ValueOf("w"), 0);
}

// --------------------------------------------------------------------- cancellation and deadlines

TEST_F(EngineTest, ALoopLooksAtTheDeadlineAndAtCancellation) {
  const uint64_t spin = RegisterSpin("spin");
  const absl::Time start = absl::Now();
  auto late = Begin(spin, Owned(Tensor::Scalar(0.0f)), false, start + absl::Milliseconds(50));
  EXPECT_THAT(late->Wait().status, StatusIs(StatusCode::kDeadlineExceeded));
  EXPECT_EQ(late->result.details.effects, Effects::kNone);
  auto cancelled = Begin(spin, Owned(Tensor::Scalar(0.0f)));
  absl::SleepFor(absl::Milliseconds(20));
  cancelled->handle->Cancel();
  EXPECT_THAT(cancelled->Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  EXPECT_EQ(engine_->Stats().calls_running, 0);
}

TEST_F(EngineTest, ACallThatWasStoppedAfterAnEffectSaysSo) {
  NewVariable("v", 0);
  ASSERT_OK_AND_ASSIGN(Registered made,
                       Register("f",
                                absl::StrCat("v = Placeholder dtype=resource\n"
                                             "one = Const float[] 1\n"
                                             "a = AssignVariableOp(v, one) dtype=float\n"
                                             "x = Identity(one, ^a) T=float\n"
                                             "loop = While(x, ^a) cond=@cond body=@body T=[float]\n"
                                             "b = AssignVariableOp(v, loop) dtype=float\n",
                                             kSpin),
                                {}, {}, {{"v:0", "v"}}, {"b"}));
  auto stopped = Begin(made.function.id, {}, false, absl::Now() + absl::Milliseconds(50));
  EXPECT_THAT(stopped->Wait().status, StatusIs(StatusCode::kDeadlineExceeded));
  EXPECT_EQ(stopped->result.details.effects, Effects::kSome);
  EXPECT_EQ(ValueOf("v"), 1);
}

TEST_F(EngineTest, ACallWaitingInLineCanBeCancelled) {
  NewVariable("v", 0);
  const uint64_t holder = RegisterHolder("f");
  auto first = Begin(holder, Owned(Tensor::Scalar(1.0f)));
  auto second = Begin(holder, Owned(Tensor::Scalar(-7.0f)));
  EXPECT_FALSE(second->done.HasBeenNotified());
  second->handle->Cancel();
  EXPECT_THAT(second->Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(second->result.details.effects, Effects::kNone);
  first->handle->Cancel();
  EXPECT_THAT(first->Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_OK(Run(holder, Owned(Tensor::Scalar(-7.0f))).status);
  EXPECT_EQ(ValueOf("v"), -7);
}

TEST_F(EngineTest, CallsOfLateHandlesAreCounted) {
  NewVariable("a", 1);
  NewVariable("b", 2);
  ASSERT_OK_AND_ASSIGN(const Registered chosen, Register("choose", R"(
    p = Placeholder dtype=bool
    a = Placeholder dtype=resource
    b = Placeholder dtype=resource
    chosen = If(p, a, b) then_branch=@first else_branch=@second Tcond=bool Tin=[resource,resource] Tout=[resource]
    r = ReadVariableOp(chosen) dtype=float
    function first(x: resource, y: resource) -> (z: resource = x)
    end
    function second(x: resource, y: resource) -> (z: resource = y)
    end
  )",
                                                         {Spec("p:0", DType::kBool)}, {"r:0"},
                                                         {{"a:0", "a"}, {"b:0", "b"}}));
  for (const bool first : {true, false}) {
    const CallResult result = Run(chosen.function.id, Owned(Tensor::Scalar(first)));
    ASSERT_OK(result.status);
    EXPECT_EQ(result.outputs[0].tensor.scalar<float>(), first ? 1 : 2);
  }
  EXPECT_EQ(engine_->Stats().late_handle_calls, 2u);
  ASSERT_OK_AND_ASSIGN(const Registered add, RegisterAdd("add", 1));
  EXPECT_EQ(Value(add.function.id, 1), 2);
  EXPECT_EQ(engine_->Stats().late_handle_calls, 2u);
}

TEST_F(EngineTest, AVariableGoesOnAfterItsLastAccess) {
  NewVariable("v", 0);
  ASSERT_OK_AND_ASSIGN(
      Registered counts,
      Register("counts",
               absl::StrCat("v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
                            "a = AssignAddVariableOp(v, x) dtype=float\n"
                            "loop = While(x, ^a) cond=@cond body=@body T=[float]\n",
                            kSpin),
               {Spec("x:0")}, {"loop:0"}, {{"v:0", "v"}}, {"a"}));
  auto first = Begin(counts.function.id, Owned(Tensor::Scalar(1.0f)));
  // It turns for ever, and the next ones count on.
  EXPECT_OK(Run(counts.function.id, Owned(Tensor::Scalar(-3.0f))).status);
  EXPECT_EQ(ValueOf("v"), -2);
  EXPECT_FALSE(first->done.HasBeenNotified());
  first->handle->Cancel();
  EXPECT_EQ(first->Wait().details.effects, Effects::kAll);
  EXPECT_EQ(ValueOf("v"), -2);
}

TEST_F(EngineTest, ACallWaitingInLineEndsAtItsDeadline) {
  NewVariable("v", 0);
  const uint64_t holder = RegisterHolder("f");
  auto first = Begin(holder, Owned(Tensor::Scalar(1.0f)));
  auto second =
      Begin(holder, Owned(Tensor::Scalar(-7.0f)), false, absl::Now() + absl::Milliseconds(30));
  EXPECT_THAT(second->Wait().status, StatusIs(StatusCode::kDeadlineExceeded));
  EXPECT_EQ(second->result.details.effects, Effects::kNone);
  EXPECT_FALSE(first->done.HasBeenNotified());
  second->handle->Cancel();  // Too late to do anything.
  first->handle->Cancel();
  first->Wait();
  EXPECT_EQ(ValueOf("v"), 0);
}

// Whoever has been told that the line is full may still cancel.
TEST_F(EngineTest, ACallThatGotNoPlaceInLineEndsOnce) {
  EngineOptions options;
  options.max_queued_calls = 1;
  Start(options);
  NewVariable("v", 0);
  const uint64_t holder = RegisterHolder("f");
  auto first = Begin(holder, Owned(Tensor::Scalar(1.0f)));
  while (engine_->Stats().calls_queued > 0) absl::SleepFor(absl::Milliseconds(1));
  auto second = Begin(holder, Owned(Tensor::Scalar(-7.0f)));
  auto third = Begin(holder, Owned(Tensor::Scalar(-7.0f)));
  EXPECT_THAT(third->Wait().status, StatusIs(StatusCode::kResourceExhausted, HasSubstr("limit=1")));
  ASSERT_NE(third->handle, nullptr);
  third->handle->Cancel();
  second->handle->Cancel();
  first->handle->Cancel();
  second->Wait();
  first->Wait();
  EXPECT_EQ(engine_->Drain(absl::Now() + absl::Seconds(20), absl::ZeroDuration()).cut_off, 0);
}

// ------------------------------------------------------------------------------------------ drain

TEST_F(EngineTest, DrainRefusesNewCallsAndWaitsForTheOthers) {
  const uint64_t spin = RegisterSpin("spin");
  ASSERT_OK_AND_ASSIGN(Registered add, RegisterAdd("f", 1));
  auto running = Begin(spin, Owned(Tensor::Scalar(0.0f)));
  std::thread drains([&] {
    EXPECT_EQ(engine_->Drain(absl::Now() + absl::Seconds(20), absl::ZeroDuration()).cut_off, 0);
  });
  absl::Status status;
  while (status.ok()) status = Run(add.function.id, Owned(Tensor::Scalar(1.0f))).status;
  EXPECT_THAT(status, StatusIs(StatusCode::kUnavailable));
  EXPECT_FALSE(running->done.HasBeenNotified());
  running->handle->Cancel();
  drains.join();
  EXPECT_THAT(running->Wait().status, StatusIs(StatusCode::kCancelled));
}

TEST_F(EngineTest, TheQueueIsBounded) {
  EngineOptions options;
  options.call_threads = 1;
  options.max_queued_calls = 2;
  Start(options);
  const uint64_t spin = RegisterSpin("spin");
  std::vector<std::unique_ptr<Pending>> calls;
  calls.push_back(Begin(spin, Owned(Tensor::Scalar(0.0f))));
  while (engine_->Stats().calls_queued > 0) absl::SleepFor(absl::Milliseconds(1));  // It runs.
  for (int i = 0; i < 7; ++i) calls.push_back(Begin(spin, Owned(Tensor::Scalar(0.0f))));
  EXPECT_THAT(calls.back()->Wait().status,
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("limit=2")));
  for (auto& call : calls) {
    if (call->handle != nullptr) call->handle->Cancel();
  }
  for (auto& call : calls) call->Wait();
}

// ------------------------------------------------------------------------------------ concurrency

TEST_F(EngineTest, ACallKeepsTheThreadThatStartsItOnlyForAsLongAsThatAllows) {
  // A billion multiplications: more than 0.1 ms, and less than an hour, anywhere.
  ASSERT_OK_AND_ASSIGN(Registered product,
                       Register("f",
                                "x = Placeholder dtype=float\ndims = Const int32[2] 1024 1024\n"
                                "axes = Const int32[2] 0 1\na = Fill(dims, x) T=float\n"
                                "y = MatMul(a, a) T=float\nz = Max(y, axes) T=float",
                                {{"x:0", DType::kFloat, PartialShape(Shape({}))}}, {"z:0"}));
  const auto runs_here = [&](absl::Duration inline_below) {
    CallSpec spec;
    spec.name_space = "ns";
    spec.function.id = product.function.id;
    spec.inline_below = inline_below;
    spec.inputs.resize(1);
    spec.inputs[0].tensor = Tensor::Scalar(1.0f);
    absl::Notification done;
    std::thread::id ran_on;
    const auto handle = engine_->Call(std::move(spec), [&](CallResult result) {
      EXPECT_OK(result.status);
      ran_on = std::this_thread::get_id();
      done.Notify();
    });
    handle->Start();
    done.WaitForNotification();
    return ran_on == std::this_thread::get_id();
  };
  EXPECT_FALSE(runs_here(absl::Hours(1)));  // Nobody knows yet what it takes.
  EXPECT_TRUE(runs_here(absl::Hours(1)));
  EXPECT_FALSE(runs_here(CallSpec().inline_below));
}

// Every call adds 1 to both variables, some to v first and some to w first, and says what it saw.
// One order of all calls explains that exactly where each value was seen once, in both alike.
TEST_F(EngineTest, ConcurrentCallsAreAsIfOneAfterTheOther) {
  NewVariable("v", 0);
  NewVariable("w", 0);
  auto text = [](absl::string_view first, absl::string_view second) {
    return absl::StrCat(
        "v = Placeholder dtype=resource\nw = Placeholder dtype=resource\n"
        "one = Const float[] 1\n"
        "r1 = ReadVariableOp(",
        first, ") dtype=float\na1 = AssignAddVariableOp(", first, ", one, ^r1) dtype=float\n",
        "r2 = ReadVariableOp(", second, ", ^a1) dtype=float\na2 = AssignAddVariableOp(", second,
        ", one, ^r2) dtype=float\n");
  };
  const std::vector<std::pair<std::string, std::string>> variables = {{"v:0", "v"}, {"w:0", "w"}};
  ASSERT_OK_AND_ASSIGN(Registered one, Register("one", text("v", "w"), {}, {"r1:0", "r2:0"},
                                                variables, {"a1", "a2"}));
  ASSERT_OK_AND_ASSIGN(Registered two, Register("two", text("w", "v"), {}, {"r1:0", "r2:0"},
                                                variables, {"a1", "a2"}));
  ASSERT_OK_AND_ASSIGN(Registered look,
                       Register("look",
                                "v = Placeholder dtype=resource\nw = Placeholder dtype=resource\n"
                                "r1 = ReadVariableOp(v) dtype=float\n"
                                "r2 = ReadVariableOp(w) dtype=float",
                                {}, {"r1:0", "r2:0"}, variables));
  constexpr int kThreads = 8, kCalls = 200;
  std::vector<std::vector<float>> seen(kThreads);
  std::atomic<int> torn{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCalls; ++i) {
        for (bool writes : {true, false}) {
          const uint64_t id = !writes      ? look.function.id
                              : t % 2 == 0 ? one.function.id
                                           : two.function.id;
          CallResult result = Run(id, {});
          if (!result.status.ok()) {
            ++torn;
            continue;
          }
          const float a = result.outputs[0].tensor.scalar<float>();
          torn += a != result.outputs[1].tensor.scalar<float>();
          if (writes) seen[t].push_back(a);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0);
  std::vector<float> all;
  for (const auto& of_thread : seen) {
    EXPECT_TRUE(std::is_sorted(of_thread.begin(), of_thread.end()));
    all.insert(all.end(), of_thread.begin(), of_thread.end());
  }
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), static_cast<size_t>(kThreads * kCalls));
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<float>(i));
  EXPECT_EQ(ValueOf("v"), kThreads * kCalls);
}

}  // namespace
}  // namespace formwork::testing
