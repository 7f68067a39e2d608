// Branches, loops and calls as plans run them.

#include <unistd.h>

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/status.h"
#include "core/ops/control_flow.h"
#include "tests/unit/plan_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(SelectorTest, ConditionsAreTakenAsTensorFlowTakesThem) {
  EXPECT_TRUE(*IsTrue(Tensor::Scalar(true)));
  EXPECT_FALSE(*IsTrue(Tensor::Scalar(false)));
  EXPECT_TRUE(*IsTrue(Tensor::Scalar(3)));
  EXPECT_FALSE(*IsTrue(Tensor::Scalar(0)));
  EXPECT_FALSE(*IsTrue(Tensor::Scalar(0.0f)));
  EXPECT_TRUE(*IsTrue(Tensor::Scalar(1e-300)));
  EXPECT_TRUE(*IsTrue(Tensor::Scalar(NAN)));
  EXPECT_FALSE(*IsTrue(Tensor::StringScalar("")));
  EXPECT_TRUE(*IsTrue(Tensor::StringScalar("x")));
  EXPECT_TRUE(*IsTrue(VectorOf<int32_t>({0})));
  EXPECT_FALSE(*IsTrue(VectorOf<int32_t>({})));
  EXPECT_TRUE(*IsTrue(TensorOf<bool>(Shape({1, 1}), {false})));
  EXPECT_THAT(IsTrue(Tensor::Scalar(ResourceHandle{1})), StatusIs(StatusCode::kInvalidArgument));
}

TEST(SelectorTest, AnIndexOutOfRangeTakesTheLastBranch) {
  const size_t expected[] = {2, 0, 1, 2, 2};
  for (int i = -1; i < 4; ++i) {
    EXPECT_EQ(*ChooseBranch(ControlFlow::kCase, Tensor::Scalar(i), 3), expected[i + 1]) << i;
  }
  EXPECT_THAT(ChooseBranch(ControlFlow::kCase, VectorOf<int32_t>({0}), 3),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("must be a scalar")));
  EXPECT_EQ(*ChooseBranch(ControlFlow::kIf, Tensor::Scalar(true), 2), 0u);
}

class ControlFlowTest : public PlanFixture {};

constexpr char kBranches[] = R"(
  c = Placeholder dtype=bool
  x = Placeholder dtype=float
  y = Placeholder dtype=float
  z = StatelessIf(c, x, y) then_branch=@t else_branch=@e Tcond=bool Tin=[float,float] Tout=[float]
  function t(a: float, b: float) -> (r: float = s:product:0)
    s = MatMul(a, b) T=float
  end
  function e(a: float, b: float) -> (r: float = a)
  end
)";

// What one branch reads, the other drops before it begins; the input that it passes on is moved.
TEST_F(ControlFlowTest, ABranchReadsItsInputsWhereTheyAre) {
  Make(kBranches, {{"c:0", DType::kBool}, {"x:0", DType::kFloat}, {"y:0", DType::kFloat}}, {"z:0"});
  EXPECT_EQ(Text(),
            "0: branch %0! -> 1, 4 drop %2 'z' drop %0\n"
            "1: %4 = MatMul(%1! %2!) 'z/then/s' drop %1 %2\n"
            "2: %3 = %4!\n"
            "3: jump 5\n"
            "4: %3 = %1!\n"
            "5: return %3!\n");
  const auto matrix = [](float value) {
    return TensorOf<float>(Shape({4, 4}), std::vector<float>(16, value));
  };
  for (bool condition : {true, false, true}) {
    ASSERT_OK_AND_ASSIGN(std::vector<Tensor> outputs,
                         Run(Owned(Tensor::Scalar(condition), matrix(2), matrix(3))));
    EXPECT_THAT(outputs[0].span<float>(), Each(condition ? 24.0f : 2.0f));
    EXPECT_EQ(Held(), 0);
  }
}

TEST_F(ControlFlowTest, ABranchThatIsKnownTakesThePlaceOfTheWhole) {
  std::string text = kBranches;
  text.replace(text.find("Placeholder dtype=bool"), 22, "Const bool[] true");
  Make(text, {{"x:0", DType::kFloat}, {"y:0", DType::kFloat}}, {"z:0"});
  EXPECT_EQ(Text(),
            "0: %2 = MatMul(%0! %1!) 'z/then/s' drop %0 %1\n"
            "1: return %2!\n");
}

