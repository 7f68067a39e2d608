// What plans for a device keep in host memory, and what single calls of them do.

#include "absl/strings/str_cat.h"
#include "tests/streams/stream_world.h"
#include "tests/support/kernel_runner.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class DevicePlanTest : public ::testing::Test {
 protected:
  void Make(const std::string& text, const Programs::Feeds& feeds,
            const std::vector<std::string>& fetches, const std::vector<std::string>& targets = {}) {
    ASSERT_OK_AND_ASSIGN(program_, programs_.Make(text, feeds, fetches, targets));
  }
  std::string Text() { return PlanText(sim_.PlanOf(program_)); }
  Outcome Run(std::vector<Tensor> inputs) {
    Outcome outcome = std::move(sim_.Run({{&program_, std::move(inputs)}})[0]);
    sim_.device().RunAll();
    EXPECT_THAT(sim_.device().Reports(), IsEmpty());
    return outcome;
  }

  Programs programs_;
  SimWorld sim_{programs_, 1, 2};
  Program program_;
};

TEST_F(DevicePlanTest, ShapeArithmeticStaysOnTheHost) {
  Make(R"(
    x = Placeholder dtype=float
    s = Shape(x) T=float
    two = Const int32[] 2
    d = Mul(s, two) T=int32
    t = Tile(x, d) T=float
    y = Tanh(t) T=float
  )",
       {{"x:0", DType::kFloat}}, {"y:0", "d:0"});
  EXPECT_EQ(Text(), R"(#0 = int32[] 2
0: %1@host = Shape(%0) 's'
1: %2@host = Mul(%1! #0) 'd' drop %1
2: %3@device = copy(%0!) drop %0
3: %4@device = Tile(%3! %2) 't' drop %3
4: %5@device = Tanh(%4!) 'y' drop %4
5: return %5! %2!
)");
}

TEST_F(DevicePlanTest, ElementsUnderAnotherShapeStayWhereTheyAre) {
  Make(R"(
    x = Placeholder dtype=float
    sizes = Const int32[2] 2 -1
    nought = Const int32[] 0
    h = Tanh(x) T=float
    r = Reshape(h, sizes) T=float Tshape=int32
    e = ExpandDims(r, nought) T=float Tdim=int32
    q = Squeeze(e) T=float
    n = EnsureShape(q) T=float shape=shape:[2,?]
    b = Bitcast(n) T=float type=int32
    f = Bitcast(b) T=int32 type=float
    y = Exp(f) T=float
  )",
       {{"x:0", DType::kFloat}}, {"y:0", "b:0"});
  EXPECT_EQ(Text(), R"(#0 = int32[2] 2 -1
#1 = int32[] 0
0: %1@device = copy(%0!) drop %0
1: %2@device = Tanh(%1!) 'h' drop %1
2: %3@device = Reshape(%2! #0) 'r' drop %2
3: %4@device = ExpandDims(%3! #1) 'e' drop %3
4: %5@device = Squeeze(%4!) 'q' drop %4
5: %6@device = EnsureShape(%5!) 'n' drop %5
6: %7@device = Bitcast(%6!) 'b' drop %6
7: %8@device = Bitcast(%7) 'f'
8: %9@device = Exp(%8!) 'y' drop %8
9: return %9! %7!
)");
  Outcome outcome = Run(Owned(VectorOf<float>({0, 0, 0, 0})));
  ASSERT_OK(outcome.status);
  EXPECT_EQ(ValuesOf<float>(outcome.results[0]), (std::vector<float>{1, 1, 1, 1}));
  EXPECT_EQ(outcome.results[0].shape(), Shape({2, 2}));
  EXPECT_EQ(ValuesOf<int32_t>(outcome.results[1]), (std::vector<int32_t>{0, 0, 0, 0}));
}

TEST_F(DevicePlanTest, APredicateOfTheDeviceIsCopiedToTheHost) {
  Make(R"(
    x = Placeholder dtype=float
    nought = Const float[] 0
    p = Greater(x, nought) T=float
    y = StatelessIf(p, x) Tcond=bool Tin=[float] Tout=[float] then_branch=@same else_branch=@turned
    function same(t: float) -> (r: float = e:y:0)
      e = Exp(t) T=float
    end
    function turned(t: float) -> (r: float = n:y:0)
      n = Neg(t) T=float
    end
  )",
       {{"x:0", DType::kFloat}}, {"y:0"});
  EXPECT_EQ(Text(), R"(#1@device = float32[]
0: %1@device = copy(%0)
1: %2@device = Greater(%1! #1) 'p' drop %1
2: %3@host = copy(%2!) drop %2
3: branch %3! -> 4, 8 'y' drop %3
4: %5@device = copy(%0!) drop %0
5: %6@device = Exp(%5!) 'y/then/e' drop %5
6: %4@device = %6!
7: jump 11
8: %7@device = copy(%0!) drop %0
9: %8@device = Neg(%7!) 'y/else/n' drop %7
10: %4@device = %8!
11: return %4!
)");
  EXPECT_EQ(Run(Owned(Tensor::Scalar(-2.0f))).results[0].scalar<float>(), 2);
}

constexpr char kTanhs[] = R"(
  n = Placeholder dtype=int32
  x = Placeholder dtype=float
  zero = Const int32[] 0
  w = StatelessWhile(zero, x, n) cond=@cond body=@body T=[int32,float,int32]
  function cond(k: int32, t: float, n: int32) -> (go: bool = l:z:0)
    l = Less(k, n) T=int32
  end
  function body(k: int32, t: float, n: int32) -> (j: int32 = next:z:0, q: float = h:y:0, m: int32 = n)
    one = Const int32[] 1
    next = AddV2(k, one:output:0) T=int32
    h = Tanh(t) T=float
  end
  )";

