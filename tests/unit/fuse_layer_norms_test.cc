// Layer normalisation as one node: whether it is found, and what it gives.

#include <cmath>

#include "tests/unit/plan_fixture.h"

namespace formwork::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kColumns = 50;

class FuseLayerNormsTest : public PlanFixture {
 protected:
  // Of x, 24 rows, with scale g and offset b; `rest` makes y of the mean m, its squared
  // differences' mean v and i = rsqrt(v + e) g.
  void MakePlanOf(absl::string_view rest, absl::string_view axis = "-1") {
    Make(absl::StrCat("x0 = Placeholder dtype=float\ng0 = Placeholder dtype=float\n"
                      "b0 = Placeholder dtype=float\n"
                      "x = EnsureShape(x0) T=float shape=shape:[4,6,50]\n"
                      "g = EnsureShape(g0) T=float shape=shape:[1,1,50]\n"
                      "b = EnsureShape(b0) T=float shape=shape:[1,1,50]\n"
                      "a = Const int32[1] ",
                      axis,
                      "\ne = Const float[] 0.01\n"
                      "m = Mean(x, a) T=float Tidx=int32 keep_dims=true\n"
                      "d = SquaredDifference(x, m) T=float\n"
                      "v = Mean(d, a) T=float Tidx=int32 keep_dims=true\n"
                      "s = AddV2(v, e) T=float\nr = Rsqrt(s) T=float\ni = Mul(r, g) T=float\n",
                      rest),
         {{"x0:0", DType::kFloat}, {"g0:0", DType::kFloat}, {"b0:0", DType::kFloat}}, {"y:0"});
  }
  static std::vector<float> Values(int64_t n, uint32_t state) {
    std::vector<float> values(static_cast<size_t>(n));
    for (float& v : values) {
      state = state * 1664525 + 1013904223;
      v = static_cast<float>(state >> 8) / (1 << 23) + 2;
    }
    return values;
  }
};

constexpr char kKeras[] =
    "n = Neg(m) T=float\nk = Mul(n, i) T=float\nq = AddV2(k, b) T=float\n"
    "p = Mul(x, i) T=float\n";

TEST_F(FuseLayerNormsTest, ItIsFoundAsItIsWritten) {
  const std::vector<float> x = Values(24 * kColumns, 1), g = Values(kColumns, 2),
                           b = Values(kColumns, 3);
  for (const std::string& rest :
       {absl::StrCat(kKeras, "y = AddV2(p, q) T=float"),
        std::string("k = Mul(m, i) T=float\nq = Sub(b, k) T=float\np = Mul(i, x) T=float\n"
                    "y = AddV2(q, p) T=float")}) {
    MakePlanOf(rest);
    EXPECT_THAT(Text(), AllOf(HasSubstr("= _MklLayerNorm("), Not(HasSubstr("Mean"))));
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got,
                         Run({TensorOf<float>(Shape({4, 6, kColumns}), x),
                              TensorOf<float>(Shape({1, 1, kColumns}), g),
                              TensorOf<float>(Shape({1, 1, kColumns}), b)}));
    for (int64_t row = 0; row < 24; ++row) {
      double mean = 0, variance = 0;
      for (int64_t c = 0; c < kColumns; ++c) mean += x[row * kColumns + c] / 50.0;
      for (int64_t c = 0; c < kColumns; ++c) {
        variance += std::pow(x[row * kColumns + c] - mean, 2) / 50.0;
      }
      for (int64_t c = 0; c < kColumns; ++c) {
        const int64_t at = row * kColumns + c;
        ASSERT_NEAR(got[0].data<float>()[at],
                    (x[at] - mean) / std::sqrt(variance + 0.01) * g[c] + b[c], 2e-5);
      }
    }
  }
}

TEST_F(FuseLayerNormsTest, WhatSomebodyElseReadsOrOtherDimensionsStay) {
  MakePlanOf(absl::StrCat(kKeras, "o = AddV2(p, q) T=float\ny = AddV2(o, m) T=float"));
  EXPECT_THAT(Text(), Not(HasSubstr("_MklLayerNorm")));
  MakePlanOf(absl::StrCat(kKeras, "y = AddV2(p, q) T=float"), "1");
  EXPECT_THAT(Text(), Not(HasSubstr("_MklLayerNorm")));
  // A scale of the mean's own is no offset less the mean's share.
  MakePlanOf(
      "n = Neg(v) T=float\nk = Mul(n, i) T=float\nq = AddV2(k, b) T=float\n"
      "p = Mul(x, i) T=float\ny = AddV2(p, q) T=float");
  EXPECT_THAT(Text(), Not(HasSubstr("_MklLayerNorm")));
}

TEST(LayerNormTest, RefusesAScaleThatDoesNotFit) {
  KernelRunner run;
  const Tensor x = TensorOf<float>(Shape({2, 3}), {1, 2, 3, 4, 5, 6});
  const Tensor three = TensorOf<float>(Shape({3}), {1, 1, 1});
  const Tensor two = TensorOf<float>(Shape({2}), {1, 1});
  EXPECT_OK(run.One("_MklLayerNorm", {{"T", DType::kFloat}}, {x, three, three}).status());
  EXPECT_THAT(run.One("_MklLayerNorm", {{"T", DType::kFloat}}, {x, three, two}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace formwork::testing
