// Hidden state: what a function's nodes keep from call to call, by name.

#include <map>

#include "core/function/concrete_function.h"
#include "tests/unit/engine_fixture.h"
#include "tests/unit/plan_fixture.h"

namespace formwork {
namespace {

using absl::StatusCode;
using ::formwork::testing::EngineTest;
using ::formwork::testing::Owned;
using ::formwork::testing::PlanFixture;
using ::formwork::testing::StatusIs;
using ::formwork::testing::ValuesOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr char kNode[] = "RandomUniform(s:output:0) dtype=float T=int32 seed=1 seed2=2";

// A function `f` that draws a number by `depth` calls, the innermost one by `draw`.
std::string Nest(int depth) {
  std::string text;
  for (int i = 0; i < depth; ++i) {
    const std::string name = i == 0 ? "f" : absl::StrCat("f", i);
    absl::StrAppend(&text, "function ", name,
                    "(i: int32) -> (r: float = ", i + 1 < depth ? "c:output:0" : "draw:output:0",
                    ")\n");
    if (i + 1 < depth) {
      absl::StrAppend(&text, "  c = StatefulPartitionedCall(i) f=@f", i + 1,
                      " Tin=[int32] Tout=[float]\nend\n");
    } else {
      absl::StrAppend(&text, "  s = Const int32[0]\n  draw = ", kNode, "\nend\n");
    }
  }
  return text;
}

std::string Path(absl::string_view first, int depth) {
  std::string path(first);
  for (int i = 1; i < depth; ++i) absl::StrAppend(&path, "/c");
  return absl::StrCat(path, "/draw");
}

class FunctionStateTest : public PlanFixture {
 protected:
  void SetUp() override { function_.plan = nullptr; }
  void Make(const std::string& text, testing::Feeds feeds, std::vector<std::string> fetches) {
    PlanFixture::Make(text, std::move(feeds), std::move(fetches));
    function_.plan = plan_;
  }
  // By name.
  std::map<std::string, std::vector<uint64_t>> State() {
    std::swap(function_.state, state_);
    std::map<std::string, std::vector<uint64_t>> all;
    function_.VisitState([&](absl::string_view name, absl::Span<std::atomic<uint64_t>> numbers) {
      EXPECT_TRUE(all.emplace(name, std::vector<uint64_t>(numbers.begin(), numbers.end())).second);
      return true;
    });
    std::swap(function_.state, state_);
    return all;
  }
  void SetState(const std::map<std::string, std::vector<uint64_t>>& all) {
    std::swap(function_.state, state_);
    function_.VisitState([&](absl::string_view name, absl::Span<std::atomic<uint64_t>> numbers) {
      const std::vector<uint64_t>& saved = all.at(std::string(name));
      for (size_t i = 0; i < saved.size(); ++i) numbers[i] = saved[i];
      return true;
    });
    std::swap(function_.state, state_);
  }
  std::vector<float> Draw(std::vector<Tensor> inputs) {
    std::vector<float> drawn;
    absl::StatusOr<std::vector<Tensor>> outputs = Run(std::move(inputs));
    EXPECT_OK(outputs.status());
    if (outputs.ok()) {
      for (const Tensor& output : *outputs) drawn.push_back(output.scalar<float>());
    }
    return drawn;
  }

