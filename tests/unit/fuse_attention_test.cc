// Attention as one node: whether it is found as clients write it, and what it gives.

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_replace.h"
#include "core/ops/attention.h"
#include "core/tensor/small_float.h"
#include "tests/unit/plan_fixture.h"

namespace formwork::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr float kHidden = -std::numeric_limits<float>::infinity();

std::vector<float> Values(int64_t n, uint32_t state) {
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values) {
    state = state * 1664525 + 1013904223;
    v = static_cast<float>(state >> 8) / (1 << 23) - 1;
  }
  return values;
}

struct Sizes {
  int64_t batch, heads, queries, keys, depth, width;
};

// Attention by its definition. Operands as [batch, heads, rows, columns], the mask as
// [batch, queries, keys] or empty.
std::vector<float> Expected(const Sizes& s, const std::vector<float>& q,
                            const std::vector<float>& k, const std::vector<float>& v,
                            const std::vector<float>& mask, float scale) {
  std::vector<float> output;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t head = b * s.heads + h;
      for (int64_t t = 0; t < s.queries; ++t) {
        std::vector<double> weights;
        double sum = 0, largest = kHidden;
        for (int64_t i = 0; i < s.keys; ++i) {
          double score = 0;
          for (int64_t d = 0; d < s.depth; ++d) {
            score += q[(head * s.queries + t) * s.depth + d] * k[(head * s.keys + i) * s.depth + d];
          }
          score *= scale;
          if (!mask.empty()) score += mask[(b * s.queries + t) * s.keys + i];
          weights.push_back(score);
          largest = std::max(largest, score);
        }
        for (double& weight : weights) sum += weight = std::exp(weight - largest);
        for (int64_t e = 0; e < s.width; ++e) {
          double value = 0;
          for (int64_t i = 0; i < s.keys; ++i) {
            value += weights[i] / sum * v[(head * s.keys + i) * s.width + e];
          }
          output.push_back(static_cast<float>(value));
        }
      }
    }
  }
  return output;
}

// From [batch, heads, rows, columns] to [batch, rows, heads, columns], or back with the two sizes
// swapped.
std::vector<float> HeadsAfterRows(int64_t batch, int64_t heads, int64_t rows, int64_t columns,
                                  const std::vector<float>& x) {
  std::vector<float> y(x.size());
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
          y[((b * rows + r) * heads + h) * columns + c] =
              x[((b * heads + h) * rows + r) * columns + c];
        }
      }
    }
  }
  return y;
}

class FuseAttentionTest : public PlanFixture {
 protected:
  static constexpr char kOperands[] =
      "q0 = Placeholder dtype=float\nk0 = Placeholder dtype=float\nv0 = Placeholder dtype=float\n"
      "m0 = Placeholder dtype=float\nc = Const float[] 0.25\n";

  // `rest` makes y of q0, k0, v0, the mask m0 and the constant c.
  void MakePlanOf(absl::string_view rest, std::vector<std::string> fetches = {"y:0"}) {
    Make(absl::StrCat(kOperands, rest),
         {{"q0:0", DType::kFloat},
          {"k0:0", DType::kFloat},
          {"v0:0", DType::kFloat},
          {"m0:0", DType::kFloat}},
         std::move(fetches), *PartialShape::Make({-1, -1, -1, -1}));
  }
  void ExpectResult(const std::vector<Tensor>& inputs, const std::vector<float>& expected) {
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, Run(inputs));
    ASSERT_EQ(got[0].num_elements(), static_cast<int64_t>(expected.size()));
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(got[0].data<float>()[i], expected[i], 2e-5) << i;
    }
  }
};

constexpr char kOfKeras[] =
    "q = Mul(q0, c) T=float\n"
    "s = Einsum(k0, q) T=float N=2 equation=\"aecd,abcd->acbe\"\n"
    "w = Softmax(s) T=float\n"
    "y = Einsum(w, v0) T=float N=2 equation=\"acbe,aecd->abcd\"\n";

TEST_F(FuseAttentionTest, AsKerasWritesIt) {
  const Sizes s = {2, 3, 5, 7, 8, 8};
  MakePlanOf(kOfKeras);
  EXPECT_THAT(Text(),
              AllOf(HasSubstr("= _Attention("), Not(HasSubstr("Softmax")), Not(HasSubstr("Mul"))));
  const std::vector<float> q = Values(2 * 3 * 5 * 8, 1), k = Values(2 * 3 * 7 * 8, 2),
                           v = Values(2 * 3 * 7 * 8, 3);
  ExpectResult({TensorOf<float>(Shape({2, 5, 3, 8}), HeadsAfterRows(2, 3, 5, 8, q)),
                TensorOf<float>(Shape({2, 7, 3, 8}), HeadsAfterRows(2, 3, 7, 8, k)),
                TensorOf<float>(Shape({2, 7, 3, 8}), HeadsAfterRows(2, 3, 7, 8, v)),
                TensorOf<float>(Shape({1, 1, 1, 1}), {0})},
               HeadsAfterRows(2, 3, 5, 8, Expected(s, q, k, v, {}, 0.25f)));
}

