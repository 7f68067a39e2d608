// Loops, branches and steps that compute scalars alone, as plans run them in registers. What comes
// of parameters whose shapes are not known is left to kernels: that is what they are compared with.

#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/unit/plan_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const PartialShape kScalar{Shape()};

std::string BytesOf(const Tensor& tensor) {
  return absl::StrCat(DTypeName(tensor.dtype()), tensor.shape().ToString(), ":",
                      absl::string_view(static_cast<const char*>(tensor.raw()), tensor.bytes()));
}

class ScalarsTest : public PlanFixture {
 protected:
  void MakeOfScalars(absl::string_view text, Feeds feeds, std::vector<std::string> fetches) {
    text_ = std::string(text);
    feeds_ = feeds;
    fetches_ = fetches;
    Make(text, std::move(feeds), std::move(fetches), kScalar);
  }
  // Runs the plan of registers and that of kernels, which have to give the same bits, or fail in
  // the same way.
  absl::StatusOr<std::vector<Tensor>> RunBoth(const std::vector<Tensor>& inputs) {
    absl::StatusOr<std::vector<Tensor>> ours = Run(inputs);
    const auto plan = plan_;
    Make(text_, feeds_, fetches_);
    absl::StatusOr<std::vector<Tensor>> kernels = Run(inputs);
    plan_ = plan;
    frame_ = std::make_unique<PlanFrame>(*plan_);
    EXPECT_EQ(ours.status(), kernels.status());
    if (ours.ok() && kernels.ok()) {
      for (size_t i = 0; i < ours->size(); ++i) {
        EXPECT_EQ(BytesOf((*ours)[i]), BytesOf((*kernels)[i])) << i;
      }
    }
    return ours;
  }

 private:
  std::string text_;
  Feeds feeds_;
  std::vector<std::string> fetches_;
};

constexpr char kSum[] = R"(
  n = Placeholder dtype=int32
  zero = Const int32[] 0
  start = Const float[] 0
  w = StatelessWhile(zero, start, n) cond=@cond body=@body T=[int32,float,int32]
  function cond(i: int32, x: float, n: int32) -> (go: bool = l:z:0)
    l = Less(i, n) T=int32
  end
  function body(i: int32, x: float, n: int32) -> (j: int32 = next:z:0, y: float = s:z:0, m: int32 = n)
    one = Const int32[] 1
    step = Const float[] 1
    next = AddV2(i, one:output:0) T=int32
    s = AddV2(x, step:output:0) T=float
  end
)";

// What an iteration makes of a variable is computed where the variable is.
TEST_F(ScalarsTest, ALoopIsOneInstruction) {
  MakeOfScalars(kSum, {{"n:0", DType::kInt32}}, {"w:1"});
  EXPECT_EQ(Text(),
            "#0 = int32[] 0\n#1 = float32[] 0\n#2 = int32[] 1\n#3 = float32[] 1\n"
            "0: %1 = scalar(#0 #1 %0! #2 #3) 'w' drop %0\n"
            "   (r0 r1 r2 r5 r6) -> (r4)\n"
            "   0: r3 = r0\n"
            "   1: r4 = r1\n"
            "   2: jump 5\n"
            "   3: r3 = AddV2(r3 r5) 'w/body/next'\n"
            "   4: r4 = AddV2(r4 r6) 'w/body/s'\n"
            "   5: r9 = Less(r3 r2) 'w/cond/l'\n"
            "   6: loop r9 -> 3 'w'\n"
            "1: return %1!\n");
  for (int n : {0, 1, 10, 1000}) EXPECT_EQ(RunFloat(Owned(Tensor::Scalar(n))), n);
  EXPECT_TRUE(plan_->open_ended);
}

