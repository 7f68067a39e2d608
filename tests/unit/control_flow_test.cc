// Branches, loops and calls over callees made by hand.

#include <unistd.h>

#include <cmath>
#include <functional>

#include "core/base/status.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using ::testing::HasSubstr;
using Values = absl::Span<Tensor>;

class HandMade final : public Callee {
 public:
  using Body = std::function<absl::Status(Values inputs, Values outputs)>;
  HandMade(int inputs, std::vector<DType> outputs, Body body)
      : inputs_(inputs), outputs_(std::move(outputs)), body_(std::move(body)) {}
  int num_inputs() const override { return inputs_; }
  int num_outputs() const override { return static_cast<int>(outputs_.size()); }
  DType output_dtype(int i) const override { return outputs_[i]; }
  std::unique_ptr<Frame> NewFrame() const override {
    ++frames;
    return std::make_unique<Frame>();
  }
  absl::Status Run(CallScope&, Frame&, Values inputs, Values outputs) const override {
    ++runs;
    return body_(inputs, outputs);
  }
  mutable int frames = 0;
  mutable int runs = 0;

 private:
  const int inputs_;
  const std::vector<DType> outputs_;
  const Body body_;
};

FuncAttr Named(const std::string& name) { return {name, std::make_shared<AttrMap>()}; }

class ControlFlowTest : public ::testing::Test {
 protected:
  // A function that adds `amount` to its one float.
  void AddAdder(const std::string& name, float amount) {
    run_.AddFunction(
        name, std::make_shared<HandMade>(
                  1, std::vector<DType>{DType::kFloat}, [amount](Values inputs, Values outputs) {
                    outputs[0] = Tensor::Scalar(inputs[0].scalar<float>() + amount);
                    return absl::OkStatus();
                  }));
  }
  absl::StatusOr<float> RunIf(Tensor condition) {
    FORMWORK_ASSIGN_OR_RETURN(
        KernelFn kernel,
        run_.Make("If", {{"then_branch", Named("plus")}, {"else_branch", Named("minus")}},
                  {condition.dtype(), DType::kFloat}, {DType::kFloat}));
    FORMWORK_ASSIGN_OR_RETURN(std::vector<Tensor> outputs,
                              run_.Run(kernel, {std::move(condition), Tensor::Scalar(0.0f)}, 1));
    return outputs[0].scalar<float>();
  }
  void SetUp() override {
    AddAdder("plus", 1);
    AddAdder("minus", -1);
  }
  KernelRunner run_;
};

TEST_F(ControlFlowTest, ConditionsAreTakenAsTensorFlowTakesThem) {
  EXPECT_EQ(*RunIf(Tensor::Scalar(true)), 1);
  EXPECT_EQ(*RunIf(Tensor::Scalar(false)), -1);
  EXPECT_EQ(*RunIf(Tensor::Scalar(3)), 1);
  EXPECT_EQ(*RunIf(Tensor::Scalar(0)), -1);
  EXPECT_EQ(*RunIf(Tensor::Scalar(0.0f)), -1);
  EXPECT_EQ(*RunIf(Tensor::Scalar(1e-300)), 1);
  EXPECT_EQ(*RunIf(Tensor::Scalar(NAN)), 1);
  EXPECT_EQ(*RunIf(Tensor::StringScalar("")), -1);
  EXPECT_EQ(*RunIf(Tensor::StringScalar("x")), 1);
  EXPECT_EQ(*RunIf(VectorOf<int32_t>({0})), 1);
  EXPECT_EQ(*RunIf(VectorOf<int32_t>({})), -1);
  EXPECT_EQ(*RunIf(TensorOf<bool>(Shape({1, 1}), {false})), 1);
}