TEST_F(DevicePlanTest, ALoopCountsOnTheHost) {
  Make(kTanhs, {{"n:0", DType::kInt32}, {"x:0", DType::kFloat}}, {"w:1"});
  EXPECT_EQ(Text(), R"(#0 = int32[] 0
#1 = int32[] 1
0: %2@device = copy(%1!) drop %1
1: %3@host %4@device = #0 %2!
2: jump 6
3: %5@host = AddV2(%3! #1) 'w/body/next' drop %3
4: %6@device = Tanh(%4!) 'w/body/h' drop %4
5: %3@host %4@device = %5! %6!
6: %7@host = Less(%3 %0) 'w/cond/l'
7: loop %7! -> 3, 8 drop %0 %3 'w' drop %7
8: return %4!
)");
}

TEST_F(DevicePlanTest, TheHostRunsAheadOfTheDeviceWithinABound) {
  Make(kTanhs, {{"n:0", DType::kInt32}, {"x:0", DType::kFloat}}, {"w:1"});
  ASSERT_OK(Run(Owned(Tensor::Scalar(10000), Tensor::Scalar(0.5f))).status);
  EXPECT_GE(sim_.host_waits(), 10);  // Once for each 512 steps, unless they had run by then.
}

TEST_F(DevicePlanTest, FoldingAndStepsOfTheHostUseItsKernels) {
  Make(R"(
    x = Placeholder dtype=float
    a = Const float[2] 1 2
    b = Mul(a, a) T=float
    s = Shape(x) T=float
    d = Mul(s, s) T=int32
    y = AddV2(x, b) T=float
  )",
       {{"x:0", DType::kFloat}}, {"y:0", "d:0"});
  GraphWorld world;
  KernelRegistry of_device(world.ops);  // Without Mul.
  of_device.Add("AddV2", world.kernels.Find("AddV2"));
  const std::unique_ptr<Stream> stream = sim_.device().NewStream().value();
  ASSERT_OK_AND_ASSIGN(
      const std::shared_ptr<const Plan> plan,
      MakePlan(*program_.graph, {PartialShape()},
               {world.ops, world.kernels, programs_.allocator(),
                PlannerContext::Target{sim_.device().allocator(), *stream, of_device}}));
  EXPECT_EQ(PlanText(*plan), R"(#1@device = float32[2]
0: %1@host = Shape(%0) 's'
1: %2@host = Mul(%1 %1) 'd' drop %1
2: %3@device = copy(%0!) drop %0
3: %4@device = AddV2(%3! #1) 'y' drop %3
4: return %4! %2!
)");
}

// A plan of the program for a device with the kernels of some ops alone.
class FewKernelsTest : public DevicePlanTest {
 protected:
  void MakeFor(const std::vector<std::string>& ops) {
    for (const std::string& op : ops) kernels_.Add(op, world_.kernels.Find(op));
    sim_.set_kernels(kernels_);
  }
  std::vector<std::string> Fallbacks() {
    std::vector<std::string> names;
    for (const Plan::Fallback& fallback : sim_.PlanOf(program_).fallbacks) {
      names.push_back(absl::StrCat(fallback.op->name, " ", fallback.node));
    }
    return names;
  }

  GraphWorld world_;
  KernelRegistry kernels_{world_.ops};
};

TEST_F(FewKernelsTest, TheHostRunsWhatTheDeviceHasNoKernelFor) {
  Make(R"(
    x = Placeholder dtype=float
    h = Tanh(x) T=float
    s = Softplus(h) T=float
    e = Exp(s) T=float
  )",
       {{"x:0", DType::kFloat}}, {"e:0"});
  MakeFor({"Tanh", "Exp"});
  EXPECT_EQ(Text(), R"(0: %1@device = copy(%0!) drop %0
1: %2@device = Tanh(%1!) 'h' drop %1
2: %3@host = copy(%2!) drop %2
3: %4@host = Softplus(%3!) 's' drop %3
4: %5@device = copy(%4!) drop %4
5: %6@device = Exp(%5!) 'e' drop %5
6: return %6!
)");
  EXPECT_THAT(Fallbacks(), ElementsAre("Softplus s"));
  Outcome outcome = Run(Owned(Tensor::Scalar(0.0f)));
  ASSERT_OK(outcome.status);
  EXPECT_FLOAT_EQ(outcome.results[0].scalar<float>(), 2);
}