constexpr char kOfProducts[] =
    "o = Const int32[4] 0 2 1 3\n"
    "m = EnsureShape(m0) T=float shape=shape:[2,1,5,7]\n"
    "qs = EnsureShape(q0) T=float shape=shape:[2,5,3,8]\n"
    "ks = EnsureShape(k0) T=float shape=shape:[2,7,3,8]\n"
    "vs = EnsureShape(v0) T=float shape=shape:[2,7,3,6]\n"
    "q = Transpose(qs, o) T=float Tperm=int32\nk = Transpose(ks, o) T=float Tperm=int32\n"
    "v = Transpose(vs, o) T=float Tperm=int32\n"
    "p = BatchMatMulV2(q, k) T=float adj_y=true\nd = RealDiv(p, c) T=float\n"
    "s = AddV2(m, d) T=float\nw = Softmax(s) T=float\n"
    "x = BatchMatMulV2(w, v) T=float\ny = Transpose(x, o) T=float Tperm=int32\n";

TEST_F(FuseAttentionTest, AsProductsOfWhatIsTransposedWithAMask) {
  const Sizes s = {2, 3, 5, 7, 8, 6};
  MakePlanOf(kOfProducts);
  EXPECT_THAT(Text(), AllOf(HasSubstr("= _Attention("), Not(HasSubstr("Transpose"))));
  const std::vector<float> q = Values(2 * 3 * 5 * 8, 1), k = Values(2 * 3 * 7 * 8, 2),
                           v = Values(2 * 3 * 7 * 6, 3);
  std::vector<float> mask = Values(2 * 5 * 7, 4);
  mask[3] = mask[40] = kHidden;
  ExpectResult({TensorOf<float>(Shape({2, 5, 3, 8}), HeadsAfterRows(2, 3, 5, 8, q)),
                TensorOf<float>(Shape({2, 7, 3, 8}), HeadsAfterRows(2, 3, 7, 8, k)),
                TensorOf<float>(Shape({2, 7, 3, 6}), HeadsAfterRows(2, 3, 7, 6, v)),
                TensorOf<float>(Shape({2, 1, 5, 7}), mask)},
               HeadsAfterRows(2, 3, 5, 6, Expected(s, q, k, v, mask, 4.0f)));
}

TEST_F(FuseAttentionTest, AMaskOfBoolsHides) {
  const Sizes s = {2, 3, 5, 7, 8, 8};
  constexpr float kVeryLow = -1e9f;
  MakePlanOf(
      "m = EnsureShape(m0) T=float shape=shape:[2,1,5,7]\n"
      "qs = EnsureShape(q0) T=float shape=shape:[2,5,3,8]\n"
      "ks = EnsureShape(k0) T=float shape=shape:[2,7,3,8]\n"
      "s = Einsum(ks, qs) T=float N=2 equation=\"aecd,abcd->acbe\"\nt = Mul(c, s) T=float\n"
      "z = Const float[] 0\nl = Const float[] -1e9\nh = GreaterEqual(m, z) T=float\n"
      "u = SelectV2(h, t, l) T=float\nw = Softmax(u) T=float\n"
      "y = Einsum(w, v0) T=float N=2 equation=\"acbe,aecd->abcd\"\n");
  EXPECT_THAT(Text(), AllOf(HasSubstr("= _Attention("), Not(HasSubstr("Select"))));
  const std::vector<float> q = Values(2 * 3 * 5 * 8, 1), k = Values(2 * 3 * 7 * 8, 2),
                           v = Values(2 * 3 * 7 * 8, 3), mask = Values(2 * 5 * 7, 4);
  std::vector<float> added;
  for (float m : mask) added.push_back(m >= 0 ? 0 : kVeryLow);
  ExpectResult({TensorOf<float>(Shape({2, 5, 3, 8}), HeadsAfterRows(2, 3, 5, 8, q)),
                TensorOf<float>(Shape({2, 7, 3, 8}), HeadsAfterRows(2, 3, 7, 8, k)),
                TensorOf<float>(Shape({2, 7, 3, 8}), HeadsAfterRows(2, 3, 7, 8, v)),
                TensorOf<float>(Shape({2, 1, 5, 7}), mask)},
               HeadsAfterRows(2, 3, 5, 8, Expected(s, q, k, v, added, 0.25f)));
}