TEST_F(ScalarsTest, ALoopLeavesItsThreadBetweenIterations) {
  MakeOfScalars(kSum, {{"n:0", DType::kInt32}}, {"w:1"});
  others_wait_ = true;
  EXPECT_EQ(RunFloat(Owned(Tensor::Scalar(100'000))), 100'000);
  EXPECT_GT(slices_, 2);
  others_wait_ = false;
  EXPECT_EQ(RunFloat(Owned(Tensor::Scalar(1000))), 1000);
  EXPECT_EQ(slices_, 1);
}

TEST_F(ScalarsTest, AStopEndsALoop) {
  const std::string endless = absl::StrReplaceAll(kSum, {{"Less(i, n)", "LessEqual(i, n)"}});
  MakeOfScalars(endless, {{"n:0", DType::kInt32}}, {"w:1"});
  std::thread canceller([this] {
    absl::SleepFor(absl::Milliseconds(20));
    stop_.Cancel();
  });
  EXPECT_THAT(Run(Owned(Tensor::Scalar(std::numeric_limits<int32_t>::max()))),
              StatusIs(StatusCode::kCancelled));
  canceller.join();
  EXPECT_EQ(failed_, 0);
}

// All variables move at once, whichever of them the others become.
TEST_F(ScalarsTest, ALoopsVariablesMayChangePlaces) {
  MakeOfScalars(R"(
    n = Placeholder dtype=int32
    x = Placeholder dtype=float
    y = Placeholder dtype=float
    f = StatelessWhile(n, x, y, x, y, x) cond=@cond body=@body T=[int32,float,float,float,float,float]
    function cond(i: int32, a: float, b: float, c: float, d: float, e: float) -> (go: bool = l:z:0)
      k = Const int32[] 0
      l = Greater(i, k:output:0) T=int32
    end
    function body(i: int32, a: float, b: float, c: float, d: float, e: float) -> (j: int32 = next:z:0, p: float = b, q: float = s:z:0, r: float = s:z:0, t: float = c, u: float = v:z:0)
      k = Const int32[] 1
      next = Sub(i, k:output:0) T=int32
      s = AddV2(a, b) T=float
      v = Mul(s:z:0, e) T=float
    end
  )",
                {{"n:0", DType::kInt32}, {"x:0", DType::kFloat}, {"y:0", DType::kFloat}},
                {"f:1", "f:2", "f:3", "f:4", "f:5"});
  EXPECT_THAT(Text(), HasSubstr("scalar("));
  for (int n = 0; n < 6; ++n) {
    EXPECT_OK(RunBoth({Tensor::Scalar(n), Tensor::Scalar(2.5f), Tensor::Scalar(-3.25f)}).status());
  }
}

constexpr char kCollatz[] = R"(
  n = Placeholder dtype=int64
  m = Placeholder dtype=int64
  zero = Const int64[] 0
  w = StatelessWhile(zero, zero, n, m) cond=@cond body=@body T=[int64,int64,int64,int64]
  function cond(i: int64, steps: int64, n: int64, m: int64) -> (go: bool = l:z:0)
    l = Less(i, n) T=int64
  end
  function body(i: int64, steps: int64, n: int64, m: int64) -> (j: int64 = next:z:0, s: int64 = sum:z:0, k: int64 = n, o: int64 = m)
    one = Const int64[] 1
    next = AddV2(i, one:output:0) T=int64
    w = StatelessWhile(next:z:0, steps) cond=@above body=@step T=[int64,int64]
    r = FloorMod(w:output:1, m) T=int64
    sum = AddV2(w:output:1, r:z:0) T=int64
  end
  function above(x: int64, steps: int64) -> (go: bool = l:z:0)
    one = Const int64[] 1
    l = Greater(x, one:output:0) T=int64
  end
  function step(x: int64, steps: int64) -> (y: int64 = b:output:0, s: int64 = sum:z:0)
    one = Const int64[] 1
    two = Const int64[] 2
    zero = Const int64[] 0
    odd = FloorMod(x, two:output:0) T=int64
    even = Equal(odd:z:0, zero:output:0) T=int64
    b = StatelessIf(even:z:0, x) then_branch=@half else_branch=@triple Tcond=bool Tin=[int64] Tout=[int64]
    sum = AddV2(steps, one:output:0) T=int64
  end
  function half(x: int64) -> (y: int64 = h:z:0)
    two = Const int64[] 2
    h = FloorDiv(x, two:output:0) T=int64
  end
  function triple(x: int64) -> (y: int64 = a:z:0)
    one = Const int64[] 1
    three = Const int64[] 3
    t = Mul(x, three:output:0) T=int64
    a = AddV2(t:z:0, one:output:0) T=int64
  end
)";

TEST_F(ScalarsTest, LoopsAndBranchesNest) {
  MakeOfScalars(kCollatz, {{"n:0", DType::kInt64}, {"m:0", DType::kInt64}}, {"w:0", "w:1"});
  EXPECT_EQ(plan_->code.size(), 2u) << Text();
  for (int64_t n : {0, 1, 2, 30}) {
    EXPECT_OK(RunBoth({Tensor::Scalar(n), Tensor::Scalar(int64_t{7})}).status());
  }
}

TEST_F(ScalarsTest, WhatAnOpRefusesIsToldByItsOwnNode) {
  MakeOfScalars(kCollatz, {{"n:0", DType::kInt64}, {"m:0", DType::kInt64}}, {"w:1"});
  EXPECT_THAT(RunBoth({Tensor::Scalar(int64_t{3}), Tensor::Scalar(int64_t{0})}),
              StatusIs(StatusCode::kInvalidArgument, "node 'w/body/r': Integer division by zero"));
}

// In a loop of ten iterations, so that nothing is folded.
constexpr char kOp[] = R"(
  x = Placeholder dtype=TYPE
  zero = Const int32[] 0
  w = StatelessWhile(zero, x, x) cond=@cond body=@body T=[int32,TYPE,TYPE]
  function cond(i: int32, a: TYPE, b: TYPE) -> (go: bool = l:z:0)
    n = Const int32[] 10
    l = Less(i, n:output:0) T=int32
  end
  function body(i: int32, a: TYPE, b: TYPE) -> (j: int32 = next:z:0, c: TYPE = d:z:0, e: TYPE = f:y:0)
    one = Const int32[] 1
    next = AddV2(i, one:output:0) T=int32
    d = BINARY(a, b) T=TYPE
    f = UNARY(b) T=TYPE
  end
)";

