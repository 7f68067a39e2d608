// Runs that leave their threads between two instructions and go on elsewhere.

#include <cmath>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/memory_budget.h"
#include "core/plan/planner.h"
#include "core/runtime/call.h"
#include "core/runtime/executor.h"
#include "tests/support/graph_world.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using State = Execution::State;

class ExecutionTest : public ::testing::Test {
 protected:
  void Make(absl::string_view text, std::vector<std::pair<std::string, DType>> feeds,
            std::vector<std::string> fetches, std::vector<std::string> targets = {}) {
    const std::vector<PartialShape> shapes(feeds.size());
    ASSERT_OK_AND_ASSIGN(
        ImportedGraph imported,
        world_.Import(text, std::move(feeds), std::move(fetches), std::move(targets)));
    ASSERT_OK_AND_ASSIGN(
        plan_, MakePlan(imported, shapes, {world_.ops, world_.kernels, world_.allocator}));
    frame_ = std::make_unique<PlanFrame>(*plan_);
  }
  void Begin(std::vector<Tensor> inputs) {
    call_.set_resources(&variables_.resources());
    outputs_ = std::vector<Tensor>(plan_->results.size());
    execution_ = std::make_unique<Execution>(*plan_, *frame_, call_, absl::MakeSpan(inputs));
  }
  // Until it has ended, or `most` slices have, each on a thread of its own.
  absl::StatusOr<State> Run(int most, absl::Duration length = absl::ZeroDuration()) {
    absl::StatusOr<State> state = State::kSuspended;
    for (slices_ = 0; slices_ < most && state.ok() && *state == State::kSuspended; ++slices_) {
      std::thread([&] {
        state = execution_->Run(absl::MakeSpan(outputs_), TimeSlice(others_wait_, length));
      }).join();
    }
    return state;
  }
  int Held() const {
    int held = 0;
    for (const Tensor& slot : frame_->slots) held += slot.buffer() ? 1 : 0;
    return held;
  }

  std::atomic<bool> others_wait_{true};
  GraphWorld world_;
  KernelRunner variables_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<PlanFrame> frame_;
  StopFlag stop_;
  std::vector<ResourceHandle> named_;
  Call call_{world_.allocator, {}, &named_, stop_};
  std::unique_ptr<Execution> execution_;
  std::vector<Tensor> outputs_;
  int slices_ = 0;
};

constexpr char kDoubles[] = R"(
  n = Placeholder dtype=int32
  x = Placeholder dtype=float
  zero = Const int32[] 0
  w = StatelessWhile(zero, n, x) cond=@cond body=@body T=[int32,int32,float]
  function cond(i: int32, n: int32, x: float) -> (go: bool = l:z:0)
    l = Less(i, n) T=int32
  end
  function body(i: int32, n: int32, x: float) -> (j: int32 = k:z:0, m: int32 = n, y: float = d:z:0)
    one = Const int32[] 1
    k = AddV2(i, one:output:0) T=int32
    d = AddV2(x, x) T=float
  end
)";

TEST_F(ExecutionTest, GoesOnWhereItWasOnAnyThread) {
  Make(kDoubles, {{"n:0", DType::kInt32}, {"x:0", DType::kFloat}}, {"w:2"});
  for (int n : {0, 1, 20}) {
    Begin(Owned(Tensor::Scalar(n), VectorOf<float>(std::vector<float>(100, 3))));
    ASSERT_OK_AND_ASSIGN(const State state, Run(1000));
    EXPECT_EQ(state, State::kFinished);
    EXPECT_GE(slices_, n);
    EXPECT_EQ(outputs_[0].span<float>()[99], std::ldexp(3.0f, n));
    EXPECT_EQ(Held(), 0);
  }
}

TEST_F(ExecutionTest, KeepsItsThreadWhileNobodyWaitsOrItsSliceLasts) {
  Make(kDoubles, {{"n:0", DType::kInt32}, {"x:0", DType::kFloat}}, {"w:2"});
  for (bool others_wait : {false, true}) {
    others_wait_ = others_wait;
    Begin(Owned(Tensor::Scalar(50), VectorOf<float>({1})));
    ASSERT_OK_AND_ASSIGN(const State state,
                         Run(1, others_wait ? absl::Hours(1) : absl::ZeroDuration()));
    EXPECT_EQ(state, State::kFinished);
  }
}

TEST_F(ExecutionTest, WhatIsStoppedHoldsNothing) {
  Make(kDoubles, {{"n:0", DType::kInt32}, {"x:0", DType::kFloat}}, {"w:2"});
  Begin(Owned(Tensor::Scalar(1000), VectorOf<float>(std::vector<float>(100, 1))));
  ASSERT_OK_AND_ASSIGN(const State state, Run(10));
  EXPECT_EQ(state, State::kSuspended);
  EXPECT_GT(Held(), 0);
  execution_->Stop();
  EXPECT_EQ(Held(), 0);
  // The frame is as new.
  Begin(Owned(Tensor::Scalar(2), VectorOf<float>(std::vector<float>(100, 1))));
  EXPECT_OK(Run(1000));
  EXPECT_EQ(outputs_[0].span<float>()[0], 4);
}