// What is known of it is what the device is asked.
TEST_F(FuseAttentionTest, OfWhatTheDeviceTakes) {
  const std::string graph = absl::StrReplaceAll(
      absl::StrCat("q1 = Placeholder dtype=float\nk0 = Placeholder dtype=float\n"
                   "v1 = Placeholder dtype=float\nc = Const float[] 0.25\n"
                   "q0 = EnsureShape(q1) T=float shape=shape:[2,5,3,8]\n"
                   "v0 = EnsureShape(v1) T=float shape=shape:[2,7,3,16]\n",
                   kOfKeras),
      {{"float", "half"}});
  const Feeds feeds = {{"q1:0", DType::kHalf}, {"k0:0", DType::kHalf}, {"v1:0", DType::kHalf}};
  const PartialShape shape = *PartialShape::Make({-1, -1, -1, -1});
  Make(graph, feeds, {"y:0"}, shape);
  EXPECT_THAT(Text(), Not(HasSubstr("_Attention")));
  world_.kernels.SetAttention([](const AttentionKind& kind) {
    return kind.dtype == DType::kHalf && !kind.masked && !kind.broadcasts && kind.batch_rank == 2 &&
           kind.depth == 8 && kind.width == 16;
  });
  Make(graph, feeds, {"y:0"}, shape);
  EXPECT_THAT(Text(), AllOf(HasSubstr("= _Attention("), Not(HasSubstr("Mul"))));

  const Sizes s = {2, 3, 5, 7, 8, 16};
  const std::vector<float> q = Values(2 * 3 * 5 * 8, 1), k = Values(2 * 3 * 7 * 8, 2),
                           v = Values(2 * 3 * 7 * 16, 3);
  const auto halves = [](const Shape& of, const std::vector<float>& values) {
    return TensorOf<half>(of, std::vector<half>(values.begin(), values.end()));
  };
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got,
                       Run({halves(Shape({2, 5, 3, 8}), HeadsAfterRows(2, 3, 5, 8, q)),
                            halves(Shape({2, 7, 3, 8}), HeadsAfterRows(2, 3, 7, 8, k)),
                            halves(Shape({2, 7, 3, 16}), HeadsAfterRows(2, 3, 7, 16, v))}));
  const std::vector<float> expected = HeadsAfterRows(2, 3, 5, 16, Expected(s, q, k, v, {}, 0.25f));
  ASSERT_EQ(got[0].num_elements(), static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(static_cast<float>(got[0].data<half>()[i]), expected[i], 2e-3) << i;
  }
}

TEST_F(FuseAttentionTest, WhatSomebodyElseReadsStays) {
  MakePlanOf(kOfKeras, {"y:0", "w:0"});
  EXPECT_THAT(Text(), Not(HasSubstr("_Attention")));
  MakePlanOf(kOfKeras, {"y:0", "s:0"});
  EXPECT_THAT(Text(), Not(HasSubstr("_Attention")));
  MakePlanOf(kOfProducts, {"y:0", "s:0"});
  EXPECT_THAT(Text(), Not(HasSubstr("_Attention")));
  // Its scale belongs to both.
  MakePlanOf(kOfKeras, {"y:0", "q:0"});
  EXPECT_THAT(Text(), AllOf(HasSubstr("= _Attention("), HasSubstr("Mul")));
}

TEST_F(FuseAttentionTest, WhatIsNoAttentionStays) {
  // Over the queries.
  MakePlanOf(
      "s = Einsum(k0, q0) T=float N=2 equation=\"aecd,abcd->aceb\"\nw = Softmax(s) T=float\n"
      "y = Einsum(w, v0) T=float N=2 equation=\"aceb,aecd->abcd\"\n");
  EXPECT_THAT(Text(), Not(HasSubstr("_Attention")));
  // Summed over the heads.
  MakePlanOf(
      "s = Einsum(k0, q0) T=float N=2 equation=\"aecd,abcd->acbe\"\nw = Softmax(s) T=float\n"
      "y = Einsum(w, v0) T=float N=2 equation=\"acbe,aecd->abd\"\n");
  EXPECT_THAT(Text(), Not(HasSubstr("_Attention")));
  // A mask that may have more rows than the scores.
  MakePlanOf(
      "q = EnsureShape(q0) T=float shape=shape:[2,3,1,8]\n"
      "p = BatchMatMulV2(q, k0) T=float adj_y=true\ns = AddV2(p, m0) T=float\n"
      "w = Softmax(s) T=float\ny = BatchMatMulV2(w, v0) T=float\n");
  EXPECT_THAT(Text(), Not(HasSubstr("_Attention")));
}

