// Elementwise nodes that a plan for a device has as one step, and their stores: on devices whose
// work computes, and on such as only enqueue kernels.

#include <cmath>
#include <deque>

#include "absl/strings/str_replace.h"
#include "tests/streams/stream_world.h"
#include "tests/support/kernel_runner.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ElementGroupsTest : public ::testing::TestWithParam<bool> {
 protected:
  // It lives on, for the plans that are known by it.
  const Program& Make(absl::string_view text, const std::vector<std::string>& fetches,
                      const std::vector<std::string>& targets = {}) {
    absl::StatusOr<Program> program =
        programs_.Make(absl::StrCat(R"(
      x = Placeholder dtype=float
      g = EnsureShape(x) T=float shape=shape:[3]
      i = Placeholder dtype=int64
      m = VarHandleOp dtype=float shape=shape:[3] shared_name="m"
      v = VarHandleOp dtype=float shape=shape:[3] shared_name="v"
      rate = Const float[] 0.5
      nought = Const int64[] 0
    )",
                                    text),
                       {{"x:0", DType::kFloat}, {"i:0", DType::kInt64}}, fetches, targets);
    EXPECT_OK(program);
    return made_.emplace_back(*std::move(program));
  }
  Outcome Run(const Program& program, Tensor x, int64_t i = 0) {
    Outcome outcome = std::move(sim_.Run({{&program, Owned(std::move(x), Tensor::Scalar(i))}})[0]);
    sim_.device().RunAll();
    EXPECT_THAT(sim_.device().Reports(), IsEmpty());
    return outcome;
  }
  void Give(float value) {
    const Program& assign = Make(R"(
      a = AssignVariableOp(m, x) dtype=float
      b = AssignVariableOp(v, x) dtype=float
    )",
                                 {}, {"a", "b"});
    ASSERT_OK(Run(assign, VectorOf<float>({value, value, value})).status);
  }
  std::vector<float> ValueOf(absl::string_view variable) {
    const Program& read =
        Make(absl::StrCat("r = ReadVariableOp(", variable, ") dtype=float"), {"r:0"});
    const Outcome outcome = Run(read, Tensor::Scalar(0.0f));
    EXPECT_OK(outcome.status);
    return outcome.status.ok() ? ValuesOf<float>(outcome.results[0]) : std::vector<float>();
  }

  Programs programs_;
  std::deque<Program> made_;
  SimWorld sim_{programs_, 1, 2, /*enqueues=*/GetParam()};
};

// m = m / 2 + x; v = v - m / 2.
constexpr char kStep[] = R"(
  r = ReadVariableOp(m) dtype=float
  h = Mul(r, rate) T=float
  n = AddV2(h, g) T=float
  a = AssignVariableOp(m, n) dtype=float
  o = ReadVariableOp(v) dtype=float
  d = Mul(n, rate) T=float
  w = Sub(o, d) T=float
  b = AssignVariableOp(v, w) dtype=float
)";