TEST_F(ControlFlowTest, TheIndexChoosesTheBranch) {
  Make(R"(
    i = Placeholder dtype=int32
    x = Placeholder dtype=float
    z = StatelessCase(i, x) branches=[@a, @b, @c] Tin=[float] Tout=[float]
    function a(x: float) -> (r: float = n:y:0)
      n = Neg(x) T=float
    end
    function b(x: float) -> (r: float = n:y:0)
      n = Square(x) T=float
    end
    function c(x: float) -> (r: float = one:output:0)
      one = Const float[] 1
    end
  )",
       {{"i:0", DType::kInt32}, {"x:0", DType::kFloat}}, {"z:0"});
  const float expected[] = {1, -3, 9, 1, 1};
  for (int i = -1; i < 4; ++i) {
    EXPECT_EQ(RunFloat(Owned(Tensor::Scalar(i), Tensor::Scalar(3.0f))), expected[i + 1]) << i;
  }
  EXPECT_THAT(Run(Owned(VectorOf<int32_t>({0}), Tensor::Scalar(3.0f))),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("node 'z': branch_index must be")));
}

// Both variables move at once: b is needed for a although it changes.
constexpr char kFibonacci[] = R"(
  n = Placeholder dtype=int32
  zero = Const int32[] 0
  one = Const float[] 1
  f = StatelessWhile(zero, one, one, n) cond=@cond body=@body T=[int32,float,float,int32]
  function cond(i: int32, a: float, b: float, n: int32) -> (go: bool = l:z:0)
    l = Less(i, n) T=int32
  end
  function body(i: int32, a: float, b: float, n: int32) -> (j: int32 = next:z:0, c: float = b, d: float = s:z:0, m: int32 = n)
    k = Const int32[] 1
    next = AddV2(i, k:output:0) T=int32
    s = AddV2(a, b) T=float
  end
)";

TEST_F(ControlFlowTest, WhatALoopPassesOnIsReadWhereItIs) {
  Make(kFibonacci, {{"n:0", DType::kInt32}}, {"f:1", "f:3"});
  ASSERT_OK_AND_ASSIGN(std::vector<Tensor> outputs, Run(Owned(Tensor::Scalar(10))));
  EXPECT_EQ(outputs[0].scalar<float>(), 89);
  EXPECT_EQ(outputs[1].scalar<int32_t>(), 10);
  // n is no variable of the loop.
  EXPECT_THAT(Text(), AllOf(HasSubstr("Less(%1 %0) 'f/cond/l'"), HasSubstr("return %2! %0!")));
  ASSERT_OK_AND_ASSIGN(outputs, Run(Owned(Tensor::Scalar(0))));
  EXPECT_EQ(outputs[0].scalar<float>(), 1);
}

TEST_F(ControlFlowTest, ALoopsVariablesMayChangePlaces) {
  Make(R"(
    n = Placeholder dtype=int32
    x = Placeholder dtype=float
    y = Placeholder dtype=float
    z = Placeholder dtype=float
    f = StatelessWhile(n, x, y, z) cond=@cond body=@body T=[int32,float,float,float]
    function cond(i: int32, a: float, b: float, c: float) -> (go: bool = l:z:0)
      k = Const int32[] 0
      l = Greater(i, k:output:0) T=int32
    end
    function body(i: int32, a: float, b: float, c: float) -> (j: int32 = next:z:0, d: float = c, e: float = a, f: float = b)
      k = Const int32[] 1
      next = Sub(i, k:output:0) T=int32
    end
  )",
       {{"n:0", DType::kInt32},
        {"x:0", DType::kFloat},
        {"y:0", DType::kFloat},
        {"z:0", DType::kFloat}},
       {"f:1", "f:2", "f:3"});
  for (int n = 0; n < 5; ++n) {
    ASSERT_OK_AND_ASSIGN(std::vector<Tensor> outputs,
                         Run(Owned(Tensor::Scalar(n), VectorOf<float>(std::vector<float>(64, 0)),
                                   VectorOf<float>(std::vector<float>(64, 1)),
                                   VectorOf<float>(std::vector<float>(64, 2)))));
    for (int k = 0; k < 3; ++k) {
      EXPECT_THAT(outputs[k].span<float>(), Each(static_cast<float>((k - n % 3 + 3) % 3))) << n;
    }
    EXPECT_EQ(Held(), 0);
  }
}