class AttentionTest : public ::testing::Test {
 protected:
  absl::StatusOr<Tensor> Attend(absl::string_view equation, bool broadcast,
                                std::vector<Tensor> inputs) {
    return run_.One("_Attention",
                    {{"T", DType::kFloat},
                     {"N", static_cast<int64_t>(inputs.size()) - 3},
                     {"equation", std::string(equation)},
                     {"scale", 1.0f},
                     {"hidden", 0.0f},
                     {"M", DType::kFloat},
                     {"broadcast", broadcast}},
                    std::move(inputs));
  }
  KernelRunner run_;
};

constexpr char kHeadsFirst[] = "abcd,abed,abez,abce->abcz";

TEST_F(AttentionTest, KeysInBlocksOfWhichTheFirstIsHidden) {
  const Sizes s = {1, 2, 70, 1300, 4, 3};
  const std::vector<float> q = Values(2 * 70 * 4, 1), k = Values(2 * 1300 * 4, 2),
                           v = Values(2 * 1300 * 3, 3);
  std::vector<float> mask(70 * 1300, 0);
  for (int64_t t = 0; t < 70; ++t) std::fill_n(mask.begin() + t * 1300, 500 + t, kHidden);
  ASSERT_OK_AND_ASSIGN(const Tensor got, Attend(kHeadsFirst, false,
                                                {TensorOf<float>(Shape({1, 2, 70, 4}), q),
                                                 TensorOf<float>(Shape({1, 2, 1300, 4}), k),
                                                 TensorOf<float>(Shape({1, 2, 1300, 3}), v),
                                                 TensorOf<float>(Shape({70, 1300}), mask)}));
  const std::vector<float> expected = Expected(s, q, k, v, mask, 1.0f);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(got.data<float>()[i], expected[i], 2e-5) << i;
  }
}

TEST_F(AttentionTest, WhereAllIsHiddenThereIsNoNumber) {
  ASSERT_OK_AND_ASSIGN(const Tensor got, Attend(kHeadsFirst, false,
                                                {TensorOf<float>(Shape({1, 1, 2, 1}), {1, 1}),
                                                 TensorOf<float>(Shape({1, 1, 1, 1}), {1}),
                                                 TensorOf<float>(Shape({1, 1, 1, 1}), {5}),
                                                 TensorOf<float>(Shape({2, 1}), {kHidden, 0})}));
  EXPECT_TRUE(std::isnan(got.data<float>()[0]));
  EXPECT_EQ(got.data<float>()[1], 5);
}

TEST_F(AttentionTest, BatchesOfOneAreForAllWhereTheyBroadcast) {
  const Sizes s = {2, 2, 3, 4, 5, 5};
  const std::vector<float> q = Values(2 * 2 * 3 * 5, 1), k = Values(4 * 5, 2), v = Values(4 * 5, 3);
  std::vector<float> all_k, all_v;
  for (int i = 0; i < 4; ++i) {
    all_k.insert(all_k.end(), k.begin(), k.end());
    all_v.insert(all_v.end(), v.begin(), v.end());
  }
  const std::vector<Tensor> inputs = {TensorOf<float>(Shape({2, 2, 3, 5}), q),
                                      TensorOf<float>(Shape({1, 1, 4, 5}), k),
                                      TensorOf<float>(Shape({1, 1, 4, 5}), v)};
  ASSERT_OK_AND_ASSIGN(const Tensor got, Attend(kHeadsFirst, true, inputs));
  const std::vector<float> expected = Expected(s, q, all_k, all_v, {}, 1.0f);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(got.data<float>()[i], expected[i], 2e-5) << i;
  }
  EXPECT_THAT(Attend(kHeadsFirst, false, inputs).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("do not fit")));
}

TEST_F(AttentionTest, NoKeysAreSumsOfNothing) {
  ASSERT_OK_AND_ASSIGN(const Tensor got, Attend(kHeadsFirst, false,
                                                {TensorOf<float>(Shape({1, 1, 2, 1}), {1, 1}),
                                                 TensorOf<float>(Shape({1, 1, 0, 1}), {}),
                                                 TensorOf<float>(Shape({1, 1, 0, 3}), {})}));
  EXPECT_EQ(got.shape(), Shape({1, 1, 2, 3}));
  for (int i = 0; i < 6; ++i) EXPECT_EQ(got.data<float>()[i], 0);
}

TEST_F(AttentionTest, RefusesAnEquationOfAnotherKind) {
  const Tensor x = TensorOf<float>(Shape({1, 1, 1, 1}), {1});
  for (absl::string_view equation :
       {"", "abcd", "abcd,abed,abez,abce->abc", "abcd,abed,abez,abec->abcz",
        "aacd,aaed,aaez,aace->aacz", "abdc,abed,abez,abce->abcz", "abcd,abed,abez,abce->abze"}) {
    EXPECT_THAT(Attend(equation, false, {x, x, x}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("equation")))
        << equation;
  }
}

}  // namespace
}  // namespace formwork::testing