TEST_F(FewKernelsTest, AVariableIsBroughtToTheHostAndBack) {
  Make(R"(
    x = Placeholder dtype=float
    v = VarHandleOp dtype=float shape=shape:[2] shared_name="v"
    a = AssignVariableOp(v, x) dtype=float
    b = AssignAddVariableOp(v, x, ^a) dtype=float
    y = ReadVariableOp(v, ^b) dtype=float
  )",
       {{"x:0", DType::kFloat}}, {"y:0"}, {"a", "b"});
  MakeFor({"ReadVariableOp", "AssignVariableOp"});
  EXPECT_THAT(Fallbacks(), ElementsAre("AssignAddVariableOp b"));
  Outcome outcome = Run(Owned(VectorOf<float>({1, 2})));
  ASSERT_OK(outcome.status);
  EXPECT_EQ(ValuesOf<float>(outcome.results[0]), (std::vector<float>{2, 4}));
}

TEST_F(FewKernelsTest, AVariableIsNotWrittenAfterAFailure) {
  Make(R"(
    x = Placeholder dtype=float
    i = Placeholder dtype=int32
    v = VarHandleOp dtype=float shape=shape:[2] shared_name="v"
    a = AssignVariableOp(v, x) dtype=float
    axis = Const int32[] 0
    g = GatherV2(x, i, axis, ^a) Tparams=float Tindices=int32 Taxis=int32
    b = AssignAddVariableOp(v, x, ^a) dtype=float
    y = ReadVariableOp(v, ^b) dtype=float
  )",
       {{"x:0", DType::kFloat}, {"i:0", DType::kInt32}}, {"y:0", "g:0"}, {"a", "b"});
  MakeFor({"ReadVariableOp", "AssignVariableOp", "GatherV2"});
  EXPECT_THAT(Run(Owned(VectorOf<float>({1, 2}), VectorOf<int32_t>({2, 0}))).status,
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("node 'g'")));
  Make(R"(
    v = VarHandleOp dtype=float shape=shape:[2] shared_name="v"
    y = ReadVariableOp(v) dtype=float
  )",
       {}, {"y:0"});
  Outcome after = Run({});
  ASSERT_OK(after.status);
  EXPECT_EQ(ValuesOf<float>(after.results[0]), (std::vector<float>{1, 2}));
}

TEST_F(DevicePlanTest, ANodeRunsOnTheHostWhereItsDeviceFieldSaysSo) {
  Make(R"(
    x = Placeholder dtype=float
    h = Tanh(x) T=float device="/job:localhost/replica:0/task:0/device:CPU:0"
    e = Exp(h) T=float device="/device:GPU:7"
  )",
       {{"x:0", DType::kFloat}}, {"e:0"});
  EXPECT_EQ(Text(), R"(0: %1@host = Tanh(%0!) 'h' drop %0
1: %2@device = copy(%1!) drop %1
2: %3@device = Exp(%2!) 'e' drop %2
3: return %3!
)");
  EXPECT_THAT(sim_.PlanOf(program_).fallbacks, IsEmpty());
  EXPECT_THAT(program_.graph->devices,
              ElementsAre("/device:GPU:7", "/job:localhost/replica:0/task:0/device:CPU:0"));
}