TEST_P(ElementGroupsTest, AStepOfTrainingChangesItsVariablesInOneStep) {
  const Program& step = Make(kStep, {}, {"a", "b"});
  EXPECT_EQ(PlanText(sim_.PlanOf(step)), R"(#1@device = float32[]
0: %2@host = EnsureShape(%0!) 'g' drop %0
1: %3@host = VarHandleOp() 'm'
2: %4@host = VarHandleOp() 'v'
3: %5@device = ReadVariableOp(%3) 'r'
4: %6@device = ReadVariableOp(%4) 'o'
5: %7@device = copy(%2!) drop %2
6: %8@device %9@device = fused_store(%5! #1 %7! %6! %3 %4) 'w' drop %8 %9 %5 %7 %6
7: return
)");
  Give(4);
  const void* const where = sim_.AddressOf("m");
  ASSERT_OK(Run(step, VectorOf<float>({1, 2, 4})).status);
  EXPECT_EQ(ValueOf("m"), (std::vector<float>{3, 4, 6}));
  EXPECT_EQ(ValueOf("v"), (std::vector<float>{2.5, 2, 1}));
  // Kernels read an element before they write it; what computes may not.
  EXPECT_EQ(sim_.AddressOf("m") == where, GetParam());
}

// As Keras has it.
TEST_P(ElementGroupsTest, AStoreThatLooksAtAShapeThatIsKnownJoinsToo) {
  const std::string looking =
      absl::StrReplaceAll(kStep, {{"n) dtype=float", "n) dtype=float validate_shape=true"}});
  const Program& step = Make(looking, {}, {"a", "b"});
  EXPECT_THAT(PlanText(sim_.PlanOf(step)), Not(HasSubstr("AssignVariableOp(")));
  Give(4);
  ASSERT_OK(Run(step, VectorOf<float>({1, 2, 4})).status);
  EXPECT_EQ(ValueOf("m"), (std::vector<float>{3, 4, 6}));
  EXPECT_EQ(ValueOf("v"), (std::vector<float>{2.5, 2, 1}));
  const Program& unknown = Make(R"(
    h = Mul(x, rate) T=float
    a = AssignVariableOp(m, h) dtype=float validate_shape=true
  )",
                                {}, {"a"});
  EXPECT_THAT(PlanText(sim_.PlanOf(unknown)), HasSubstr("AssignVariableOp("));
}

TEST_P(ElementGroupsTest, NothingIsStoredAfterAFailure) {
  Give(4);
  const std::string fails =
      absl::StrCat("f = GatherV2(x, i, nought) Tparams=float Tindices=int64 Taxis=int64\n", kStep);
  const Program& step = Make(fails, {"f:0"}, {"a", "b"});
  ASSERT_OK(Run(step, VectorOf<float>({1, 2, 4}), 2).status);
  EXPECT_THAT(Run(step, VectorOf<float>({1, 2, 4}), 3).status,
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("node 'f'")));
  EXPECT_EQ(ValueOf("m"), (std::vector<float>{3, 4, 6}));
  EXPECT_EQ(ValueOf("v"), (std::vector<float>{2.5, 2, 1}));
}

// Its value is a result, too, so that the store is not in its place.
TEST_P(ElementGroupsTest, AValueThatOthersHoldIsLeftToThem) {
  Give(4);
  const std::string fails =
      absl::StrCat("f = GatherV2(x, i, nought) Tparams=float Tindices=int64 Taxis=int64\n", kStep);
  const Program& step = Make(fails, {"r:0", "f:0"}, {"a", "b"});
  const Outcome good = Run(step, VectorOf<float>({1, 2, 4}), 2);
  ASSERT_OK(good.status);
  EXPECT_EQ(ValuesOf<float>(good.results[0]), (std::vector<float>{4, 4, 4}));
  EXPECT_EQ(ValueOf("m"), (std::vector<float>{3, 4, 6}));
  EXPECT_THAT(Run(step, VectorOf<float>({1, 2, 4}), -1).status,
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("node 'f'")));
  EXPECT_EQ(ValueOf("m"), (std::vector<float>{3, 4, 6}));
}

TEST_P(ElementGroupsTest, AVariableGetsItsFirstValue) {
  const Program& first = Make(R"(
    h = Mul(g, rate) T=float
    n = AddV2(h, g) T=float
    a = AssignVariableOp(m, n) dtype=float
    b = AssignVariableOp(v, n) dtype=float
  )",
                              {"n:0"}, {"a", "b"});
  const Outcome outcome = Run(first, VectorOf<float>({2, 4, 6}));
  ASSERT_OK(outcome.status);
  EXPECT_EQ(ValuesOf<float>(outcome.results[0]), (std::vector<float>{3, 6, 9}));
  EXPECT_EQ(ValueOf("m"), (std::vector<float>{3, 6, 9}));
  EXPECT_EQ(ValueOf("v"), (std::vector<float>{3, 6, 9}));
  // Now both have one: the step's result is the memory of the first, and the second a copy.
  ASSERT_OK(Run(first, VectorOf<float>({4, 6, 8})).status);
  EXPECT_EQ(ValueOf("m"), (std::vector<float>{6, 9, 12}));
  EXPECT_EQ(ValueOf("v"), (std::vector<float>{6, 9, 12}));
}