TEST_F(ExecutionTest, AStopReachesItWhenItGoesOn) {
  Make(kDoubles, {{"n:0", DType::kInt32}, {"x:0", DType::kFloat}}, {"w:2"});
  Begin(Owned(Tensor::Scalar(1 << 30), VectorOf<float>(std::vector<float>(100, 1))));
  ASSERT_OK_AND_ASSIGN(const State state, Run(10));
  EXPECT_EQ(state, State::kSuspended);
  stop_.Cancel();
  EXPECT_THAT(Run(10), StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(Held(), 0);
}

// After an effect it is a loop's iteration that it ends with, as where it is stopped.
TEST_F(ExecutionTest, StepsAfterAnEffectStayTogether) {
  std::string text = R"(
    v = Placeholder dtype=resource
    x = Placeholder dtype=float
    p = MatMul(x, x) T=float
    q = MatMul(p, x) T=float
    a = AssignVariableOp(v, q) dtype=float
    m0 = MatMul(x, x, ^a) T=float
  )";
  for (int i = 0; i < 100; ++i)
    absl::StrAppend(&text, "m", i + 1, " = MatMul(m", i, ", x) T=float\n");
  Make(text, {{"v:0", DType::kResource}, {"x:0", DType::kFloat}}, {"m100:0"}, {"a"});
  const Tensor one = TensorOf<float>(Shape({1, 1}), {1});
  const Tensor v = variables_.NewVariable("v", DType::kFloat, PartialShape(), one);
  Begin({v, one});
  ASSERT_OK_AND_ASSIGN(const State state, Run(1000));
  EXPECT_EQ(state, State::kFinished);
  EXPECT_TRUE(stop_.after_effect());
  EXPECT_GE(slices_, 2);
  EXPECT_LE(slices_, 4);
  EXPECT_EQ(outputs_[0].data<float>()[0], 1);
}

// Functions that call each other one after the other, each squaring its matrix.
std::string Chain(int depth) {
  std::string text =
      "x = Placeholder dtype=float\ny = PartitionedCall(x) f=@f0 Tin=[float] Tout=[float]\n";
  for (int i = 0; i < depth; ++i) {
    const bool last = i + 1 == depth;
    absl::StrAppend(&text, "function f", i,
                    "(x: float) -> (r: float = ", last ? "a:product:0" : "c:output:0",
                    ")\n  a = MatMul(x, x) T=float\n");
    if (!last) {
      absl::StrAppend(&text, "  c = PartitionedCall(a:product:0) f=@f", i + 1,
                      " Tin=[float] Tout=[float]\n");
    }
    absl::StrAppend(&text, "end\n");
  }
  return text;
}

// What is suspended inside calls that are not part of their callers has their frames, too.
TEST_F(ExecutionTest, CallsUnderWayAreSuspendedAsAWhole) {
  constexpr int kDepth = 100;
  Make(Chain(kDepth), {{"x:0", DType::kFloat}}, {"y:0"});
  EXPECT_THAT(PlanText(*plan_), HasSubstr("= call 0("));
  Begin(Owned(TensorOf<float>(Shape({2, 2}), {1, 0, 0, 1})));
  ASSERT_OK_AND_ASSIGN(State state, Run(kDepth - 10));
  EXPECT_EQ(state, State::kSuspended);
  EXPECT_EQ(plan_->code[execution_->position()].code, Plan::Code::kCall);
  ASSERT_OK_AND_ASSIGN(state, Run(1000));
  EXPECT_EQ(state, State::kFinished);
  EXPECT_THAT(outputs_[0].span<float>(), ::testing::ElementsAre(1, 0, 0, 1));
  EXPECT_EQ(Held(), 0);
}

TEST_F(ExecutionTest, CallsNestAsDeepAsThereIsMemory) {
  Make(Chain(20'000), {{"x:0", DType::kFloat}}, {"y:0"});
  others_wait_ = false;
  for (size_t limit : {size_t{1} << 20, size_t{64} << 20}) {
    Begin(Owned(TensorOf<float>(Shape({2, 2}), {1, 0, 0, 1})));
    MemoryBudget budget(limit);
    const absl::Status status =
        HoldToBudget(budget, [&] { return execution_->Run(absl::MakeSpan(outputs_)).status(); });
    if (limit == size_t{1} << 20) {
      EXPECT_THAT(status, StatusIs(StatusCode::kResourceExhausted,
                                   AllOf(HasSubstr("node 'y"), HasSubstr(" more: node '"))));
      EXPECT_LT(status.message().size(), 20'000u);
    } else {
      EXPECT_OK(status);
      EXPECT_EQ(outputs_[0].span<float>()[0], 1);
    }
    EXPECT_EQ(Held(), 0);
  }
}

}  // namespace
}  // namespace formwork::testing
