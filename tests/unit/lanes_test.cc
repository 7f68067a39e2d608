// Parts of a graph that run side by side: what becomes a lane, and that runs are as without.

#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/unit/plan_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// A product of such is worth a lane.
const PartialShape kSquare{Shape({128, 128})};

Tensor Square(float value) {
  Tensor tensor = VectorOf<float>(std::vector<float>(128 * 128, value));
  return tensor.Reshaped(Shape({128, 128}));
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

class LanesTest : public PlanFixture {
 protected:
  // With lanes; `shapes`: what is known of each of the feeds.
  void MakeWithLanes(absl::string_view text, Feeds feeds, std::vector<std::string> fetches,
                     const std::vector<PartialShape>& shapes,
                     std::vector<std::string> targets = {}) {
    ASSERT_OK_AND_ASSIGN(
        const ImportedGraph imported,
        world_.Import(text, std::move(feeds), std::move(fetches), std::move(targets)));
    PlannerContext context{world_.ops, world_.kernels, world_.allocator};
    context.lanes = true;
    ASSERT_OK_AND_ASSIGN(plan_, MakePlan(imported, shapes, context));
    frame_ = std::make_unique<PlanFrame>(*plan_);
  }
  // Runs the plan with lanes and the one without, which have to give the same.
  absl::StatusOr<std::vector<Tensor>> RunBoth(absl::string_view text, Feeds feeds,
                                              std::vector<std::string> fetches,
                                              const std::vector<Tensor>& inputs,
                                              const PartialShape& shape = kSquare) {
    lanes_ = false;
    Make(text, feeds, fetches, shape);
    EXPECT_THAT(Text(), Not(HasSubstr("fork")));
    const absl::StatusOr<std::vector<Tensor>> expected = Run(inputs);
    lanes_ = true;
    Make(text, std::move(feeds), std::move(fetches), shape);
    absl::StatusOr<std::vector<Tensor>> outputs = Run(inputs);
    EXPECT_EQ(outputs.status(), expected.status());
    if (!outputs.ok() || !expected.ok()) return outputs;
    for (size_t i = 0; i < outputs->size(); ++i) {
      EXPECT_TRUE(SameBits((*outputs)[i], (*expected)[i])) << i;
    }
    EXPECT_EQ(Held(), 0);
    for (const std::unique_ptr<PlanFrame>& frame : frame_->functions) {
      for (const Tensor& slot : frame->slots) EXPECT_FALSE(slot.buffer());
    }
    return outputs;
  }
};

// What both need is done before them, what is after them by neither.
constexpr char kTwoProducts[] = R"(
  x = Placeholder dtype=float
  s = Tanh(x) T=float
  p = MatMul(s, s) T=float
  q = MatMul(p, s) T=float
  r = MatMul(s, x) T=float
  y = Sub(q, r) T=float
)";

TEST_F(LanesTest, InputsThatAreWorkOfTheirOwnAreLanes) {
  EXPECT_OK(RunBoth(kTwoProducts, {{"x:0", DType::kFloat}}, {"y:0"}, {Square(0.01f)}).status());
  EXPECT_EQ(Text(),
            R"(0: %1 = Tanh(%0) 's'
1: %2 %3 = fork 0 1(%1 %1 %0!) 'y' drop %1 %0
2: %4 = Sub(%2! %3!) 'y' drop %2 %3
3: return %4!

function 0 'lane 'q''
0: %1 = MatMul(%0 %0) 'p'
1: %2 = MatMul(%1! %0!) 'q' drop %1 %0
2: return %2!

function 1 'lane 'r''
0: %2 = MatMul(%0! %1!) 'r' drop %0 %1
1: return %2!
)");
}

