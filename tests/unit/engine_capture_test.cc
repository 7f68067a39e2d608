// Calls on a device that enqueue their work as one: what an earlier call was captured to do.

#include <cmath>
#include <set>
#include <thread>

#include "tests/support/enqueued_kernels.h"
#include "tests/support/sim_device.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using ::testing::HasSubstr;

class EngineCaptureTest : public EngineTest {
 protected:
  void SetUp() override {
    device_.RunByItself();
    StartWith(size_t{16} << 20);
  }
  void StartWith(size_t max_captured_bytes) {
    EngineOptions options;
    options.device = &device_;
    options.register_device_kernels = &RegisterEnqueuedKernels;
    options.max_captured_bytes = max_captured_bytes;
    Start(options);
  }
  void TearDown() override {
    engine_.reset();
    device_.RunAll();
    EXPECT_THAT(device_.Reports(), ::testing::IsEmpty());
  }

  // v += x, and then the sum of v x.
  void RegisterStep(std::vector<std::string> outputs = {"s:0", "r:0"}) {
    ASSERT_OK_AND_ASSIGN(const Registered made,
                         Register("step", R"(
      x = Placeholder dtype=float
      v = Placeholder dtype=resource
      nought = Const int32[1] 0
      a = AssignAddVariableOp(v, x) dtype=float
      r = ReadVariableOp(v, ^a) dtype=float
      m = Mul(r, x) T=float
      s = Sum(m, nought) T=float Tidx=int32
    )",
                                  {Spec("x:0")}, std::move(outputs), {{"v:0", "v"}}, {"a"}));
    step_ = made.function.id;
  }
  void NewVector(const std::string& name, float value) {
    ASSERT_OK(engine_->CreateVariable("ns", name, DType::kFloat, PartialShape(),
                                      TensorOf<float>(Shape({3}), {value, value, value})));
  }
  std::vector<float> VectorOf(const std::string& name) {
    const ReadResult result = Read({{0, name}});
    EXPECT_OK(result.status);
    if (!result.status.ok()) return {};
    const float* const data = result.values[0].value.data<float>();
    return {data, data + result.values[0].value.num_elements()};
  }
  // Of one that adds `x` to each of v's elements, of which `v` is what they are by then.
  void ExpectStep(float x, float v) {
    const CallResult result = Run(step_, Owned(TensorOf<float>(Shape({3}), {x, x, x})));
    ASSERT_OK(result.status);
    EXPECT_EQ(result.outputs[0].tensor.scalar<float>(), 3 * v * x);
    EXPECT_EQ(result.outputs[1].tensor.data<float>()[2], v);
  }

  SimDevice device_{7, /*enqueues=*/true};
  uint64_t step_ = 0;
};

TEST_F(EngineCaptureTest, DoesWithOtherValuesWhatAnEarlierCallDid) {
  NewVector("v", 0);
  RegisterStep();
  float v = 0;
  for (int i = 1; i <= 30; ++i) {
    v += static_cast<float>(i);
    ExpectStep(static_cast<float>(i), v);
  }
  EXPECT_THAT(VectorOf("v"), ::testing::Each(v));
  const EngineStats stats = engine_->Stats();
  EXPECT_EQ(stats.calls_captured, 1);
  EXPECT_EQ(stats.calls_repeated, 27);
}

TEST_F(EngineCaptureTest, AVariableThatIsElsewhereIsFoundThere) {
  NewVector("v", 0);
  RegisterStep();
  for (int i = 1; i <= 40; ++i) {
    // Of several, so that some of the calls in between are captured, and some repeat.
    if (i % 5 == 0) {
      ASSERT_OK(Assign({{{0, "v"}, TensorOf<float>(Shape({3}), {7, 7, 7})}}).status);
    }
    const float before = VectorOf("v")[0];
    ExpectStep(2, before + 2);
  }
  EXPECT_GT(engine_->Stats().calls_repeated, 0);
}

