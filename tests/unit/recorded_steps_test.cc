// How the steps of a plan appear in a timeline, and that a recorded run does what another does.

#include "tests/support/timeline_text.h"
#include "tests/unit/plan_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

const PartialShape kScalar{Shape()};

class RecordedStepsTest : public PlanFixture {
 protected:
  // Runs the plan, recorded, and gives the timeline; `status_` and `outputs_` are the run's.
  std::unique_ptr<Timeline> Record(std::vector<Tensor> inputs) {
    TimelineRecorder recorder;
    recorder_ = &recorder;
    absl::StatusOr<std::vector<Tensor>> outputs = Run(std::move(inputs));
    recorder_ = nullptr;
    status_ = outputs.status();
    if (outputs.ok()) outputs_ = *std::move(outputs);
    return recorder.Finish();
  }
  std::string Recorded(std::vector<Tensor> inputs) {
    return TimelineText(*Record(std::move(inputs)));
  }

  absl::Status status_;
  std::vector<Tensor> outputs_;
};

TEST_F(RecordedStepsTest, AStepHasItsNodeItsOpAndWhatItMakes) {
  Make(R"(
    x = Placeholder dtype=float
    product = MatMul(x, x) T=float
    s = Shape(product) T=float
  )",
       {{"x:0", DType::kFloat}}, {"product:0", "s:0"});
  const auto timeline = Record({VectorOf<float>({1, 2, 3, 4}).Reshaped(Shape({2, 2}))});
  ASSERT_OK(status_);
  EXPECT_EQ(outputs_[0].data<float>()[3], 22);
  EXPECT_EQ(TimelineText(*timeline), R"(call
  step 'product' MatMul: float32[2,2]
  step 's' Shape: int32[2]
)");
}

TEST_F(RecordedStepsTest, BytesAreThoseThatAStepHasAllocated) {
  Make(R"(
    x = Placeholder dtype=float
    y = Neg(x) T=float
    z = Reshape(y, y_shape) T=float
    y_shape = Const int32[1] -1
  )",
       {{"x:0", DType::kFloat}}, {"z:0"});
  const Tensor x = VectorOf<float>(std::vector<float>(1000, 1));
  const auto timeline = Record({x});  // Which the test holds as well.
  ASSERT_OK(status_);
  ASSERT_EQ(timeline->spans.size(), 2);
  EXPECT_EQ(timeline->spans[0].bytes, 4000);
  EXPECT_EQ(timeline->spans[1].bytes, 0);  // It passes its input on.
}

TEST_F(RecordedStepsTest, AFusedStepNamesItsNodes) {
  Make(R"(
    x = Placeholder dtype=float
    a = Square(x) T=float
    b = Neg(a) T=float
    c = Exp(b) T=float
  )",
       {{"x:0", DType::kFloat}}, {"c:0"});
  EXPECT_EQ(Recorded({VectorOf<float>({1, 2, 3})}), R"(call
  step 'a, b, c' fused: float32[3]
)");
}

// A step for each iteration, as they run.
constexpr char kLoop[] = R"(
  n = Placeholder dtype=int32
  x = Placeholder dtype=float
  zero = Const int32[] 0
  w = StatelessWhile(zero, n, x) cond=@cond body=@body T=[int32,int32,float]
  function cond(i: int32, n: int32, x: float) -> (go: bool = l:z:0)
    l = Less(i, n) T=int32
  end
  function body(i: int32, n: int32, x: float) -> (j: int32 = k:z:0, m: int32 = n, y: float = d:product:0)
    one = Const int32[] 1
    k = AddV2(i, one:output:0) T=int32
    d = MatMul(x, x) T=float
  end
)";

TEST_F(RecordedStepsTest, ALoopsStepsAppearAsTheyRun) {
  Make(kLoop, {{"n:0", DType::kInt32}, {"x:0", DType::kFloat}}, {"w:2"});
  const std::string text =
      Recorded({Tensor::Scalar(2), VectorOf<float>({1, 1, 1, 1}).Reshaped(Shape({2, 2}))});
  ASSERT_OK(status_);
  EXPECT_EQ(outputs_[0].data<float>()[0], 8);
  EXPECT_EQ(text, R"(call
  step 'w/cond/l' Less: bool[]
  step 'w/body/d' MatMul: float32[2,2]
  step 'w/body/k' scalars: int32[]
  step 'w/cond/l' Less: bool[]
  step 'w/body/d' MatMul: float32[2,2]
  step 'w/body/k' scalars: int32[]
  step 'w/cond/l' Less: bool[]
)");
}