TEST_F(DevicePlanTest, ErrorsOfWorkNameTheCallsThatItIsIn) {
  constexpr char kText[] = R"(
    x = Placeholder dtype=float
    i = Placeholder dtype=int32
    c = PartitionedCall(x, i) Tin=[float,int32] Tout=[float] f=@outer
    y = Tanh(c) T=float
    function outer(t: float, i: int32) -> (r: float = c:output:0)
      c = PartitionedCall(t, i) Tin=[float,int32] Tout=[float] f=@inner
    end
    function inner(t: float, i: int32) -> (r: float = g:output:0)
      axis = Const int32[] 0
      g = GatherV2(t, i, axis:output:0) Tparams=float Tindices=int32 Taxis=int32
    end
  )";
  ASSERT_OK_AND_ASSIGN(
      program_, programs_.Make(kText, {{"x:0", DType::kFloat}, {"i:0", DType::kInt32}}, {"y:0"}, {},
                               /*inlined=*/0));
  EXPECT_THAT(Text(), HasSubstr("function 0 'inner'"));
  EXPECT_THAT(Run(Owned(VectorOf<float>({1, 2}), VectorOf<int32_t>({2}))).status,
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("node 'c': node 'c': node 'g': indices[0] = 2")));
  Outcome good = Run(Owned(VectorOf<float>({1, 0}), VectorOf<int32_t>({1})));
  ASSERT_OK(good.status);
  EXPECT_EQ(ValuesOf<float>(good.results[0]), (std::vector<float>{0}));
}

TEST_F(DevicePlanTest, WhatOthersSeeRunsOnTheHost) {
  Make(R"(
    x = Placeholder dtype=float
    h = Tanh(x) T=float
    s = AsString(h) T=float
    p = PrintV2(s)
  )",
       {{"x:0", DType::kFloat}}, {"h:0"}, {"p"});
  EXPECT_EQ(Text(), R"(0: %1@device = copy(%0!) drop %0
1: %2@device = Tanh(%1!) 'h' drop %1
2: %3@host = copy(%2)
3: %4@host = AsString(%3!) 's' drop %3
4: PrintV2(%4!) 'p' drop %4
5: return %2!
)");
}

// Variables: what is stored is read back, in the order of the calls.
constexpr char kCount[] = R"(
  x = Placeholder dtype=float
  v = VarHandleOp dtype=float shape=shape:? shared_name="v"
  r = AssignAddVariableOp(v, x) dtype=float
  y = ReadVariableOp(v, ^r) dtype=float
)";

TEST_F(DevicePlanTest, AFailedCallLeavesWhatItHadNotReached) {
  Make(R"(
    x = Placeholder dtype=float
    i = Placeholder dtype=int32
    v = VarHandleOp dtype=float shape=shape:[2] shared_name="v"
    a = AssignVariableOp(v, x) dtype=float
    axis = Const int32[] 0
    g = GatherV2(x, i, axis, ^a) Tparams=float Tindices=int32 Taxis=int32
    b = AssignAddVariableOp(v, g) dtype=float
    y = ReadVariableOp(v, ^b) dtype=float
  )",
       {{"x:0", DType::kFloat}, {"i:0", DType::kInt32}}, {"y:0"}, {"a", "b"});
  Outcome good = Run(Owned(VectorOf<float>({1, 2}), VectorOf<int32_t>({1, 0})));
  ASSERT_OK(good.status);
  EXPECT_EQ(ValuesOf<float>(good.results[0]), (std::vector<float>{3, 3}));
  Outcome bad = Run(Owned(VectorOf<float>({5, 6}), VectorOf<int32_t>({1, 2})));
  EXPECT_THAT(bad.status, StatusIs(StatusCode::kInvalidArgument, HasSubstr("node 'g'")));
  // What came before the failure is there, what comes after is not.
  Make(kCount, {{"x:0", DType::kFloat}}, {"y:0"}, {"r"});
  Outcome after = Run(Owned(VectorOf<float>({0, 0})));
  ASSERT_OK(after.status);
  EXPECT_EQ(ValuesOf<float>(after.results[0]), (std::vector<float>{5, 6}));
}

TEST_F(DevicePlanTest, AVariableWithoutValueIsNamed) {
  Make(kCount, {{"x:0", DType::kFloat}}, {"y:0"}, {"r"});
  EXPECT_THAT(Run(Owned(Tensor::Scalar(1.0f))).status,
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("node 'r'"), HasSubstr("variable v"))));
}