TEST_P(ElementGroupsTest, AStoreThatDoesNotFitIsNamed) {
  Give(4);
  const Program& wrong = Make(R"(
    r = ReadVariableOp(m) dtype=float
    h = Mul(r, rate) T=float
    a = AssignVariableOp(m, h) dtype=float
    k = Mul(x, rate) T=float
    s = AddV2(k, x) T=float
    b = AssignVariableOp(v, s) dtype=float
    t = AddV2(k, h) T=float
  )",
                              {"t:0"}, {"a", "b"});
  EXPECT_THAT(PlanText(sim_.PlanOf(wrong)), HasSubstr("fused_store"));
  EXPECT_THAT(
      Run(wrong, Tensor::Scalar(1.0f)).status,
      StatusIs(StatusCode::kInvalidArgument,
               AllOf(HasSubstr("node 'b'"), HasSubstr("variable 'v'"), Not(HasSubstr("'t'")))));
  EXPECT_EQ(ValueOf("v"), (std::vector<float>{4, 4, 4}));
}

TEST_P(ElementGroupsTest, AVariableTakesOverWhatNobodyElseHolds) {
  const Program& product = Make(R"(
    k = Const float[3,3] 2 0 0 0 2 0 0 0 2
    row = Const int32[2] 1 3
    flat = Const int32[1] 3
    e = Reshape(x, row) T=float
    p = MatMul(e, k) T=float
    q = Reshape(p, flat) T=float
    a = AssignVariableOp(m, q) dtype=float
    b = AssignVariableOp(v, q) dtype=float
  )",
                                {}, {"a", "b"});
  Give(4);
  const void* const of_m = sim_.AddressOf("m");
  const void* const of_v = sim_.AddressOf("v");
  ASSERT_OK(Run(product, VectorOf<float>({1, 2, 3})).status);
  EXPECT_EQ(ValueOf("m"), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(ValueOf("v"), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(sim_.AddressOf("m"), of_m);  // A copy, for the value is still needed.
  EXPECT_NE(sim_.AddressOf("v"), of_v);
}

TEST_P(ElementGroupsTest, ResultsOfSeveralShapesAreOneStep) {
  const Program& program = Make(R"(
    one = Const float[2,1] 1 2
    t = Tanh(x) T=float
    s = AddV2(t, one) T=float
    e = Exp(s) T=float
    q = Neg(t) T=float
  )",
                                {"e:0", "q:0"});
  EXPECT_THAT(PlanText(sim_.PlanOf(program)), HasSubstr("= fused(%"));
  const Outcome outcome = Run(program, VectorOf<float>({0, 0, 0}));
  ASSERT_OK(outcome.status);
  EXPECT_EQ(outcome.results[0].shape(), Shape({2, 3}));
  EXPECT_EQ(outcome.results[1].shape(), Shape({3}));
  EXPECT_FLOAT_EQ(outcome.results[0].data<float>()[3], std::exp(2.0f));
}

TEST_P(ElementGroupsTest, AnErrorNamesTheNodeThatItIsOf) {
  const Program& program = Make(R"(
    two = Const float[2] 1 2
    t = Tanh(x) T=float
    s = AddV2(t, two) T=float
    e = Exp(s) T=float
  )",
                                {"e:0"});
  EXPECT_THAT(Run(program, VectorOf<float>({1, 2, 3})).status,
              StatusIs(StatusCode::kInvalidArgument, "node 's': Incompatible shapes: [3] vs. [2]"));
}