  ConcreteFunction function_;
};

// Whether a call becomes part of its caller is the planner's own affair.
TEST_F(FunctionStateTest, NamesAndNumbersAreTheSameWhetherCallsAreInPlaceOrNot) {
  std::vector<std::vector<float>> drawn;
  for (int depth : {3, 100}) {
    Make(absl::StrCat("i = Placeholder dtype=int32\n"
                      "a = StatefulPartitionedCall(i) f=@f Tin=[int32] Tout=[float]\n"
                      "b = StatefulPartitionedCall(i) f=@f Tin=[int32] Tout=[float]\n",
                      Nest(depth)),
         {{"i:0", DType::kInt32}}, {"a:0", "b:0"});
    EXPECT_EQ(!plan_->functions.empty(), depth == 100);
    std::vector<float> all;
    for (int call = 0; call < 3; ++call) {
      const std::vector<float> pair = Draw(Owned(Tensor::Scalar(0)));
      EXPECT_THAT(pair, SizeIs(2));
      EXPECT_EQ(pair[0], pair[1]);  // Two nodes with the seeds of one.
      all.insert(all.end(), pair.begin(), pair.end());
    }
    EXPECT_NE(all[0], all[2]);
    EXPECT_NE(all[2], all[4]);
    drawn.push_back(all);
    EXPECT_THAT(State(), ElementsAre(Pair(Path("a", depth), ElementsAre(3 * 256)),
                                     Pair(Path("b", depth), ElementsAre(3 * 256))));
  }
  EXPECT_EQ(drawn[0], drawn[1]);
}

TEST_F(FunctionStateTest, BodiesOfOneNodeHaveNamesOfTheirOwn) {
  const std::string text = absl::StrCat(R"(
    i = Placeholder dtype=int32
    x = Placeholder dtype=float
    branch = Case(i, i) branches=[@f, @f] Tin=[int32] Tout=[float]
    loop = While(i, x) cond=@cond body=@body T=[int32,float]
    function cond(i: int32, x: float) -> (go: bool = l:z:0)
      two = Const int32[] 2
      l = Less(i, two:output:0) T=int32
    end
    function body(i: int32, x: float) -> (j: int32 = next:z:0, y: float = draw:output:0)
      one = Const int32[] 1
      next = AddV2(i, one:output:0) T=int32
      s = Const int32[0]
      draw = )",
                                        kNode, "\nend\n", Nest(1));
  Make(text, {{"i:0", DType::kInt32}, {"x:0", DType::kFloat}}, {"branch:0", "loop:1"});
  Draw(Owned(Tensor::Scalar(0), Tensor::Scalar(0.0f)));
  Draw(Owned(Tensor::Scalar(1), Tensor::Scalar(0.0f)));
  Draw(Owned(Tensor::Scalar(1), Tensor::Scalar(0.0f)));
  EXPECT_THAT(State(), ElementsAre(Pair("branch/branch0/draw", ElementsAre(256)),
                                   Pair("branch/branch1/draw", ElementsAre(2 * 256)),
                                   Pair("loop/body/draw", ElementsAre(4 * 256))));
}

TEST_F(FunctionStateTest, WhatIsSetIsGoneOnFrom) {
  Make(absl::StrCat("s = Const int32[0]\n"
                    "seeded = RandomUniform(s) dtype=float T=int32 seed=3 seed2=4\n"
                    "free = RandomUniform(s) dtype=float T=int32\n"),
       {}, {"seeded:0", "free:0"});
  EXPECT_THAT(State(),
              ElementsAre(Pair("free", ElementsAre(0, 0)), Pair("seeded", ElementsAre(0))));
  Draw({});
  const auto saved = State();
  EXPECT_EQ(saved.at("free")[0], 256u);
  EXPECT_NE(saved.at("free")[1], 0u);  // The seed that was drawn.
  const std::vector<float> after = Draw({});
  // Another process.
  Make(absl::StrCat("s = Const int32[0]\n"
                    "seeded = RandomUniform(s) dtype=float T=int32 seed=3 seed2=4\n"
                    "free = RandomUniform(s) dtype=float T=int32\n"),
       {}, {"seeded:0", "free:0"});
  EXPECT_NE(Draw({}), after);
  SetState(saved);
  EXPECT_EQ(Draw({}), after);
}

// Each function calls the next one twice, so that the innermost one has 2^40 paths.
TEST_F(FunctionStateTest, PathsThatMultiplyAreRefused) {
  constexpr int kDepth = 40;
  std::string text = R"(
    i = Placeholder dtype=int32
    y = StatefulPartitionedCall(i) f=@f0 Tin=[int32] Tout=[float]
  )";
  for (int i = 0; i < kDepth; ++i) {
    absl::StrAppend(&text, "function f", i, "(i: int32) -> (r: float = sum:z:0)\n");
    for (absl::string_view name : {"a", "b"}) {
      absl::StrAppend(&text, "  ", name, " = StatefulPartitionedCall(i) f=@f",
                      i + 1 < kDepth ? absl::StrCat(i + 1) : "", " Tin=[int32] Tout=[float]\n");
    }
    absl::StrAppend(&text, "  sum = AddV2(a:output:0, b:output:0) T=float\nend\n");
  }
  absl::StrAppend(&text, Nest(1));
  ASSERT_OK_AND_ASSIGN(const ImportedGraph imported,
                       world_.Import(text, {{"i:0", DType::kInt32}}, {"y:0"}));
  EXPECT_THAT(MakePlan(imported, {PartialShape()}, {world_.ops, world_.kernels, world_.allocator}),
              StatusIs(StatusCode::kResourceExhausted, HasSubstr("hidden state")));
}

class DescribedStateTest : public EngineTest {};

TEST_F(DescribedStateTest, ADescriptionShowsIt) {
  ASSERT_OK_AND_ASSIGN(const Registered made,
                       Register("f",
                                "x = Placeholder dtype=float\n"
                                "p = Print(x, x) T=float U=[float] message=\"now \" first_n=2\n",
                                {Spec("x:0")}, {"p:0"}));
  for (int printed : {1, 1, 0}) {
    const auto call = Begin(made.function.id, Owned(Tensor::Scalar(1.0f)));
    EXPECT_THAT(call->Wait().printed, SizeIs(printed));
  }
  EXPECT_THAT(*engine_->DescribeFunction("ns", "f", true, nullptr), HasSubstr("\nstate 'p': 3\n"));
}

}  // namespace
}  // namespace formwork
