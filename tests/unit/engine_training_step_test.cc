// Several variables that one elementwise step changes, as an optimizer does: in place, where nobody
// else holds their values, and else not.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr int64_t kElements = 5000;

class TrainingStepTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    NewVector("m", 1);
    NewVector("w", 10);
  }
  void NewVector(const std::string& name, float value) {
    ASSERT_OK(engine_->CreateVariable("ns", name, DType::kFloat, PartialShape(), Vector(value)));
  }
  static Tensor Vector(float value, int64_t elements = kElements) {
    return VectorOf<float>(std::vector<float>(elements, value));
  }
  // m = m / 2 + g; w = w - 2 m. `more`: nodes, and what is wanted of them.
  uint64_t RegisterStep(const std::string& m, const std::string& w, const std::string& more = "",
                        std::vector<std::string> outputs = {}) {
    absl::StatusOr<Registered> made =
        Register(absl::StrCat("step_", m, "_", w),
                 R"(
      m = Placeholder dtype=resource
      w = Placeholder dtype=resource
      g = Placeholder dtype=float
      half = Const float[] 0.5
      two = Const float[] 2
      rm = ReadVariableOp(m) dtype=float
      mm = Mul(rm, half) T=float
      nm = AddV2(mm, g) T=float
      am = AssignVariableOp(m, nm) dtype=float
      again = ReadVariableOp(m, ^am) dtype=float
      d = Mul(again, two) T=float
      rw = ReadVariableOp(w, ^am) dtype=float
      nw = Sub(rw, d) T=float
      aw = AssignVariableOp(w, nw, ^am) dtype=float
    )" + more,
                 {Spec("g:0")}, std::move(outputs), {{"m:0", m}, {"w:0", w}}, {"am", "aw"});
    EXPECT_OK(made);
    return made.ok() ? made->function.id : 0;
  }
  // Its elements, which others may hold, too.
  Tensor Held(const std::string& name) {
    ReadResult result = Read({{0, name}});
    EXPECT_OK(result.status);
    return result.status.ok() ? std::move(result.values[0].value) : Tensor();
  }
  const float* AddressOf(const std::string& name) { return Held(name).data<float>(); }
};

TEST_F(TrainingStepTest, IsMadeInPlace) {
  const uint64_t step = RegisterStep("m", "w");
  const float* const m = AddressOf("m");
  const float* const w = AddressOf("w");
  const Tensor g = Vector(3);  // Held here, so that no result is made in its place.
  ASSERT_OK(Run(step, Owned(g)).status);
  // What is made beside values that are there still is not where they are.
  EXPECT_EQ(AddressOf("m"), m);
  EXPECT_EQ(AddressOf("w"), w);
  EXPECT_THAT(Held("m").span<float>(), Each(3.5f));
  EXPECT_THAT(Held("w").span<float>(), Each(3.0f));
  EXPECT_THAT(g.span<float>(), Each(3.0f));
}

TEST_F(TrainingStepTest, WhatSomebodyHoldsStaysAsItIs) {
  const uint64_t step = RegisterStep("m", "w");
  const Tensor m = Held("m");
  const Tensor w = Held("w");
  ASSERT_OK(Run(step, Owned(Vector(3))).status);
  EXPECT_THAT(m.span<float>(), Each(1.0f));
  EXPECT_THAT(w.span<float>(), Each(10.0f));
  EXPECT_THAT(Held("m").span<float>(), Each(3.5f));
  EXPECT_THAT(Held("w").span<float>(), Each(3.0f));
}

TEST_F(TrainingStepTest, AStoredValueMayBeAResultToo) {
  const uint64_t step = RegisterStep("m", "w", "", {"nm:0", "nw:0"});
  const CallResult first = Run(step, Owned(Vector(3)));
  ASSERT_OK(first.status);
  ASSERT_OK(Run(step, Owned(Vector(3))).status);
  EXPECT_THAT(first.outputs[0].tensor.span<float>(), Each(3.5f));
  EXPECT_THAT(first.outputs[1].tensor.span<float>(), Each(3.0f));
  EXPECT_THAT(Held("w").span<float>(), Each(-6.5f));
}

