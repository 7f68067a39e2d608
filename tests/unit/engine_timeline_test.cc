// The timeline of a call from its arrival to its answer: its way, what it waits for, and that there
// is one however it ends. On the CPU, and on a simulated device.

#include "absl/strings/match.h"
#include "tests/support/sim_device.h"
#include "tests/support/timeline_text.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class EngineTimelineTest : public EngineTest {
 protected:
  CallSpec SpecOf(uint64_t id, std::vector<Tensor> inputs) {
    CallSpec spec;
    spec.name_space = "ns";
    spec.function.id = id;
    spec.timeline = true;
    for (Tensor& input : inputs) spec.inputs.emplace_back().tensor = std::move(input);
    return spec;
  }
  std::unique_ptr<Pending> Record(uint64_t id, std::vector<Tensor> inputs) {
    return Begin(SpecOf(id, std::move(inputs)));
  }
  // Once it has been answered.
  static std::string TextOf(Pending& call) {
    const CallResult& result = call.Wait();
    return result.timeline == nullptr ? "none" : TimelineText(*result.timeline);
  }
};

TEST_F(EngineTimelineTest, WhoDoesNotAskForOneHasNone) {
  ASSERT_OK_AND_ASSIGN(Registered add, RegisterAdd("add", 1));
  EXPECT_EQ(Run(add.function.id, Owned(Tensor::Scalar(1.0f))).timeline, nullptr);
}

TEST_F(EngineTimelineTest, ACallsWayIsAllThere) {
  ASSERT_OK_AND_ASSIGN(Registered add, RegisterAdd("add", 1));
  auto call = Record(add.function.id, Owned(VectorOf<float>({1, 2})));
  ASSERT_OK(call->Wait().status);
  EXPECT_EQ(call->result.outputs[0].tensor.data<float>()[1], 3);
  EXPECT_EQ(TextOf(*call), R"(call
  phase find function
  phase bind
  phase take places
  wait 'wait': a thread of the pool
  phase run
    step 'y' AddV2: float32[2]
  phase answer
)");
  EXPECT_EQ(call->result.timeline->left_out, 0);
}

TEST_F(EngineTimelineTest, AQuickCallDoesNotWaitForAThread) {
  ASSERT_OK_AND_ASSIGN(Registered add,
                       Register("add", "x = Placeholder dtype=float\ny = Neg(x) T=float",
                                {{"x:0", DType::kFloat, PartialShape(Shape({}))}}, {"y:0"}));
  std::string text;
  for (int i = 0; i < 1000; ++i) {  // Until calls are known to be quick, on a machine at work too.
    ASSERT_OK(Run(add.function.id, Owned(Tensor::Scalar(1.0f))).status);
    text = TextOf(*Record(add.function.id, Owned(Tensor::Scalar(1.0f))));
    if (!absl::StrContains(text, "wait")) break;
  }
  EXPECT_THAT(text, Not(HasSubstr("wait")));
}

TEST_F(EngineTimelineTest, AWaitNamesTheResourceAndWhoseCallHoldsIt) {
  NewVariable("v", 1);
  const uint64_t holder = RegisterHolder("holder");
  ASSERT_OK_AND_ASSIGN(Registered reads, Register("reads", R"(
    v = Placeholder dtype=resource
    r = ReadVariableOp(v) dtype=float
  )",
                                                  {}, {"r:0"}, {{"v:0", "v"}}));
  auto holds = Begin(holder, Owned(Tensor::Scalar(0.0f)));
  auto call = Record(reads.function.id, {});
  AwaitQueued(1);
  holds->handle->Cancel();
  holds->Wait();
  EXPECT_EQ(TextOf(*call), R"(call
  phase find function
  phase bind
  wait 'take places': variable 'v', held by a call of 'holder'
  wait 'wait': a thread of the pool
  phase run
    step 'r' ReadVariableOp: float32[]
  phase answer
)");
  EXPECT_OK(call->result.status);
}

TEST_F(EngineTimelineTest, WhoIsNoFunctionIsAnotherCall) {
  NewVariable("v", 1);
  const uint64_t holder = RegisterHolder("holder");
  auto first = Begin(holder, Owned(Tensor::Scalar(0.0f)));
  ASSERT_OK(engine_->Unregister("ns", {holder, ""}));
  const uint64_t again = RegisterHolder("again");
  auto call = Record(again, Owned(Tensor::Scalar(-1.0f)));
  AwaitQueued(1);
  first->handle->Cancel();
  first->Wait();
  EXPECT_THAT(TextOf(*call), HasSubstr("wait 'take places': variable 'v', held by another call\n"));
}