TEST_F(LanesTest, SmallOrUnequalWorkIsNotForked) {
  lanes_ = true;
  Make(kTwoProducts, {{"x:0", DType::kFloat}}, {"y:0"}, PartialShape(Shape({8, 8})));
  EXPECT_THAT(Text(), Not(HasSubstr("fork")));
  std::string text = R"(
    x = Placeholder dtype=float
    p0 = MatMul(x, x) T=float
    b = MatMul(x, x) transpose_a=true T=float
  )";
  for (int i = 0; i < 20; ++i)
    absl::StrAppend(&text, "p", i + 1, " = MatMul(p", i, ", x) T=float\n");
  absl::StrAppend(&text, "y = Sub(p20, b) T=float\n");
  Make(text, {{"x:0", DType::kFloat}}, {"y:0"}, kSquare);
  EXPECT_THAT(Text(), Not(HasSubstr("fork")));
}

TEST_F(LanesTest, ResultsAreJoinedTooAndConstantsGoWithLanes) {
  std::string values;
  for (int i = 0; i < 128 * 128; ++i) absl::StrAppend(&values, " ", i % 7);
  const std::string text =
      absl::StrCat("x = Placeholder dtype=float\nw = Const float[128,128]", values,
                   R"(
    p = MatMul(x, w) T=float
    q = MatMul(w, x) T=float
    r = Relu(q) T=float
  )");
  EXPECT_OK(RunBoth(text, {{"x:0", DType::kFloat}}, {"p:0", "r:0"}, {Square(0.5f)}).status());
  EXPECT_THAT(Text(), HasSubstr("fork 0 1(%0 %0)"));
  EXPECT_TRUE(plan_->constants.empty());
}

TEST_F(LanesTest, NothingMovesOverAnEffect) {
  lanes_ = true;
  Make(R"(
    x = Placeholder dtype=float
    s = Const string[] "printed"
    p = MatMul(x, x) T=float
    print = PrintV2(s)
    q = MatMul(x, p, ^print) T=float
    r = MatMul(p, x, ^print) transpose_b=true T=float
    y = Sub(q, r) T=float
  )",
       {{"x:0", DType::kFloat}}, {"y:0"}, kSquare);
  EXPECT_THAT(Text(), ContainsRegex("MatMul[^\n]*'p'\n[^\n]*PrintV2[^\n]*\n[^\n]*fork"));
  Make(R"(
    x = Placeholder dtype=float
    s = Const string[] "printed"
    q = MatMul(x, x) T=float
    print = PrintV2(s, ^q)
    r = MatMul(x, x, ^print) transpose_b=true T=float
    y = Sub(q, r) T=float
  )",
       {{"x:0", DType::kFloat}}, {"y:0"}, kSquare);
  EXPECT_THAT(Text(), Not(HasSubstr("fork")));
}

TEST_F(LanesTest, RandomNumbersStayInOrder) {
  lanes_ = true;
  Make(R"(
    x = Placeholder dtype=float
    s = Const int32[2] 128 128
    a = RandomUniform(s) dtype=float T=int32 seed=1
    b = RandomUniform(s) dtype=float T=int32 seed=2
    p = MatMul(x, a) T=float
    q = MatMul(x, b) T=float
    y = Sub(p, q) T=float
  )",
       {{"x:0", DType::kFloat}}, {"y:0"}, kSquare);
  EXPECT_THAT(Text(), HasSubstr("RandomUniform(#0) 'a'"));
  EXPECT_THAT(Text(), HasSubstr("fork"));
}