TEST_F(ScalarsTest, OpsGiveTheBitsOfTheirKernels) {
  const auto check = [this](absl::string_view type, absl::string_view binary,
                            absl::string_view unary, const std::vector<Tensor>& values) {
    SCOPED_TRACE(absl::StrCat(type, " ", binary, " ", unary));
    MakeOfScalars(absl::StrReplaceAll(kOp, {{"TYPE", type}, {"BINARY", binary}, {"UNARY", unary}}),
                  {{"x:0", values[0].dtype()}}, {"w:1", "w:2"});
    EXPECT_EQ(plan_->code.size(), 2u) << Text();
    for (const Tensor& value : values) (void)RunBoth({value});
  };
  const std::vector<Tensor> floats = {Tensor::Scalar(0.3f), Tensor::Scalar(-2e9f),
                                      Tensor::Scalar(NAN), Tensor::Scalar(-0.0f)};
  const std::vector<Tensor> doubles = {Tensor::Scalar(0.3), Tensor::Scalar(-1e300)};
  const std::vector<Tensor> halves = {Tensor::Scalar(half(0.3f)), Tensor::Scalar(half(-700.0f))};
  for (absl::string_view unary : {"Exp", "Tanh", "Sin", "Log1p", "Rsqrt", "Lgamma", "Neg"}) {
    check("float", "Pow", unary, floats);
    check("double", "SquaredDifference", unary, doubles);
    check("half", "RealDiv", unary, halves);
  }
  const std::vector<Tensor> ints = {Tensor::Scalar(7), Tensor::Scalar(-3),
                                    Tensor::Scalar(std::numeric_limits<int32_t>::min()),
                                    Tensor::Scalar(0)};
  const std::vector<Tensor> bytes = {Tensor::Scalar(uint8_t{200}), Tensor::Scalar(uint8_t{0})};
  for (absl::string_view binary : {"Mul", "FloorDiv", "FloorMod", "TruncateDiv"}) {
    check("int32", binary, "Square", ints);
    check("uint8", binary, "Square", bytes);
  }
  check("int32", "Pow", "Sign", ints);
  check("complex64", "Mul", "Exp", {Tensor::Scalar(std::complex<float>(0.5f, -2))});
}