TEST_F(DevicePlanTest, WhatIsFusedIntoAStepIsReadOnTheDevice) {
  Make(R"(
    x = Placeholder dtype=float
    v = VarHandleOp dtype=float shape=shape:[3,3,4,4] shared_name="v"
    b = VarHandleOp dtype=float shape=shape:[4] shared_name="b"
    dims = Const int32[4] 1 8 8 4
    i = Fill(dims, x) T=float index_type=int32
    f = ReadVariableOp(v) dtype=float
    r = ReadVariableOp(b) dtype=float
    c = Conv2D(i, f) T=float strides=[1,1,1,1] padding="VALID"
    y = BiasAdd(c, r) T=float
  )",
       {{"x:0", DType::kFloat}}, {"y:0"});
  EXPECT_THAT(Text(), AllOf(ContainsRegex(R"(Conv2D\(%[0-9]+! %[0-9]+! %[0-9]+!\))"),
                            Not(HasSubstr("@host = copy"))));
}

// So that what is kept from call to call is the scaled filter.
TEST_F(DevicePlanTest, ABatchNormalisationScalesTheFilter) {
  Make(R"(
    x = Placeholder dtype=float
    v = VarHandleOp dtype=float shape=shape:[3,3,4,4] shared_name="v"
    b = VarHandleOp dtype=float shape=shape:[4] shared_name="b"
    dims = Const int32[4] 1 8 8 4
    i = Fill(dims, x) T=float index_type=int32
    f = ReadVariableOp(v) dtype=float
    s = ReadVariableOp(b) dtype=float
    c = Conv2D(i, f) T=float strides=[1,1,1,1] padding="VALID"
    m = Mul(c, s) T=float
    y = BiasAdd(m, s) T=float
  )",
       {{"x:0", DType::kFloat}}, {"y:0"});
  EXPECT_THAT(Text(), AllOf(ContainsRegex(R"(@device = Mul\(%[0-9]+! %[0-9]+\) 'y')"),
                            ContainsRegex(R"(Conv2D\(%[0-9]+! %[0-9]+! %[0-9]+!\) 'c')")));
}

// On the CPU a convolution keeps a filter that comes again and again, in a form of its own.
TEST_F(DevicePlanTest, KernelsKeepNothingThatIsOnTheDevice) {
  Make(R"(
    x = Placeholder dtype=float
    v = VarHandleOp dtype=float shape=shape:[3,3,16,16] shared_name="v"
    dims = Const int32[4] 3 3 16 16
    f = Fill(dims, x) T=float index_type=int32
    a = AssignVariableOp(v, f) dtype=float
  )",
       {{"x:0", DType::kFloat}}, {}, {"a"});
  const Program assign = program_;
  Make(R"(
    x = Placeholder dtype=float
    v = VarHandleOp dtype=float shape=shape:[3,3,16,16] shared_name="v"
    dims = Const int32[4] 1 8 8 16
    i = Fill(dims, x) T=float index_type=int32
    f = ReadVariableOp(v) dtype=float
    c = Conv2D(i, f) T=float strides=[1,1,1,1] padding="VALID"
    all = Const int32[4] 0 1 2 3
    y = Max(c, all) T=float Tidx=int32
  )",
       {{"x:0", DType::kFloat}}, {"y:0"});
  const Program convolve = program_;
  for (float value : {1.0f, 2.0f}) {
    std::vector<Request> requests = {{&assign, Owned(Tensor::Scalar(value))}};
    for (int i = 0; i < 6; ++i) requests.push_back({&convolve, Owned(Tensor::Scalar(1.0f))});
    const std::vector<Outcome> outcomes = sim_.Run(requests);
    for (size_t i = 1; i < outcomes.size(); ++i) {
      ASSERT_OK(outcomes[i].status);
      EXPECT_EQ(outcomes[i].results[0].scalar<float>(), 144 * value);
    }
  }
}

TEST_F(DevicePlanTest, ALostDeviceEndsTheCall) {
  Make(R"(
    x = Placeholder dtype=float
    y = Tanh(x) T=float
  )",
       {{"x:0", DType::kFloat}}, {"y:0"});
  sim_.PlanOf(program_);
  sim_.device().Lose();
  EXPECT_THAT(Run(Owned(Tensor::Scalar(1.0f))).status, StatusIs(StatusCode::kUnavailable));
}

}  // namespace
}  // namespace formwork::testing