constexpr char kLoopsThatRead[] = R"(
  v = Placeholder dtype=resource
  x = Placeholder dtype=float
  zero = Const int32[] 0
  a = While(zero, x, v) cond=@cond body=@left T=[int32,float,resource]
  b = While(zero, x, v) cond=@cond body=@right T=[int32,float,resource]
  y = Sub(a:1, b:1) T=float
  function cond(i: int32, x: float, v: resource) -> (go: bool = l:z:0)
    ten = Const int32[] 10
    l = Less(i, ten:output:0) T=int32
  end
  function left(i: int32, x: float, v: resource) -> (j: int32 = k:z:0, z: float = p:product:0, u: resource = v)
    one = Const int32[] 1
    k = AddV2(i, one:output:0) T=int32
    w = ReadVariableOp(v) dtype=float
    p = MatMul(x, w:value:0) T=float
  end
  function right(i: int32, x: float, v: resource) -> (j: int32 = k:z:0, z: float = p:product:0, u: resource = v)
    one = Const int32[] 1
    k = AddV2(i, one:output:0) T=int32
    w = ReadVariableOp(v) dtype=float
    p = MatMul(w:value:0, x) T=float
  end
)";

TEST_F(LanesTest, MayReadVariables) {
  const std::string text = R"(
    v = Placeholder dtype=resource
    x = Placeholder dtype=float
    p = MatMul(x, x) T=float
    read = ReadVariableOp(v, ^p) dtype=float
    q = MatMul(p, read) T=float
    r = MatMul(x, x) T=float transpose_a=true
    s = MatMul(r, read) T=float
    y = Sub(q, s) T=float
    write = AssignVariableOp(v, y) dtype=float
  )";
  const Feeds feeds = {{"v:0", DType::kResource}, {"x:0", DType::kFloat}};
  MakeWithLanes(text, feeds, {}, {kSquare, kSquare}, {"write"});
  EXPECT_THAT(Text(), HasSubstr("fork 0 1"));
  EXPECT_EQ(plan_->arg_access[0], Access::kWrite);
  MakeWithLanes(kLoopsThatRead, feeds, {"y:0"}, {kSquare, kSquare});
  EXPECT_THAT(Text(), HasSubstr("fork 0 1(%1 %0 %1 %0)"));
  EXPECT_EQ(plan_->arg_access[0], Access::kRead);
}

TEST_F(LanesTest, TheFirstLaneThatFailsIsReported) {
  // Shapes that are not known: the kernels find out.
  std::string wide = "x = Placeholder dtype=float\nbad = Placeholder dtype=float\n";
  for (const char* lane : {"q", "r"}) {
    absl::StrAppend(&wide, lane, "0 = MatMul(x, x) T=float\n", lane, "1 = MatMul(", lane,
                    "0, bad) T=float\n");
  }
  absl::StrAppend(&wide, "y = Sub(q1, r1) T=float\nk = AddV2(y, x) T=float\n");
  MakeWithLanes(wide, {{"x:0", DType::kFloat}, {"bad:0", DType::kFloat}}, {"k:0"},
                {kSquare, PartialShape()});
  SCOPED_TRACE(Text());
  EXPECT_THAT(Run({Square(1), VectorOf<float>({1})}).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("node 'q1'")));
  EXPECT_EQ(Held(), 0);
  EXPECT_OK(Run({Square(1), Square(1)}).status());
}

constexpr char kTwoLoops[] = R"(
  n = Placeholder dtype=int32
  x = Placeholder dtype=float
  zero = Const int32[] 0
  a = StatelessWhile(zero, n, x, x) cond=@cond body=@left T=[int32,int32,float,float]
  b = StatelessWhile(zero, n, x, x) cond=@cond body=@right T=[int32,int32,float,float]
  y = Sub(a:2, b:2) T=float
  function cond(i: int32, n: int32, v: float, x: float) -> (go: bool = l:z:0)
    l = Less(i, n) T=int32
  end
  function left(i: int32, n: int32, v: float, x: float) -> (j: int32 = k:z:0, m: int32 = n, w: float = p:product:0, z: float = x)
    one = Const int32[] 1
    k = AddV2(i, one:output:0) T=int32
    p = MatMul(v, x) T=float
  end
  function right(i: int32, n: int32, v: float, x: float) -> (j: int32 = k:z:0, m: int32 = n, w: float = p:product:0, z: float = x)
    one = Const int32[] 1
    k = AddV2(i, one:output:0) T=int32
    p = MatMul(x, v) T=float transpose_a=true
  end
)";