TEST_F(ControlFlowTest, AnIndexOutOfRangeTakesTheLastBranch) {
  ASSERT_OK_AND_ASSIGN(
      KernelFn kernel,
      run_.Make("Case", {{"branches", std::vector<FuncAttr>{Named("plus"), Named("minus")}}},
                {DType::kInt32, DType::kFloat}, {DType::kFloat}));
  const float expected[] = {-1, 1, -1, -1};
  for (int i = -1; i < 3; ++i) {
    ASSERT_OK_AND_ASSIGN(std::vector<Tensor> outputs,
                         run_.Run(kernel, {Tensor::Scalar(i), Tensor::Scalar(0.0f)}, 1));
    EXPECT_EQ(outputs[0].scalar<float>(), expected[i + 1]) << i;
  }
  EXPECT_THAT(run_.Run(kernel, {VectorOf<int32_t>({0}), Tensor::Scalar(0.0f)}, 1),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ControlFlowTest, FunctionsThatDoNotFitAreRefused) {
  EXPECT_THAT(run_.Make("PartitionedCall", {{"f", Named("plus")}}, {}, {DType::kFloat}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("does not fit")));
  EXPECT_THAT(
      run_.Make("PartitionedCall", {{"f", Named("plus")}}, {DType::kFloat}, {DType::kInt32}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("gives dtype float32")));
}

class LoopTest : public ::testing::Test {
 protected:
  LoopTest() {
    cond_ = std::make_shared<HandMade>(2, std::vector<DType>{DType::kBool},
                                       [](Values inputs, Values outputs) {
                                         const int i = inputs[0].scalar<int32_t>();
                                         outputs[0] = Tensor::Scalar(i < 5);
                                         return absl::OkStatus();
                                       });
    body_ = std::make_shared<HandMade>(2, std::vector<DType>{DType::kInt32, DType::kFloat},
                                       [this](Values inputs, Values outputs) {
                                         const int i = inputs[0].scalar<int32_t>();
                                         if (i == fail_at_)
                                           return absl::InvalidArgumentError("body fails");
                                         if (i == stop_at_) run_.stop().Cancel();
                                         alone_ = alone_ && inputs[1].unique();
                                         Tensor grown = std::move(inputs[1]);
                                         if (grown.unique())
                                           grown.mutable_data<float>()[i] = static_cast<float>(i);
                                         outputs[0] = Tensor::Scalar(i + 1);
                                         outputs[1] = std::move(grown);
                                         return absl::OkStatus();
                                       });
    run_.AddFunction("cond", cond_);
    run_.AddFunction("body", body_);
  }
  absl::StatusOr<std::vector<Tensor>> Loop(Tensor start, Tensor values) {
    FORMWORK_ASSIGN_OR_RETURN(
        KernelFn kernel, run_.Make("While", {{"cond", Named("cond")}, {"body", Named("body")}},
                                   {DType::kInt32, DType::kFloat}, {DType::kInt32, DType::kFloat}));
    return run_.Run(kernel, Owned(std::move(start), std::move(values)), 2);
  }
  KernelRunner run_;
  std::shared_ptr<HandMade> cond_;
  std::shared_ptr<HandMade> body_;
  int fail_at_ = -1;
  int stop_at_ = -1;
  bool alone_ = true;
};

TEST_F(LoopTest, LoopVariablesAreUpdatedInPlace) {
  Tensor values = VectorOf<float>(std::vector<float>(64, 0));
  const void* buffer = values.raw();
  ASSERT_OK_AND_ASSIGN(std::vector<Tensor> outputs, Loop(Tensor::Scalar(0), std::move(values)));
  EXPECT_EQ(outputs[0].scalar<int32_t>(), 5);
  EXPECT_EQ(outputs[1].raw(), buffer);
  EXPECT_EQ(outputs[1].data<float>()[4], 4.0f);
  EXPECT_TRUE(alone_);
  EXPECT_EQ(cond_->runs, 6);
  EXPECT_EQ(body_->runs, 5);
  EXPECT_EQ(cond_->frames, 1);
  EXPECT_EQ(body_->frames, 1);
}

TEST_F(LoopTest, ALoopThatDoesNotStartReturnsItsInputs) {
  ASSERT_OK_AND_ASSIGN(std::vector<Tensor> outputs, Loop(Tensor::Scalar(7), VectorOf<float>({1})));
  EXPECT_EQ(outputs[0].scalar<int32_t>(), 7);
  EXPECT_EQ(body_->runs, 0);
}

TEST_F(LoopTest, FailureAndCancellationEndTheLoop) {
  fail_at_ = 2;
  EXPECT_THAT(Loop(Tensor::Scalar(0), VectorOf<float>({0, 0, 0})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("body fails")));
  fail_at_ = -1;
  stop_at_ = 1;
  EXPECT_THAT(Loop(Tensor::Scalar(0), VectorOf<float>({0, 0, 0})),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(body_->runs, 3 + 2);
}

TEST(FunctionKernelTest, AnUnfedPlaceholderSaysSo) {
  KernelRunner run;
  const PartialShape shape = PartialShape::Trusted({2, -1});
  EXPECT_THAT(run.Op("Placeholder", {{"dtype", DType::kFloat}, {"shape", shape}}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "You must feed a value for placeholder tensor 'node' with dtype float and "
                       "shape [2,?]"));
  EXPECT_THAT(run.Op("Placeholder", {{"dtype", DType::kHalf}, {"shape", PartialShape()}}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "You must feed a value for placeholder tensor 'node' with dtype half"));
}

TEST(FunctionKernelTest, PrintsGoToTheCaller) {
  KernelRunner run;
  const std::string file = "file:///tmp/formwork_must_not_write_this";
  for (const std::string& stream : {std::string("stderr"), std::string("stdout"), file}) {
    ASSERT_THAT(run.Op("PrintV2", {{"output_stream", stream}, {"end", std::string("!\n")}},
                       {Tensor::StringScalar("hello")}),
                IsOk());
  }
  EXPECT_EQ(run.printed(), "hello!\nhello!\nhello!\n");
  EXPECT_NE(access("/tmp/formwork_must_not_write_this", F_OK), 0);
}

TEST(FunctionKernelTest, PrintPrintsTheFirstTimes) {
  KernelRunner run;
  ASSERT_OK_AND_ASSIGN(KernelFn kernel,
                       run.Make("Print", {{"message", std::string("hi ")}, {"first_n", int64_t{1}}},
                                {DType::kInt32, DType::kFloat, DType::kString}, {DType::kInt32}));
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(
        std::vector<Tensor> outputs,
        run.Run(kernel,
                {Tensor::Scalar(i), VectorOf<float>({1, 2, 3, 4}), Tensor::StringScalar("a\nb")},
                1));
    EXPECT_EQ(outputs[0].scalar<int32_t>(), i);
  }
  EXPECT_EQ(run.printed(), "hi [1 2 3...][a\\nb]\n");
}

}  // namespace
}  // namespace formwork::testing