TEST_P(ElementGroupsTest, WhatTheHostDecidesByIsNotTheDevices) {
  const Program& program = Make(R"(
    t = Mul(i, i) T=int64
    s = AddV2(t, i) T=int64
    f = Cast(s) SrcT=int64 DstT=float
    e = Mul(f, x) T=float
  )",
                                {"s:0", "e:0"});
  EXPECT_THAT(PlanText(sim_.PlanOf(program)),
              AllOf(HasSubstr("@host = Mul("), HasSubstr("@host = AddV2("), HasSubstr("fused(")));
}

TEST_P(ElementGroupsTest, AReductionEndsTheGroupThatItReduces) {
  const Program& program = Make(R"(
    one = Const float[2,1] 1 2
    columns = Const int32[1] 0
    a = AddV2(g, one) T=float
    b = Mul(a, rate) T=float
    s = Sum(b, columns) T=float Tidx=int32 keep_dims=true
    e = Exp(s) T=float
    n = Neg(e) T=float
    all = Const int64[2] -1 0
    most = Max(n, all) T=float Tidx=int64
  )",
                                {"most:0"});
  EXPECT_EQ(PlanText(sim_.PlanOf(program)), R"(#3@device = float32[2,1]
#4@device = float32[]
0: %2@host = EnsureShape(%0!) 'g' drop %0
1: %3@device = copy(%2!) drop %2
2: %4@device = fused_reduce(%3! #3 #4) 's' drop %3
3: %5@device = fused_reduce(%4!) 'most' drop %4
4: return %5!
)");
  const Outcome outcome = Run(program, VectorOf<float>({1, 2, 3}));
  ASSERT_OK(outcome.status);
  EXPECT_EQ(outcome.results[0].shape(), Shape());
  EXPECT_FLOAT_EQ(outcome.results[0].scalar<float>(), -std::exp(2.5f));
}

// Its sums are of a shape that only the call knows.
TEST_P(ElementGroupsTest, WhatIsReducedMayHaveAnyShape) {
  const Program& program = Make(R"(
    two = Const float[3] 2 2 2
    last = Const int32[1] -1
    t = Mul(x, two) T=float
    d = Mean(t, last) T=float Tidx=int32 keep_dims=false
    few = LessEqual(x, two) T=float
    any = Any(few, last) Tidx=int32 keep_dims=true
  )",
                                {"d:0", "any:0"});
  EXPECT_THAT(PlanText(sim_.PlanOf(program)),
              AllOf(Not(HasSubstr("Mean(")), Not(HasSubstr("Any("))));
  const Outcome outcome = Run(program, TensorOf<float>(Shape({2, 3}), {1, 2, 3, 4, 5, 6}));
  ASSERT_OK(outcome.status);
  EXPECT_EQ(ValuesOf<float>(outcome.results[0]), (std::vector<float>{4, 10}));
  EXPECT_EQ(outcome.results[1].shape(), Shape({2, 1}));
  EXPECT_THAT(outcome.results[1].span<bool>(), ElementsAre(true, false));
  EXPECT_THAT(Run(program, TensorOf<float>(Shape({2, 2}), {1, 2, 3, 4})).status,
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("node 't': Incompatible shapes")));
}

TEST_P(ElementGroupsTest, AReductionsErrorNamesItsNode) {
  const Program& program = Make(R"(
    second = Const int32[1] 1
    t = Mul(x, rate) T=float
    d = Mean(t, second) T=float Tidx=int32
  )",
                                {"d:0"});
  EXPECT_THAT(PlanText(sim_.PlanOf(program)), HasSubstr("fused_reduce("));
  EXPECT_THAT(
      Run(program, VectorOf<float>({1, 2, 3})).status,
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("node 'd': Invalid reduction dimension")));
}