constexpr char kPair[] = R"(
  x = Placeholder dtype=TYPE
  y = Placeholder dtype=TYPE
  zero = Const int32[] 0
  start = OP(y, x) T=TYPE
  w = StatelessWhile(zero, x, y, start) cond=@cond body=@body T=[int32,TYPE,TYPE,RESULT]
  function cond(i: int32, a: TYPE, b: TYPE, r: RESULT) -> (go: bool = l:z:0)
    n = Const int32[] 2
    l = Less(i, n:output:0) T=int32
  end
  function body(i: int32, a: TYPE, b: TYPE, r: RESULT) -> (j: int32 = next:z:0, c: TYPE = b, d: TYPE = a, s: RESULT = t:z:0)
    one = Const int32[] 1
    next = AddV2(i, one:output:0) T=int32
    t = OP(a, b) T=TYPE
  end
)";

// Those that have instructions of their own, for each pair of values.
template <typename T>
std::vector<Tensor> Extremes() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {T(0), T(1), T(-1), T(2), T(-7), Limits::max(), Limits::lowest()};
  if constexpr (Limits::has_infinity) {
    for (T more : {T(-0.0), Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                   Limits::denorm_min(), Limits::min(), T(0.3)}) {
      values.push_back(more);
    }
  }
  std::vector<Tensor> tensors;
  for (T value : values) tensors.push_back(Tensor::Scalar(value));
  return tensors;
}

TEST_F(ScalarsTest, CommonOpsGiveTheBitsOfTheirKernels) {
  const auto check = [this](absl::string_view op, bool compares,
                            const std::vector<Tensor>& values) {
    const absl::string_view type = DTypeName(values[0].dtype());
    SCOPED_TRACE(absl::StrCat(op, " ", type));
    const std::string text = absl::StrReplaceAll(
        kPair, {{"TYPE", type}, {"RESULT", compares ? "bool" : type}, {"OP", op}});
    for (const Tensor& x : values) {
      for (const Tensor& y : values) {
        MakeOfScalars(text, {{"x:0", x.dtype()}, {"y:0", x.dtype()}}, {"w:3"});
        EXPECT_EQ(plan_->code.size(), 2u) << Text();
        (void)RunBoth({x, y});
      }
    }
  };
  const auto check_all = [&check](absl::string_view op, bool compares) {
    check(op, compares, Extremes<int32_t>());
    check(op, compares, Extremes<int64_t>());
    check(op, compares, Extremes<float>());
    check(op, compares, Extremes<double>());
  };
  for (absl::string_view op : {"AddV2", "Sub", "Mul"}) check_all(op, false);
  for (absl::string_view op :
       {"Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual"}) {
    check_all(op, true);
  }
}

// Values of more than a register are left to kernels.
TEST_F(ScalarsTest, WideValuesAreLeftToKernels) {
  MakeOfScalars(
      absl::StrReplaceAll(kOp, {{"TYPE", "complex128"}, {"BINARY", "Mul"}, {"UNARY", "Neg"}}),
      {{"x:0", DType::kComplex128}}, {"w:1", "w:2"});
  EXPECT_THAT(Text(), AllOf(HasSubstr("= Mul("), HasSubstr("loop %")));
  ASSERT_OK_AND_ASSIGN(std::vector<Tensor> outputs,
                       Run({Tensor::Scalar(std::complex<double>(0, 1))}));
  EXPECT_EQ(outputs[1].scalar<std::complex<double>>(), std::complex<double>(0, 1));
}