TEST_F(RecordedStepsTest, ALongLoopsStepsAreLeftOutBeyondTheBound) {
  Make(kLoop, {{"n:0", DType::kInt32}, {"x:0", DType::kFloat}}, {"w:2"});
  constexpr int kTimes = 20'000;
  const auto timeline =
      Record({Tensor::Scalar(kTimes), VectorOf<float>({1, 0, 0, 1}).Reshaped(Shape({2, 2}))});
  ASSERT_OK(status_);
  EXPECT_EQ(outputs_[0].data<float>()[0], 1);
  EXPECT_EQ(timeline->spans.size(), Timeline::kMostSteps);
  EXPECT_EQ(timeline->left_out, 3 * kTimes + 1 - Timeline::kMostSteps);
}

TEST_F(RecordedStepsTest, AProgramOfScalarsIsOneStepWhateverItsIterations) {
  Make(R"(
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
       {{"n:0", DType::kInt32}}, {"w:0"}, kScalar);
  constexpr int kTimes = 10'000'000;
  const auto timeline = Record(Owned(Tensor::Scalar(kTimes)));
  ASSERT_OK(status_);
  EXPECT_EQ(outputs_[0].scalar<int32_t>(), kTimes);
  EXPECT_EQ(TimelineText(*timeline), "call\n  step 'w' scalars: int32[]\n");
}

constexpr char kCalls[] = R"(
  x = Placeholder dtype=float
  y = PartitionedCall(x) f=@outer Tin=[float] Tout=[float]
  z = MatMul(y, x) T=float
  function outer(a: float) -> (r: float = c:output:0)
    b = MatMul(a, a) T=float
    c = PartitionedCall(b:product:0) f=@inner Tin=[float] Tout=[float]
  end
  function inner(a: float) -> (r: float = e:output:0)
    e = CheckNumerics(a) T=float message="inner"
  end
)";

TEST_F(RecordedStepsTest, CalledFunctionsAreAroundTheirSteps) {
  budget_.inlined = 0;
  Make(kCalls, {{"x:0", DType::kFloat}}, {"z:0"});
  EXPECT_EQ(Recorded({VectorOf<float>({2}).Reshaped(Shape({1, 1}))}), R"(call
  call 'y' PartitionedCall: outer
    step 'b' MatMul: float32[1,1]
    call 'c' PartitionedCall: inner
      step 'e' CheckNumerics: float32[1,1]
  step 'z' MatMul: float32[1,1]
)");
  ASSERT_OK(status_);
  EXPECT_EQ(outputs_[0].scalar<float>(), 8);
}

TEST_F(RecordedStepsTest, AFailedStepSaysSoAndEndsTheCallsThatItIsIn) {
  budget_.inlined = 0;
  Make(kCalls, {{"x:0", DType::kFloat}}, {"z:0"});
  EXPECT_EQ(Recorded({VectorOf<float>({NAN}).Reshaped(Shape({1, 1}))}), R"(call
  call 'y' PartitionedCall: outer
    step 'b' MatMul: float32[1,1]
    call 'c' PartitionedCall: inner
      step 'e' CheckNumerics: ended: INVALID_ARGUMENT
)");
  EXPECT_THAT(status_, StatusIs(StatusCode::kInvalidArgument, HasSubstr("inner")));
}

TEST_F(RecordedStepsTest, LanesHaveTracksOfTheirOwn) {
  lanes_ = true;
  Make(R"(
    x = Placeholder dtype=float
    s = Tanh(x) T=float
    p = MatMul(s, s) T=float
    q = MatMul(p, s) T=float
    r = MatMul(s, x) T=float
    y = Sub(q, r) T=float
  )",
       {{"x:0", DType::kFloat}}, {"y:0"}, PartialShape{Shape({128, 128})});
  const Tensor x =
      VectorOf<float>(std::vector<float>(128 * 128, 0.01f)).Reshaped(Shape({128, 128}));
  EXPECT_EQ(Recorded({x}), R"(call
  step 's' Tanh: float32[128,128]
  lanes 'y' lanes: float32[128,128], float32[128,128]
  step 'y' Sub: float32[128,128]
lane 1
  lanes 'lane 'q''
    step 'p' MatMul: float32[128,128]
    step 'q' MatMul: float32[128,128]
lane 2
  lanes 'lane 'r''
    step 'r' MatMul: float32[128,128]
)");
  ASSERT_OK(status_);
}

TEST_F(RecordedStepsTest, ARunThatLeavesItsThreadGoesOnInTheSameTimeline) {
  Make(kLoop, {{"n:0", DType::kInt32}, {"x:0", DType::kFloat}}, {"w:2"});
  others_wait_ = true;
  constexpr int kTimes = 5'000;
  const auto timeline =
      Record({Tensor::Scalar(kTimes), VectorOf<float>({1, 0, 0, 1}).Reshaped(Shape({2, 2}))});
  ASSERT_OK(status_);
  EXPECT_GT(slices_, 1);
  EXPECT_EQ(timeline->spans.size(), 3 * kTimes + 1);
  EXPECT_EQ(timeline->left_out, 0);
}

}  // namespace
}  // namespace formwork::testing
