// What follows from variables alone is computed once for each of their values.

#include "absl/strings/str_cat.h"
#include "tests/unit/engine_fixture.h"
#include "tests/unit/plan_fixture.h"

namespace formwork::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kElements = 2048;

class KeptValuesTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    ASSERT_OK(engine_->CreateVariable("ns", "v", DType::kFloat, Shape({kElements}), Filled(2)));
  }
  Tensor Filled(float value) { return VectorOf<float>(std::vector<float>(kElements, value)); }
  void Set(float value) { ASSERT_OK(Assign({{{0, "v"}, Filled(value)}}).status); }
  // Of y, which is `text` of the variable's value r and the input x.
  uint64_t Function(absl::string_view text, std::vector<std::string> targets = {}) {
    absl::StatusOr<Registered> made =
        Register(absl::StrCat("f", ++functions_),
                 absl::StrCat("v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
                              "r = ReadVariableOp(v) dtype=float\n",
                              text),
                 {Spec("x:0")}, {"y:0"}, {{"v:0", "v"}}, std::move(targets));
    EXPECT_OK(made);
    return made.ok() ? made->function.id : 0;
  }
  Tensor Call(uint64_t id, float x = 1) {
    CallResult result = Run(id, Owned(Tensor::Scalar(x)));
    EXPECT_OK(result.status);
    return result.status.ok() ? result.outputs[0].tensor : Tensor();
  }

  int functions_ = 0;
};

TEST_F(KeptValuesTest, CallsShareOneUntilTheVariableChanges) {
  const uint64_t square = Function("y = Square(r) T=float");
  const Tensor first = Call(square);
  EXPECT_THAT(first.span<float>(), Each(4));
  EXPECT_EQ(Call(square).raw(), first.raw());
  Set(3);
  const Tensor second = Call(square);
  EXPECT_THAT(second.span<float>(), Each(9));
  EXPECT_THAT(first.span<float>(), Each(4));
  // It has changed once: only what comes twice is kept.
  const Tensor third = Call(square);
  EXPECT_NE(third.raw(), second.raw());
  EXPECT_EQ(Call(square).raw(), third.raw());
}

TEST_F(KeptValuesTest, TheRestSeesInputsAndNewValuesInEachCall) {
  const uint64_t id = Function(
      "s = Square(r) T=float\ne = Reshape(s, l) T=float\nl = Const int32[1] 2048\n"
      "p = Mul(e, x) T=float\nq = AddV2(p, r) T=float\ny = AddV2(q, s) T=float");
  for (int i = 0; i < 40; ++i) {
    const float v = static_cast<float>(i / 3);
    if (i % 3 == 0) Set(v);
    EXPECT_THAT(Call(id, 10).span<float>(), Each(11 * v * v + v)) << i;
  }
}

TEST_F(KeptValuesTest, WhoWritesInPlaceLeavesWhatIsKeptAlone) {
  const uint64_t add =
      Function("y = Neg(x) T=float\na = AssignAddVariableOp(v, r) dtype=float", {"a"});
  const uint64_t square = Function("y = Square(r) T=float");
  for (float v = 2; v < 1000; v *= 2) {
    EXPECT_THAT(Call(square).span<float>(), Each(v * v));
    EXPECT_THAT(Call(square).span<float>(), Each(v * v));
    Call(add);
  }
}

TEST_F(KeptValuesTest, WhereAVariableIsWrittenNothingIsKept) {
  const uint64_t id =
      Function("y = Square(r) T=float\na = AssignAddVariableOp(v, r, ^y) dtype=float", {"a"});
  EXPECT_THAT(Call(id).span<float>(), Each(4));
  EXPECT_THAT(Call(id).span<float>(), Each(16));
  EXPECT_THAT(Call(id).span<float>(), Each(64));
}

TEST_F(KeptValuesTest, WhatTakesMuchMoreThanTheVariablesIsNotKept) {
  const uint64_t id = Function("t = Const int32[1] 1000\ny = Tile(r, t) T=float");
  const Tensor first = Call(id);
  const size_t before = engine_->Stats().tensor_bytes;
  EXPECT_NE(Call(id).raw(), first.raw());
  EXPECT_LE(engine_->Stats().tensor_bytes, before);
}

class KeptValuesPlanTest : public PlanFixture {};

TEST_F(KeptValuesPlanTest, ABranchLeadsAroundWhatIsKept) {
  const Feeds feeds = {{"v:0", DType::kResource}, {"x:0", DType::kFloat}};
  const std::string text =
      "v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
      "r = ReadVariableOp(v) dtype=float\ns = Square(r) T=float\ny = AddV2(s, x) T=float";
  Make(text, feeds, {"y:0"}, Shape({kElements}));
  EXPECT_THAT(Text(), StartsWith("0: %2 = ReadVariableOp(%0) 'r'\n"
                                 "1: %3 %4 = recall(%2)\n"
                                 "2: branch %3! -> 3 drop %2, 5 drop %4 drop %3\n"
                                 "3: %5 = %4!\n"
                                 "4: jump 8\n"
                                 "5: %6 = Square(%2) 's'\n"
                                 "6: keep(%2! %6) drop %2\n"
                                 "7: %5 = %6!\n"
                                 "8: %7 = AddV2("));
  Make(text, feeds, {"y:0"}, Shape({8}));  // Too little to be worth it.
  EXPECT_THAT(Text(), Not(HasSubstr("branch")));
}

}  // namespace
}  // namespace formwork::testing