// Beside tensors, a loop's counter and condition are computed in registers.
TEST_F(ScalarsTest, TheStepsOfScalarsBetweenOthersAreOneInstruction) {
  MakeOfScalars(R"(
    n = Placeholder dtype=int32
    x = Placeholder dtype=float
    zero = Const int32[] 0
    two = Const int32[] 2
    v = Fill(two, x) T=float index_type=int32
    w = StatelessWhile(zero, n, v) cond=@cond body=@body T=[int32,int32,float]
    function cond(i: int32, n: int32, v: float) -> (go: bool = both:z:0)
      most = Const int32[] 100
      l = Less(i, n) T=int32
      m = Less(i, most:output:0) T=int32
      both = LogicalAnd(l:z:0, m:z:0)
    end
    function body(i: int32, n: int32, v: float) -> (j: int32 = next:z:0, m: int32 = n, u: float = c:output:0)
      one = Const int32[] 1
      next = AddV2(i, one:output:0) T=int32
      k = Mul(next:z:0, next:z:0) T=int32
      f = Cast(k:z:0) SrcT=int32 DstT=float
      s = Pack(f:y:0) N=1 T=float axis=0
      axis = Const int32[] 0
      c = ConcatV2(v, s:output:0, axis:output:0) N=2 T=float Tidx=int32
    end
  )",
                {{"n:0", DType::kInt32}, {"x:0", DType::kFloat}}, {"w:2"});
  EXPECT_THAT(Text(), AllOf(HasSubstr("= Cast(r"), HasSubstr("= LogicalAnd(r"),
                            Not(HasSubstr("= Mul(%")), HasSubstr("= Pack(%")));
  EXPECT_OK(RunBoth({Tensor::Scalar(5), Tensor::Scalar(0.5f)}).status());
}

// What may fail stays where it is among effects.
TEST_F(ScalarsTest, EffectsKeepTheirPlaces) {
  MakeOfScalars(R"(
    a = Placeholder dtype=int32
    b = Placeholder dtype=int32
    yes = Const bool[] true
    first = Assert(yes, a) T=[int32]
    q = FloorDiv(a, b, ^first) T=int32
    second = Assert(yes, b, ^q) T=[int32]
    y = AddV2(q, a, ^second) T=int32
  )",
                {{"a:0", DType::kInt32}, {"b:0", DType::kInt32}}, {"y:0"});
  const std::string text = Text();
  EXPECT_LT(text.find("'first'"), text.find("'q'")) << text;
  EXPECT_LT(text.find("'q'"), text.find("'second'")) << text;
}

// What a graph says of its shapes need not hold.
TEST_F(ScalarsTest, AShapeThatIsNotAsSaidEndsTheCall) {
  MakeOfScalars(R"(
    c = Placeholder dtype=bool
    z = StatelessIf(c) then_branch=@t else_branch=@e Tcond=bool Tin=[] Tout=[float] output_shapes=[shape:[]]
    y = Neg(z) T=float
    function t() -> (r: float = u:y:0)
      p = PlaceholderWithDefault(k:output:0) dtype=float shape=shape:?
      k = Const float[2] 1 2
      u = Unique(p:output:0) T=float out_idx=int32
    end
    function e() -> (r: float = k:output:0)
      k = Const float[] 1
    end
  )",
                {{"c:0", DType::kBool}}, {"y:0"});
  EXPECT_EQ(RunFloat(Owned(Tensor::Scalar(false))), -1);
  EXPECT_THAT(Run(Owned(Tensor::Scalar(true))),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("node 'y': a value is not")));
}

TEST(ScalarProgramTest, ReadsScalarsAlone) {
  ScalarProgram program;
  program.inputs = {{0, DType::kFloat, 4}};
  ScalarProgram::Register registers[1];
  const auto read = [&](const Tensor& tensor) {
    const InputRef ref{&tensor, false};
    return program.Read({&ref, 1}, registers);
  };
  EXPECT_OK(read(Tensor::Scalar(2.5f)));
  float value;
  std::memcpy(&value, registers[0].bytes, sizeof(value));
  EXPECT_EQ(value, 2.5f);
  EXPECT_THAT(read(VectorOf<float>({1})),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("dtype=float32 shape=[1]")));
  EXPECT_THAT(read(Tensor::Scalar(1)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("dtype=int32 shape=[]")));
}

}  // namespace
}  // namespace formwork::testing
