// Groups of elementwise nodes whose shapes turn out not to be equal run one by one.

#include "absl/strings/str_cat.h"
#include "tests/unit/plan_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

class FusionTest : public PlanFixture {};

TEST_F(FusionTest, AnErrorNamesItsOwnNode) {
  Make(R"(
    x = Placeholder dtype=float
    y = Placeholder dtype=float
    a = Square(x) T=float
    b = Neg(y) T=float
    c = AddV2(a, b) T=float
    d = Neg(c) T=float
    e = Exp(d) T=float
  )",
       {{"x:0", DType::kFloat}, {"y:0", DType::kFloat}}, {"e:0"});
  EXPECT_THAT(Text(), HasSubstr("0: %2 = fused("));
  EXPECT_THAT(Run({VectorOf<float>({1, 2}), VectorOf<float>({1, 2, 3})}),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("node 'c': "), Not(HasSubstr("node 'e'")))));
}

TEST_F(FusionTest, WhatIsRefusedMemoryIsNamedByTheLastNode) {
  Make(R"(
    x = Placeholder dtype=float
    a = Neg(x) T=float
    b = Exp(a) T=float
  )",
       {{"x:0", DType::kFloat}}, {"b:0"});
  MemoryBudget budget(1000);
  HostAllocator allocator(&budget, /*cache_bytes=*/0);
  allocator_ = &allocator;
  const Tensor x = VectorOf<float>(std::vector<float>(100'000, 1));
  EXPECT_THAT(Run({x}), StatusIs(StatusCode::kResourceExhausted, HasSubstr("node 'b': ")));
  EXPECT_EQ(Held(), 0);
}

TEST_F(FusionTest, AResultGoesWithItsLastUse) {
  constexpr int kSteps = 20, kElements = 100'000;
  std::string text =
      "x = Placeholder dtype=float\ny = Placeholder dtype=float\na0 = Neg(x) T=float\n";
  for (int i = 0; i < kSteps; ++i) {
    absl::StrAppend(&text, "a", i + 1, " = Neg(a", i, ") T=float\n");
  }
  absl::StrAppend(&text, "s = Neg(y) T=float\nd = AddV2(a", kSteps, ", a", kSteps,
                  ") T=float\nz = AddV2(d, s) T=float\n");
  Make(text, {{"x:0", DType::kFloat}, {"y:0", DType::kFloat}}, {"z:0"});
  EXPECT_THAT(Text(), HasSubstr("0: %2 = fused("));
  // The scalar s is not of the others' shape.
  MemoryBudget budget(4 * kElements * sizeof(float));
  HostAllocator allocator(&budget, /*cache_bytes=*/0);
  allocator_ = &allocator;
  ASSERT_OK_AND_ASSIGN(
      std::vector<Tensor> outputs,
      Run({VectorOf<float>(std::vector<float>(kElements, 2)), Tensor::Scalar(3.0f)}));
  EXPECT_THAT(outputs[0].span<float>(), Each(-7.0f));
}

}  // namespace
}  // namespace formwork::testing