TEST_P(ElementGroupsTest, WhatOthersNeedIsMadeBeforeItIsReduced) {
  const Program& program = Make(R"(
    last = Const int32[1] -1
    t = Mul(x, rate) T=float
    u = AddV2(t, x) T=float
    s = Sum(u, last) T=float Tidx=int32
  )",
                                {"u:0", "s:0"});
  EXPECT_THAT(PlanText(sim_.PlanOf(program)), AllOf(HasSubstr("fused("), HasSubstr("Sum(")));
  const Outcome outcome = Run(program, VectorOf<float>({2, 4, 6}));
  ASSERT_OK(outcome.status);
  EXPECT_EQ(outcome.results[1].scalar<float>(), 18);
}

// Of what is in memory for others anyhow the rest is made again.
TEST_P(ElementGroupsTest, AReductionEndsWhatItAloneNeeds) {
  const Program& program = Make(R"(
    last = Const int32[1] -1
    t = Mul(x, rate) T=float
    w = Neg(t) T=float
    u = AddV2(t, x) T=float
    p = Mul(u, w) T=float
    s = Sum(p, last) T=float Tidx=int32
  )",
                                {"t:0", "w:0", "s:0"});
  EXPECT_EQ(PlanText(sim_.PlanOf(program)), R"(#2@device = float32[]
0: %2@device = copy(%0!) drop %0
1: %3@device %4@device = fused(%2 #2) 'w'
2: %5@device = fused_reduce(%3 %2! %4) 's' drop %2
3: return %3! %4! %5!
)");
  const Outcome outcome = Run(program, VectorOf<float>({2, 4, 6}));
  ASSERT_OK(outcome.status);
  EXPECT_EQ(outcome.results[2].scalar<float>(), -(3 * 1 + 6 * 2 + 9 * 3));
  // Not where a value would be written for that: z, which nobody else needs.
  const Program& written = Make(R"(
    last = Const int32[1] -1
    z = Exp(x) T=float
    t = Mul(z, rate) T=float
    u = AddV2(z, x) T=float
    s = Sum(u, last) T=float Tidx=int32
  )",
                                {"t:0", "s:0"});
  EXPECT_THAT(PlanText(sim_.PlanOf(written)), AllOf(HasSubstr("fused("), HasSubstr("Sum(")));
}

TEST_P(ElementGroupsTest, AxesOfTheCallLeaveAReductionAlone) {
  const Program& program = Make(R"(
    t = Mul(x, rate) T=float
    u = AddV2(t, x) T=float
    s = Sum(u, i) T=float Tidx=int64
  )",
                                {"s:0"});
  EXPECT_THAT(PlanText(sim_.PlanOf(program)), AllOf(HasSubstr("fused("), HasSubstr("Sum(")));
  const Outcome outcome = Run(program, VectorOf<float>({2, 4, 6}));
  ASSERT_OK(outcome.status);
  EXPECT_EQ(outcome.results[0].scalar<float>(), 18);
}

// A store of what is reduced, too, is of the group.
TEST_P(ElementGroupsTest, WhatIsStoredIsNotReducedInItsGroup) {
  const Program& program = Make(R"(
    last = Const int32[1] -1
    h = Mul(g, rate) T=float
    n = AddV2(h, g) T=float
    a = AssignVariableOp(m, n) dtype=float
    s = Sum(n, last) T=float Tidx=int32
  )",
                                {"s:0"}, {"a"});
  EXPECT_THAT(PlanText(sim_.PlanOf(program)), AllOf(HasSubstr("fused_store("), HasSubstr("Sum(")));
  Give(4);
  const Outcome outcome = Run(program, VectorOf<float>({2, 4, 6}));
  ASSERT_OK(outcome.status);
  EXPECT_EQ(outcome.results[0].scalar<float>(), 18);
  EXPECT_EQ(ValueOf("m"), (std::vector<float>{3, 6, 9}));
}