class LoopsInLanesTest : public LanesTest {
 protected:
  void MakeLoops() {
    MakeWithLanes(kTwoLoops, {{"n:0", DType::kInt32}, {"x:0", DType::kFloat}}, {"y:0"},
                  {PartialShape(Shape()), kSquare});
    ASSERT_THAT(Text(), HasSubstr("fork 0 1"));
  }
};

TEST_F(LoopsInLanesTest, LeaveTheirThreadsAndGoOn) {
  MakeLoops();
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> whole,
                       Run({Tensor::Scalar<int32_t>(50), Square(0.01f)}));
  EXPECT_EQ(slices_, 1);
  others_wait_ = true;
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> parts,
                       Run({Tensor::Scalar<int32_t>(50), Square(0.01f)}));
  EXPECT_GT(slices_, 2);
  EXPECT_TRUE(SameBits(parts[0], whole[0]));
  EXPECT_EQ(Held(), 0);
}

// As the two directions of an LSTM begin: common subexpressions make one empty list of two.
TEST_F(LoopsInLanesTest, MayShareAList) {
  std::string text = R"(
    n = Placeholder dtype=int32
    x = Placeholder dtype=float
    zero = Const int32[] 0
    shape = Const int32[2] 128 128
  )";
  for (const char* lane : {"a", "b"}) {
    absl::StrAppend(&text, lane,
                    "l = TensorListReserve(shape, n) element_dtype=float shape_type=int32\n", lane,
                    "w = StatelessWhile(zero, n, x, ", lane, "l) cond=@cond body=@body_", lane,
                    " T=[int32,int32,float,variant]\n", lane, "s = TensorListStack(", lane,
                    "w:3, shape) element_dtype=float\n");
  }
  absl::StrAppend(&text, R"(
    y = Sub(as, bs) T=float
    function cond(i: int32, n: int32, x: float, l: variant) -> (go: bool = l:z:0)
      l = Less(i, n) T=int32
    end
  )");
  for (const char* lane : {"a", "b"}) {
    absl::StrAppend(
        &text, "function body_", lane,
        R"((i: int32, n: int32, x: float, l: variant) -> (j: int32 = k:z:0, m: int32 = n, z: float = x, s: variant = set:output_handle:0)
      one = Const int32[] 1
      k = AddV2(i, one:output:0) T=int32
      p = MatMul(x, x) T=float transpose_)",
        lane, R"(=true
      set = TensorListSetItem(l, i, p:product:0) element_dtype=float
    end
    )");
  }
  MakeWithLanes(text, {{"n:0", DType::kInt32}, {"x:0", DType::kFloat}}, {"as:0", "bs:0"},
                {PartialShape(Shape()), kSquare});
  ASSERT_THAT(Text(), ContainsRegex("TensorListReserve[^\n]*\n[^\n]*fork 0 1"));
  for (int run = 0; run < 20; ++run) {
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> stacks,
                         Run({Tensor::Scalar<int32_t>(5), Square(0.5f)}));
    for (const Tensor& stack : stacks) {
      for (float element : stack.span<float>()) ASSERT_EQ(element, 32);
    }
  }
}

TEST_F(LoopsInLanesTest, AreStopped) {
  MakeLoops();
  std::thread cancels([this] {
    absl::SleepFor(absl::Milliseconds(20));
    stop_.Cancel();
  });
  EXPECT_THAT(Run({Tensor::Scalar<int32_t>(1 << 30), Square(0)}).status(),
              StatusIs(StatusCode::kCancelled));
  cancels.join();
  EXPECT_EQ(Held(), 0);
  for (const std::unique_ptr<PlanFrame>& frame : frame_->functions) {
    for (const Tensor& slot : frame->slots) EXPECT_FALSE(slot.buffer());
  }
}

}  // namespace
}  // namespace formwork::testing