TEST_F(EngineTimelineTest, ACallThatIsStoppedWhileItWaitsHasOne) {
  NewVariable("v", 1);
  const uint64_t holder = RegisterHolder("holder");
  auto holds = Begin(holder, Owned(Tensor::Scalar(0.0f)));
  auto cancelled = Record(holder, Owned(Tensor::Scalar(0.0f)));
  CallSpec spec = SpecOf(holder, Owned(Tensor::Scalar(0.0f)));
  spec.deadline = absl::Now() + absl::Milliseconds(200);
  auto late = Begin(std::move(spec));
  cancelled->handle->Cancel();
  for (Pending* call : {cancelled.get(), late.get()}) {
    EXPECT_EQ(TextOf(*call), R"(call
  phase find function
  phase bind
  wait 'take places': variable 'v', held by a call of 'holder'
)");
  }
  EXPECT_THAT(cancelled->result.status, StatusIs(StatusCode::kCancelled));
  EXPECT_THAT(late->result.status, StatusIs(StatusCode::kDeadlineExceeded));
  holds->handle->Cancel();
  holds->Wait();
}

TEST_F(EngineTimelineTest, ACallThatIsStoppedWhileItRunsHasOne) {
  const uint64_t spin = RegisterSpin("spin");
  CallSpec spec = SpecOf(spin, Owned(VectorOf<float>({0})));  // No scalar, so that it has steps.
  spec.inputs[0].tensor = std::move(spec.inputs[0].tensor).Reshaped(Shape({}));
  spec.deadline = absl::Now() + absl::Milliseconds(300);
  auto call = Begin(std::move(spec));
  const std::string text = TextOf(*call);
  EXPECT_THAT(call->result.status, StatusIs(StatusCode::kDeadlineExceeded));
  EXPECT_THAT(text, HasSubstr("\n  phase run\n    step 'y/cond/l' GreaterEqual: bool[]\n"));
  EXPECT_THAT(text, ::testing::EndsWith("\n  phase answer\n"));
  EXPECT_THAT(text, Not(HasSubstr("OVERLAPS")));
}

TEST_F(EngineTimelineTest, ACallThatFailsHasOne) {
  ASSERT_OK_AND_ASSIGN(
      Registered checks,
      Register("checks", "x = Placeholder dtype=float\ny = CheckNumerics(x) T=float message=\"m\"",
               {Spec("x:0")}, {"y:0"}));
  auto call = Record(checks.function.id, Owned(Tensor::Scalar(NAN)));
  EXPECT_THAT(TextOf(*call), HasSubstr(R"(
  phase run
    step 'y' CheckNumerics: ended: INVALID_ARGUMENT
  phase answer
)"));
  EXPECT_THAT(call->result.status, StatusIs(StatusCode::kInvalidArgument));
  auto unknown = Record(12345, {});
  EXPECT_EQ(TextOf(*unknown), "call\n  phase find function\n");
  EXPECT_THAT(unknown->result.status, StatusIs(StatusCode::kNotFound));
  auto wrong = Record(checks.function.id, Owned(Tensor::Scalar(1)));
  EXPECT_EQ(TextOf(*wrong), "call\n  phase find function\n  phase bind\n");
}

TEST_F(EngineTimelineTest, ATenMillionIterationsLongLoopHasABoundedOne) {
  ASSERT_OK_AND_ASSIGN(Registered counts, Register("counts", R"(
    n = Placeholder dtype=int32
    zero = Const int32[] 0
    w = StatelessWhile(zero, n) cond=@cond body=@body T=[int32,int32]
    function cond(i: int32, n: int32) -> (go: bool = l:z:0)
      l = Less(i, n) T=int32
    end
    function body(i: int32, n: int32) -> (j: int32 = k:z:0, m: int32 = n)
      one = Const int32[] 1
      k = AddV2(i, one:output:0) T=int32
    end
  )",
                                                   {Spec("n:0", DType::kInt32)}, {"w:0"}));
  constexpr int kTimes = 10'000'000;
  auto call = Record(counts.function.id, Owned(Tensor::Scalar(kTimes)));
  const Timeline& timeline = *call->Wait().timeline;
  ASSERT_OK(call->result.status);
  EXPECT_EQ(call->result.outputs[0].tensor.scalar<int32_t>(), kTimes);
  // Without the input's shape its kernels run one by one: two steps an iteration.
  EXPECT_EQ(timeline.spans.size() + timeline.left_out, 2 * int64_t{kTimes} + 1 + 6);
  EXPECT_LE(timeline.spans.size(), Timeline::kMostSteps + 100);
  EXPECT_EQ(timeline.texts[timeline.spans.back().name], "answer");
}