// A branch in a loop in a branch; each path leaves nothing behind, whatever it does not need.
TEST_F(ControlFlowTest, NestsLeaveNothingBehind) {
  Make(R"(
    c = Placeholder dtype=bool
    n = Placeholder dtype=int32
    x = Placeholder dtype=float
    big = Neg(x) T=float
    z = StatelessIf(c, n, x, big) then_branch=@t else_branch=@e Tcond=bool Tin=[int32,float,float] Tout=[float]
    function t(n: int32, x: float, big: float) -> (r: float = w:output:2)
      zero = Const int32[] 0
      w = StatelessWhile(zero:output:0, n, x, big) cond=@cond body=@body T=[int32,int32,float,float]
    end
    function e(n: int32, x: float, big: float) -> (r: float = x)
    end
    function cond(i: int32, n: int32, x: float, big: float) -> (go: bool = l:z:0)
      l = Less(i, n) T=int32
    end
    function body(i: int32, n: int32, x: float, big: float) -> (j: int32 = next:z:0, m: int32 = n, y: float = b:output:0, same: float = big)
      one = Const int32[] 1
      two = Const int32[] 2
      next = AddV2(i, one:output:0) T=int32
      odd = FloorMod(i, two:output:0) T=int32
      b = StatelessIf(odd:z:0, x, big) then_branch=@odd else_branch=@even Tcond=int32 Tin=[float,float] Tout=[float]
    end
    function odd(x: float, big: float) -> (r: float = s:z:0)
      s = AddV2(x, big) T=float
    end
    function even(x: float, big: float) -> (r: float = s:z:0)
      k = Const float[] 10
      s = Mul(x, k:output:0) T=float
    end
  )",
       {{"c:0", DType::kBool}, {"n:0", DType::kInt32}, {"x:0", DType::kFloat}}, {"z:0"});
  const auto ones = [] { return VectorOf<float>(std::vector<float>(100, 1)); };
  const float expected[] = {1, 10, 9, 90, 89};
  for (int n = 0; n < 5; ++n) {
    ASSERT_OK_AND_ASSIGN(std::vector<Tensor> outputs,
                         Run(Owned(Tensor::Scalar(true), Tensor::Scalar(n), ones())));
    EXPECT_THAT(outputs[0].span<float>(), Each(expected[n])) << Text();
    EXPECT_EQ(Held(), 0) << Text();
  }
  ASSERT_OK_AND_ASSIGN(std::vector<Tensor> outputs,
                       Run(Owned(Tensor::Scalar(false), Tensor::Scalar(1), ones())));
  EXPECT_THAT(outputs[0].span<float>(), Each(1.0f));
  EXPECT_EQ(Held(), 0);
}

constexpr char kGrows[] = R"(
  x = Placeholder dtype=float
  zero = Const int32[] 0
  w = StatelessWhile(zero, x) cond=@cond body=@body T=[int32,float]
  s = Shape(w:1) T=float
  function cond(i: int32, x: float) -> (go: bool = l:z:0)
    three = Const int32[] 3
    l = Less(i, three:output:0) T=int32
  end
  function body(i: int32, x: float) -> (j: int32 = next:z:0, y: float = c:output:0)
    one = Const int32[] 1
    next = AddV2(i, one:output:0) T=int32
    axis = Const int32[] 0
    c = ConcatV2(x, x, axis:output:0) N=2 T=float Tidx=int32
  end
)";

// The shape that a loop begins with is not that of all its iterations.
TEST_F(ControlFlowTest, AShapeThatChangesInALoopIsNotTakenForKnown) {
  ASSERT_OK_AND_ASSIGN(ImportedGraph imported,
                       world_.Import(kGrows, {{"x:0", DType::kFloat}}, {"s:0", "w:1"}));
  ASSERT_OK_AND_ASSIGN(plan_, MakePlan(imported, {PartialShape(Shape({2, 5}))},
                                       {world_.ops, world_.kernels, world_.allocator}));
  frame_ = std::make_unique<PlanFrame>(*plan_);
  EXPECT_EQ(plan_->result_shapes[1].ToString(), "[?,5]");
  ASSERT_OK_AND_ASSIGN(std::vector<Tensor> outputs,
                       Run(Owned(TensorOf<float>(Shape({2, 5}), std::vector<float>(10, 1)))));
  EXPECT_EQ(outputs[0].data<int32_t>()[0], 16);
  EXPECT_EQ(outputs[1].shape().ToString(), "[16,5]");
}