// Of which a result is made of another shape.
TEST_P(ElementGroupsTest, AReshapeDoesNotEndAGroupBeforeItsFirstReader) {
  const Program& program = Make(R"(
    column = Const int32[2] 3 1
    a = Neg(g) T=float
    r = Reshape(a, column) T=float Tshape=int32
    b = Mul(a, rate) T=float
    w = Reshape(x, column) T=float Tshape=int32
    e = Exp(b) T=float
  )",
                                {"r:0", "w:0", "e:0"});
  // Where it may fail it stays ahead of what comes behind it.
  EXPECT_EQ(PlanText(sim_.PlanOf(program)), R"(#1 = int32[2] 3 1
#2@device = float32[]
0: %2@host = EnsureShape(%0) 'g'
1: %3@host = Reshape(%0! #1) 'w' drop %0
2: %4@device = copy(%2!) drop %2
3: %5@device %6@device = fused(%4! #2) 'e' drop %4
4: %7@device = Reshape(%5! #1) 'r' drop %5
5: return %7! %3! %6!
)");
  const Outcome outcome = Run(program, VectorOf<float>({0, 0, 0}));
  ASSERT_OK(outcome.status);
  EXPECT_EQ(outcome.results[0].shape(), Shape({3, 1}));
  EXPECT_EQ(ValuesOf<float>(outcome.results[2]), (std::vector<float>{1, 1, 1}));
}

// What makes floats of halves is a part of each step that reads it.
TEST_P(ElementGroupsTest, AWideningCastIsEachReadersOwn) {
  const Program& program = Make(R"(
    last = Const int32[1] -1
    h = Cast(g) SrcT=float DstT=half
    w = Cast(h) SrcT=half DstT=float
    s = Mean(w, last) T=float Tidx=int32 keep_dims=true
    d = SquaredDifference(w, s) T=float
    e = Mean(d, last) T=float Tidx=int32 keep_dims=true
    f = Mul(w, e) T=float
  )",
                                {"s:0", "f:0"});
  EXPECT_EQ(PlanText(sim_.PlanOf(program)), R"(0: %2@host = EnsureShape(%0!) 'g' drop %0
1: %3@device = copy(%2!) drop %2
2: %4@device = Cast(%3!) 'h' drop %3
3: %5@device = fused_reduce(%4) 's'
4: %6@device = fused_reduce(%4 %5) 'e'
5: %7@device = fused(%4! %6!) 'f' drop %4 %6
6: return %5! %7!
)");
  const Outcome outcome = Run(program, VectorOf<float>({1, 2, 6}));
  ASSERT_OK(outcome.status);
  EXPECT_EQ(ValuesOf<float>(outcome.results[0]), (std::vector<float>{3}));
  EXPECT_FLOAT_EQ(ValuesOf<float>(outcome.results[1])[2], 6 * 14.f / 3);
}

TEST_P(ElementGroupsTest, AWideningCastThatOthersReadStaysForThem) {
  // A result is made of it, and what is of another shape reads it.
  const Program& program = Make(R"(
    last = Const int32[1] -1
    one = Const float[2,1] 1 2
    h = Cast(g) SrcT=float DstT=half
    w = Cast(h) SrcT=half DstT=float
    n = Neg(w) T=float
    b = Mul(w, one) T=float
    c = Sub(b, w) T=float
  )",
                                {"w:0", "n:0", "c:0"});
  const Outcome outcome = Run(program, VectorOf<float>({1, 2, 4}));
  ASSERT_OK(outcome.status);
  EXPECT_EQ(ValuesOf<float>(outcome.results[0]), (std::vector<float>{1, 2, 4}));
  EXPECT_EQ(ValuesOf<float>(outcome.results[1]), (std::vector<float>{-1, -2, -4}));
  EXPECT_EQ(ValuesOf<float>(outcome.results[2]), (std::vector<float>{0, 0, 0, 1, 2, 4}));
}

INSTANTIATE_TEST_SUITE_P(Devices, ElementGroupsTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Enqueues" : "Computes"; });

}  // namespace
}  // namespace formwork::testing