TEST_F(EngineTimelineTest, ARefusedOneLeavesTheCallUndone) {
  EngineOptions options;
  options.memory_limit_bytes = size_t{64} << 20;
  Start(options);
  NewVariable("v", 1);
  ASSERT_OK_AND_ASSIGN(Registered adds, Register("adds", R"(
    v = Placeholder dtype=resource
    one = Const float[] 1
    a = AssignAddVariableOp(v, one) dtype=float
  )",
                                                 {}, {}, {{"v:0", "v"}}, {"a"}));
  // All but half a megabyte is in use.
  const size_t most = options.memory_limit_bytes - engine_->memory().used() - (size_t{1} << 19);
  ASSERT_OK(engine_->memory().Reserve(most));
  auto refused = Record(adds.function.id, {});
  EXPECT_THAT(refused->Wait().status, StatusIs(StatusCode::kResourceExhausted));
  EXPECT_EQ(refused->result.details.effects, Effects::kNone);
  EXPECT_EQ(refused->result.timeline, nullptr);
  EXPECT_OK(Run(adds.function.id, {}).status);  // Others go on.
  engine_->memory().Release(most);
  EXPECT_EQ(ValueOf("v"), 2);
}

TEST_F(EngineTimelineTest, ASuspendedCallSaysSo) {
  EngineOptions options;
  options.call_threads = 1;
  Start(options);
  const uint64_t spin = RegisterSpin("spin");
  auto first = Record(spin, Owned(Tensor::Scalar(0.0f)));
  auto second = Record(spin, Owned(Tensor::Scalar(0.0f)));
  absl::SleepFor(absl::Milliseconds(400));  // Some slices of each.
  first->handle->Cancel();
  second->handle->Cancel();
  for (Pending* call : {first.get(), second.get()}) {
    const std::string text = TextOf(*call);
    EXPECT_THAT(text, HasSubstr("\n    suspended 'suspended': others wait for a thread\n"));
    EXPECT_THAT(text, Not(HasSubstr("OVERLAPS")));
  }
}

// --- On a device ---------------------------------------------------------------------------------

class DeviceTimelineTest : public EngineTimelineTest,
                           public ::testing::WithParamInterface<uint64_t> {
 protected:
  void SetUp() override {
    device_.IgnoreHost();  // Which is the engine's.
    EngineOptions options;
    options.device = &device_;
    options.compute_threads = 1;
    Start(options);
  }
  void TearDown() override {
    engine_.reset();
    device_.RunAll();
    EXPECT_THAT(device_.Reports(), ::testing::IsEmpty());
  }
  // Lets the device run until the call has been answered.
  CallResult& Finish(Pending& call) {
    while (!call.done.HasBeenNotified()) {
      if (!device_.Step()) absl::SleepFor(absl::Microseconds(50));
    }
    return call.Wait();
  }

  SimDevice device_{GetParam()};
};

TEST_P(DeviceTimelineTest, AStreamsWorkAndCopiesAreOnATrackOfTheirOwn) {
  ASSERT_OK_AND_ASSIGN(Registered made, Register("f", R"(
    x = Placeholder dtype=float
    t = Tanh(x) T=float
    y = MatMul(t, t) T=float
  )",
                                                 {Spec("x:0")}, {"y:0"}));
  auto call = Record(made.function.id, {VectorOf<float>({0, 0, 0, 0}).Reshaped(Shape({2, 2}))});
  ASSERT_OK(Finish(*call).status);
  EXPECT_EQ(TextOf(*call), R"(call
  phase find function
  phase bind
  phase take places
  wait 'wait': a thread of the pool
  phase run
    step '' copy: float32[2,2]
    step 't' Tanh: float32[2,2]
    step 'y' MatMul: float32[2,2]
  wait 'wait': results on their way to the host
  phase answer
sim:0 stream
  copy '' copy: to the device
  work 't' Tanh
  work 'y' MatMul
  copy 'results': to the host
)");
  for (const Timeline::Span& span : call->result.timeline->spans) {
    const bool copy = span.kind == Timeline::Kind::kCopy;
    EXPECT_TRUE(!copy || span.bytes == 16) << span.bytes;
  }
}