TEST_F(ControlFlowTest, FailureAndCancellationEndALoop) {
  constexpr char kFails[] = R"(
    x = Placeholder dtype=float
    zero = Const int32[] 0
    w = While(zero, x) cond=@cond body=@body T=[int32,float]
    function cond(i: int32, x: float) -> (go: bool = t:output:0)
      t = Const bool[] true
    end
    function body(i: int32, x: float) -> (j: int32 = next:z:0, y: float = c:y:0)
      one = Const int32[] 1
      next = AddV2(i, one:output:0) T=int32
      c = OP(x) T=float
    end
  )";
  std::string text = kFails;
  text.replace(text.find("OP(x) T=float"), 13, "CheckNumerics(x) T=float message=\"bad\"");
  text.replace(text.find("c:y:0"), 5, "c:output:0");
  Make(text, {{"x:0", DType::kFloat}}, {"w:1"});
  EXPECT_THAT(Run(Owned(VectorOf<float>({1, NAN}))),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("node 'w/body/c'")));
  EXPECT_EQ(Held(), 0);
  EXPECT_GE(failed_, 0);
  text = kFails;
  text.replace(text.find("OP"), 2, "Neg");
  Make(text, {{"x:0", DType::kFloat}}, {"w:1"});
  stop_.Cancel();
  EXPECT_THAT(Run(Owned(VectorOf<float>(std::vector<float>(100, 1)))),
              StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(Held(), 0);
}

// Calls that nest deeper than what is put in place keep frames of their own.
TEST_F(ControlFlowTest, DeepCallsRunInFramesOfTheirOwn) {
  constexpr int kDepth = 100;
  std::string text = R"(
    x = Placeholder dtype=float
    y = PartitionedCall(x) f=@f0 Tin=[float] Tout=[float]
  )";
  for (int i = 0; i < kDepth; ++i) {
    absl::StrAppend(&text, "function f", i, "(x: float) -> (r: float = b:output:0)\n",
                    "  one = Const float[] 1\n  a = AddV2(x, one:output:0) T=float\n");
    if (i + 1 < kDepth) {
      absl::StrAppend(&text, "  c = PartitionedCall(a:z:0) f=@f", i + 1,
                      " Tin=[float] Tout=[float]\n"
                      "  b = PartitionedCall(c:output:0) f=@last Tin=[float] Tout=[float]\nend\n");
    } else {
      absl::StrAppend(&text,
                      "  b = PartitionedCall(a:z:0) f=@last Tin=[float] Tout=[float]\nend\n");
    }
  }
  absl::StrAppend(&text,
                  "function last(x: float) -> (r: float = e:output:0)\n"
                  "  e = CheckNumerics(x) T=float message=\"deep\"\nend\n");
  Make(text, {{"x:0", DType::kFloat}}, {"y:0"});
  EXPECT_THAT(Text(), HasSubstr("= call 0("));
  EXPECT_EQ(RunFloat(Owned(Tensor::Scalar(1.0f))), kDepth + 1);
  EXPECT_THAT(
      Run(Owned(Tensor::Scalar(NAN))),
      StatusIs(StatusCode::kInvalidArgument, AllOf(HasSubstr("': node '"), HasSubstr("deep"))));
  EXPECT_EQ(failed_ >= 0 && plan_->code[failed_].code == Plan::Code::kCall, true);
  EXPECT_EQ(RunFloat(Owned(Tensor::Scalar(1.0f))), kDepth + 1);
}