TEST_F(EngineCaptureTest, OtherShapesAreOtherWork) {
  ASSERT_OK_AND_ASSIGN(const Registered made, Register("f", R"(
    x = Placeholder dtype=float
    e = Exp(x) T=float
    n = Neg(x) T=float
    f = Exp(n) T=float
    y = Mul(e, f) T=float
    nought = Const int32[1] 0
    s = Sum(y, nought) T=float Tidx=int32
    p = Prod(y, nought) T=float Tidx=int32
    z = Mul(s, p) T=float
  )",
                                                       {Spec("x:0")}, {"z:0"}));
  for (int i = 0; i < 60; ++i) {
    const int64_t n = 3 + i % 3;
    const CallResult result =
        Run(made.function.id, Owned(TensorOf<float>(Shape({n}), std::vector<float>(n, i * 0.01f))));
    ASSERT_OK(result.status);
    EXPECT_NEAR(result.outputs[0].tensor.scalar<float>(), static_cast<float>(n), 1e-4);
  }
  EXPECT_GE(engine_->Stats().calls_captured, 3);
  EXPECT_GT(engine_->Stats().calls_repeated, 20);
}

// An index that is out of range is told with its own value, and the next call knows nothing of it.
TEST_F(EngineCaptureTest, AFailureIsThatCallsAlone) {
  NewVector("v", 1);
  ASSERT_OK_AND_ASSIGN(const Registered made,
                       Register("f", R"(
    i = Placeholder dtype=int64
    v = Placeholder dtype=resource
    nought = Const int64[] 0
    three = Const float[3] 10 20 30
    g = GatherV2(three, i, nought) Tparams=float Tindices=int64 Taxis=int64
    a = AssignAddVariableOp(v, g) dtype=float
    r = ReadVariableOp(v, ^a) dtype=float
    s = Neg(r) T=float
  )",
                                {Spec("i:0", DType::kInt64)}, {"s:0"}, {{"v:0", "v"}}, {"a"}));
  const auto indices = [](int64_t i) { return Owned(TensorOf<int64_t>(Shape({3}), {0, i, 2})); };
  float v = 1;
  for (int round = 0; round < 30; ++round) {
    const bool fails = round % 6 == 5;
    const CallResult result = Run(made.function.id, indices(fails ? 9 : 1));
    if (fails) {
      EXPECT_THAT(result.status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'g'")));
      EXPECT_EQ(result.details.effects, Effects::kNone);
    } else {
      ASSERT_OK(result.status);
      v += 20;
      EXPECT_EQ(result.outputs[0].tensor.data<float>()[1], -v);
    }
    EXPECT_EQ(VectorOf("v")[1], v);
  }
  EXPECT_GT(engine_->Stats().calls_repeated, 5);
}

// What the host does of what it is given, and gives back, it does each time.
TEST_F(EngineCaptureTest, TheHostsPartIsDoneEachTime) {
  ASSERT_OK_AND_ASSIGN(const Registered made,
                       Register("f", R"(
    i = Placeholder dtype=int32
    one = Const int32[] 1
    j = AddV2(i, one) T=int32
    x = Cast(j) SrcT=int32 DstT=float
    e = Exp(x) T=float
    l = Log(e) T=float
    q = Square(l) T=float
    n = Neg(q) T=float
  )",
                                {Spec("i:0", DType::kInt32)}, {"n:0", "j:0", "i:0"}));
  for (int32_t i = 0; i < 8; ++i) {
    const CallResult result = Run(made.function.id, Owned(Tensor::Scalar(i)));
    ASSERT_OK(result.status);
    const auto j = static_cast<float>(i + 1);
    EXPECT_NEAR(result.outputs[0].tensor.scalar<float>(), -j * j, 1e-3 * j * j);
    EXPECT_EQ(result.outputs[1].tensor.scalar<int32_t>(), i + 1);
    EXPECT_EQ(result.outputs[2].tensor.scalar<int32_t>(), i);
  }
  EXPECT_GT(engine_->Stats().calls_repeated, 0);
}