TEST_F(TrainingStepTest, TwoHandlesOfOneVariableAreReadInOrder) {
  const uint64_t step = RegisterStep("m", "m");
  ASSERT_OK(Run(step, Owned(Vector(3))).status);
  EXPECT_THAT(Held("m").span<float>(), Each(-3.5f));  // 3.5 - 2 * 3.5
  // The plan for two variables is another.
  const uint64_t other = RegisterStep("m", "w");
  ASSERT_OK(Run(other, Owned(Vector(3))).status);
  EXPECT_THAT(Held("m").span<float>(), Each(1.25f));
  EXPECT_THAT(Held("w").span<float>(), Each(7.5f));
}

TEST_F(TrainingStepTest, AGradientThatDoesNotFitChangesNothing) {
  const uint64_t step = RegisterStep("m", "w");
  EXPECT_THAT(Run(step, Owned(Vector(3, 7))).status,
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("node 'nm'")));
  EXPECT_THAT(Held("m").span<float>(), Each(1.0f));
  EXPECT_THAT(Held("w").span<float>(), Each(10.0f));
  ASSERT_OK(Run(step, Owned(Vector(3))).status);
  EXPECT_THAT(Held("w").span<float>(), Each(3.0f));
}

TEST_F(TrainingStepTest, AValueThatDoesNotFitItsVariableIsTheStoresError) {
  ASSERT_OK(engine_->CreateVariable("ns", "narrow", DType::kFloat, PartialShape({1}),
                                    VectorOf<float>({10})));
  const uint64_t step = RegisterStep("m", "narrow");
  EXPECT_THAT(Run(step, Owned(Vector(3))).status,
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("node 'aw'")));
  EXPECT_THAT(Held("narrow").span<float>(), Each(10.0f));
  EXPECT_THAT(Held("m").span<float>(), Each(3.5f));  // Its own store came first.
}

TEST_F(TrainingStepTest, AnAtomicCallThatFailsLeavesNoTrace) {
  ASSERT_OK(engine_->CreateVariable("ns", "narrow", DType::kFloat, PartialShape({1}),
                                    VectorOf<float>({10})));
  CallSpec spec;
  spec.name_space = "ns";
  spec.function.id = RegisterStep("m", "narrow");
  spec.atomic = true;
  spec.inputs.resize(1);
  spec.inputs[0].tensor = Vector(3);
  EXPECT_THAT(Begin(std::move(spec))->Wait().status, StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(Held("m").span<float>(), Each(1.0f));
}

// A read between the stores, and one behind them, see what the order of the nodes says.
TEST_F(TrainingStepTest, ReadsKeepTheirPlace) {
  absl::StatusOr<Registered> made = Register("reads",
                                             R"(
      m = Placeholder dtype=resource
      w = Placeholder dtype=resource
      g = Placeholder dtype=float
      rm = ReadVariableOp(m) dtype=float
      nm = AddV2(rm, g) T=float
      am = AssignVariableOp(m, nm) dtype=float
      between = ReadVariableOp(w, ^am) dtype=float
      nw = Sub(between, nm) T=float
      aw = AssignVariableOp(w, nw, ^am, ^between) dtype=float
      behind = ReadVariableOp(w, ^aw) dtype=float
      shape = VariableShape(w, ^aw) out_type=int32
    )",
                                             {Spec("g:0")}, {"between:0", "behind:0", "rm:0"},
                                             {{"m:0", "m"}, {"w:0", "w"}}, {"am", "aw"});
  ASSERT_OK(made.status());
  const CallResult result = Run(made->function.id, Owned(Vector(3)));
  ASSERT_OK(result.status);
  EXPECT_THAT(result.outputs[0].tensor.span<float>(), Each(10.0f));
  EXPECT_THAT(result.outputs[1].tensor.span<float>(), Each(6.0f));
  EXPECT_THAT(result.outputs[2].tensor.span<float>(), Each(1.0f));
  EXPECT_THAT(Held("m").span<float>(), Each(4.0f));
}

}  // namespace
}  // namespace formwork::testing