// A function that is not put in place has a plan for each of the shapes that it is called with, as
// long as those are few.
TEST_F(ControlFlowTest, CalledFunctionsKnowTheShapesTheyAreGiven) {
  budget_.inlined = 0;
  const auto program = [](int calls) {
    std::string text = "x = Placeholder dtype=float\n zero = Const int32[] 0\n";
    std::string sum = "x";
    for (int i = 0; i < calls; ++i) {
      absl::StrAppend(&text, "grown", i, " = ConcatV2(", sum, ", x, zero) N=2 T=float\n");
      absl::StrAppend(&text, "again", i, " = PartitionedCall(grown", i,
                      ") f=@f Tin=[float] Tout=[float]\n",  //
                      "call", i, " = PartitionedCall(grown", i,
                      ") f=@f Tin=[float] Tout=[float]\n");
      sum = absl::StrCat("grown", i);
    }
    absl::StrAppend(&text, "y = Pack(call0");
    for (int i = 1; i < calls; ++i) absl::StrAppend(&text, ", call", i);
    return absl::StrCat(text, ") N=", calls, R"( T=float
      function f(x: float) -> (r: float = f:y:0)
        n = Size(x) T=float
        f = Cast(n:output:0) SrcT=int32 DstT=float
      end
    )");
  };
  for (int calls : {3, 6}) {
    Make(program(calls), {{"x:0", DType::kFloat}}, {"y:0"}, PartialShape(Shape({2})));
    ASSERT_EQ(plan_->functions.size(), static_cast<size_t>(std::min(calls, 5)));
    for (size_t i = 0; i < plan_->functions.size(); ++i) {
      const std::string text = PlanText(*plan_->functions[i]);
      EXPECT_EQ(absl::StrContains(text, "Size("), i == 4) << text;
    }
    ASSERT_OK_AND_ASSIGN(std::vector<Tensor> sizes, Run(Owned(VectorOf<float>({1, 2}))));
    std::vector<float> expected;
    for (int i = 0; i < calls; ++i) expected.push_back(2.0f * static_cast<float>(i + 2));
    EXPECT_EQ(ValuesOf<float>(sizes[0]), expected);
  }
}

// A branch whose outputs nobody needs runs for its effects alone.
TEST_F(ControlFlowTest, WhatHasNoEffectIsNotRunForItself) {
  Make(R"(
    c = Placeholder dtype=bool
    x = Placeholder dtype=float
    unused = If(c, x) then_branch=@f else_branch=@f Tcond=bool Tin=[float] Tout=[float]
    y = Neg(x) T=float
    function f(v: float) -> (r: float = m:product:0)
      m = MatMul(v, v) T=float
    end
  )",
       {{"c:0", DType::kBool}, {"x:0", DType::kFloat}}, {"y:0"});
  EXPECT_THAT(Text(), Not(HasSubstr("branch")));
  EXPECT_EQ(RunFloat(Owned(Tensor::Scalar(true), Tensor::Scalar(2.0f))), -2);
}

constexpr char kLoadsInBodies[] = R"(
  v = Placeholder dtype=resource
  c = Placeholder dtype=bool
  x = Placeholder dtype=float
  zero = Const int32[] 0
  a = ReadVariableOp(v) dtype=float
  z = If(c, v, x, ^a) then_branch=@t else_branch=@e Tcond=bool Tin=[resource,float] Tout=[float]
  w = While(zero, v, z) cond=@cond body=@body T=[int32,resource,float]
  y = MatMul(a, w:2) T=float
  function t(h: resource, b: float) -> (r: float = m:product:0)
    l = ReadVariableOp(h) dtype=float
    m = MatMul(l:value:0, b) T=float
  end
  function e(h: resource, b: float) -> (r: float = b)
  end
  function cond(i: int32, h: resource, b: float) -> (go: bool = l:z:0)
    n = Const int32[] 3
    l = Less(i, n:output:0) T=int32
  end
  function body(i: int32, h: resource, b: float) -> (j: int32 = next:z:0, g: resource = h, d: float = inner:output:0)
    one = Const int32[] 1
    next = AddV2(i, one:output:0) T=int32
    yes = Greater(i, one:output:0) T=int32
    inner = If(yes:z:0, h, b) then_branch=@t else_branch=@e Tcond=bool Tin=[resource,float] Tout=[float]
    CHANGE
  end
)";

int Count(const std::string& text, const std::string& what) {
  int count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST_F(ControlFlowTest, WhatIsKnownOfAVariableIsKnownInBodies) {
  const Feeds feeds = {{"v:0", DType::kResource}, {"c:0", DType::kBool}, {"x:0", DType::kFloat}};
  Make(absl::StrReplaceAll(kLoadsInBodies, {{"CHANGE", ""}}), feeds, {"y:0"});
  EXPECT_EQ(Count(Text(), "ReadVariableOp("), 1) << Text();
  EXPECT_EQ(plan_->arg_access[0], Access::kRead);
  // An iteration may find what the one before it has stored.
  Make(absl::StrReplaceAll(kLoadsInBodies,
                           {{"CHANGE", "s = AssignAddVariableOp(h, b, ^inner) dtype=float"}}),
       feeds, {"y:0"});
  EXPECT_EQ(Count(Text(), "ReadVariableOp("), 2) << Text();
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