TEST_P(DeviceTimelineTest, AValueOnItsWayToTheHostIsWaitedFor) {
  ASSERT_OK_AND_ASSIGN(Registered made, Register("f", R"(
    x = Placeholder dtype=float
    zero = Const float[] 0
    p = Greater(x, zero) T=float
    y = StatelessIf(p, x) Tcond=bool Tin=[float] Tout=[float] then_branch=@same else_branch=@turned
    function same(t: float) -> (r: float = e:y:0)
      e = Exp(t) T=float
    end
    function turned(t: float) -> (r: float = n:y:0)
      n = Neg(t) T=float
    end
  )",
                                                 {Spec("x:0")}, {"y:0"}));
  std::string text;
  // The device may have been there before the host asks.
  for (int i = 0; i < 100 && !absl::StrContains(text, "copy: waits"); ++i) {
    auto call = Record(made.function.id, Owned(Tensor::Scalar(-2.0f)));
    ASSERT_OK(Finish(*call).status);
    EXPECT_EQ(call->result.outputs[0].tensor.scalar<float>(), 2);
    text = TextOf(*call);
  }
  EXPECT_THAT(text, HasSubstr(R"(
    step 'p' Greater: bool[]
    step '' copy: waits
    wait 'wait': what is on its way to the host
    step '' copy: bool[]
)"));
  EXPECT_THAT(text, HasSubstr("\n  work 'p' Greater\n  copy '' copy: to the host\n"));
  EXPECT_THAT(text, HasSubstr("\n  work 'y/else/n' Neg\n"));
  EXPECT_THAT(text, Not(HasSubstr("OVERLAPS")));
}

TEST_P(DeviceTimelineTest, AStreamWaitsForAnothersWorkOnAVariable) {
  NewVariable("v", 1);
  ASSERT_OK_AND_ASSIGN(Registered adds, Register("adds", R"(
    v = Placeholder dtype=resource
    x = Placeholder dtype=float
    a = AssignAddVariableOp(v, x) dtype=float
  )",
                                                 {Spec("x:0")}, {}, {{"v:0", "v"}}, {"a"}));
  auto first = Record(adds.function.id, Owned(Tensor::Scalar(1.0f)));
  auto second = Record(adds.function.id, Owned(Tensor::Scalar(2.0f)));
  ASSERT_OK(Finish(*first).status);
  ASSERT_OK(Finish(*second).status);
  const std::string text = TextOf(*second);
  EXPECT_THAT(
      text,
      ContainsRegex(
          "\n  wait 'a' [A-Za-z]*: what another stream has to do before\n(.*\n)*  work 'a' "));
  EXPECT_THAT(text, Not(HasSubstr("OVERLAPS")));
}

TEST_P(DeviceTimelineTest, ACallThatFailsOnTheDeviceHasOne) {
  ASSERT_OK_AND_ASSIGN(Registered gathers, Register("gathers", R"(
    x = Placeholder dtype=float
    i = Const int32[1] 7
    axis = Const int32[] 0
    y = GatherV2(x, i, axis) Tparams=float Tindices=int32 Taxis=int32
    z = Neg(y) T=float
  )",
                                                    {Spec("x:0")}, {"z:0"}));
  auto call = Record(gathers.function.id, {VectorOf<float>({1, 2})});
  EXPECT_THAT(Finish(*call).status, StatusIs(StatusCode::kInvalidArgument, HasSubstr("'y'")));
  const std::string text = TextOf(*call);
  EXPECT_THAT(text, HasSubstr("\n  work 'y' GatherV2\n  work 'z' Neg\n"));
  EXPECT_THAT(text, Not(HasSubstr("OVERLAPS")));
}

INSTANTIATE_TEST_SUITE_P(Seeds, DeviceTimelineTest, ::testing::Values(1, 2));

}  // namespace
}  // namespace formwork::testing