// A shape that follows from what a call is given is another one in another call.
TEST_F(EngineCaptureTest, WhatValuesDecideIsNotCaptured) {
  ASSERT_OK_AND_ASSIGN(const Registered made, Register("f", R"(
    n = Placeholder dtype=int32
    two = Const float[] 2
    f = Fill(n, two) T=float index_type=int32
    e = Exp(f) T=float
    l = Log(e) T=float
    q = Square(l) T=float
    nought = Const int32[1] 0
    s = Sum(q, nought) T=float Tidx=int32
  )",
                                                       {Spec("n:0", DType::kInt32)}, {"s:0"}));
  for (int32_t n = 1; n < 20; ++n) {
    const CallResult result = Run(made.function.id, Owned(TensorOf<int32_t>(Shape({1}), {n})));
    ASSERT_OK(result.status);
    EXPECT_NEAR(result.outputs[0].tensor.scalar<float>(), 4.0f * static_cast<float>(n), 1e-3);
  }
  EXPECT_EQ(engine_->Stats().calls_captured, 0);
}

TEST_F(EngineCaptureTest, RandomNumbersAreDrawnEachTime) {
  ASSERT_OK_AND_ASSIGN(const Registered made, Register("f", R"(
    n = Const int32[1] 4
    u = RandomUniform(n) T=int32 dtype=float seed=3 seed2=5
    e = Exp(u) T=float
    l = Log(e) T=float
    q = Square(l) T=float
  )",
                                                       {}, {"q:0"}));
  std::set<float> drawn;
  for (int i = 0; i < 12; ++i) {
    const CallResult result = Run(made.function.id, {});
    ASSERT_OK(result.status);
    drawn.insert(result.outputs[0].tensor.data<float>()[0]);
  }
  EXPECT_EQ(drawn.size(), 12u);
}

// None of which gives it on: who holds a value keeps the next call from changing it in place.
TEST_F(EngineCaptureTest, ManyCallersShareAVariable) {
  NewVector("v", 0);
  RegisterStep({"s:0"});
  constexpr int kThreads = 8, kCalls = 50;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < kCalls; ++i) {
        const CallResult result = Run(step_, Owned(TensorOf<float>(Shape({3}), {1, 1, 1})));
        EXPECT_OK(result.status);
        if (!result.status.ok()) return;
        EXPECT_EQ(std::fmod(result.outputs[0].tensor.scalar<float>(), 3.0f), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(VectorOf("v"), ::testing::Each(kThreads * kCalls));
  EXPECT_GT(engine_->Stats().calls_repeated, 0);
}

// An atomic call keeps what was before, which nothing may be written over.
TEST_F(EngineCaptureTest, AtomicCallsAreIssuedStepByStep) {
  NewVector("v", 0);
  RegisterStep();
  for (int i = 1; i <= 20; ++i) {
    CallSpec spec;
    spec.name_space = "ns";
    spec.function.id = step_;
    spec.atomic = i % 2 == 0;
    spec.inputs.resize(1);
    spec.inputs[0].tensor = TensorOf<float>(Shape({3}), {1, 1, 1});
    const CallResult result = std::move(Begin(std::move(spec))->Wait());
    ASSERT_OK(result.status);
    EXPECT_EQ(result.outputs[1].tensor.data<float>()[0], static_cast<float>(i));
  }
}

TEST_F(EngineCaptureTest, WithoutRoomNothingIsCaptured) {
  engine_.reset();
  StartWith(8);
  NewVector("v", 0);
  RegisterStep();
  for (int i = 1; i <= 10; ++i) ExpectStep(1, static_cast<float>(i));
  EXPECT_EQ(engine_->Stats().calls_captured, 0);
}

}  // namespace
}  // namespace formwork::testing
