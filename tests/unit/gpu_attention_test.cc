// What GPUs do of attention (gpu/attention_functions.h), a query at a time, on the host against the
// CPU's kernel, and what cuDNN is told of it, computed as its documentation says.

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/tensor/small_float.h"
#include "gpu/attention_items.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

namespace element = formwork_element;

struct Case {
  const char* equation;
  Dims q, k, v;
  bool for_cudnn = true;
};

const std::vector<Case>& Cases() {
  static const auto* const cases = new std::vector<Case>{
      // As BatchMatMul has them, of several batch dimensions and of fewer.
      {"abcd,abed,abef,abce->abcf", {2, 3, 5, 8}, {2, 3, 7, 8}, {2, 3, 7, 16}},
      {"acd,aed,aef,ace->acf", {3, 4, 8}, {3, 6, 8}, {3, 6, 8}},
      {"cd,ed,ef,ce->cf", {4, 16}, {5, 16}, {5, 8}},
      // As Keras has them: heads behind the rows.
      {"acbd,aebd,aebf,abce->acbf", {2, 5, 3, 8}, {2, 7, 3, 8}, {2, 7, 3, 24}},
      // A query, a head, and a batch by itself.
      {"abcd,abed,abef,abce->abcf", {1, 4, 1, 8}, {1, 4, 9, 8}, {1, 4, 9, 8}},
      {"acbd,aebd,aebf,abce->acbf", {2, 5, 1, 8}, {2, 7, 1, 8}, {2, 7, 1, 8}},
      // No keys.
      {"abcd,abed,abef,abce->abcf", {1, 2, 3, 8}, {1, 2, 0, 8}, {1, 2, 0, 8}, false},
      // Keys in columns, and one batch for all.
      {"abcd,abde,abef,abce->abcf", {2, 3, 5, 8}, {2, 3, 8, 7}, {2, 3, 7, 16}, false},
      {"abcd,abed,abef,abce->abcf", {2, 3, 5, 8}, {1, 3, 7, 8}, {2, 1, 7, 16}, false},
  };
  return *cases;
}

template <typename E>
Tensor Random(const Dims& dims, Allocator& allocator, std::mt19937& random) {
  Tensor tensor = *Tensor::Allocate(allocator, DTypeOf<E>::value, *Shape::Make(dims));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<E>()[i] = E(static_cast<float>(random() % 513) / 128 - 2);
  }
  return tensor;
}

// softmax(scale q k') v, with each operand of dimensions and strides.
template <typename E>
void AsDescribed(const AttentionDescription& d, float scale, const E* q, const E* k, const E* v,
                 E* output) {
  const auto at = [](const auto& operand, int64_t b, int64_t h, int64_t r, int64_t c) {
    const auto& s = operand.strides;
    return b * s[0] + h * s[1] + r * s[2] + c * s[3];
  };
  const auto [batch, heads, queries, depth] = d.q.dims;
  const int64_t keys = d.k.dims[2], width = d.v.dims[3];
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < queries; ++i) {
        std::vector<double> weights;
        double all = 0;
        for (int64_t j = 0; j < keys; ++j) {
          double score = 0;
          for (int64_t c = 0; c < depth; ++c) {
            score += static_cast<double>(static_cast<float>(q[at(d.q, b, h, i, c)])) *
                     static_cast<float>(k[at(d.k, b, h, j, c)]);
          }
          all += weights.emplace_back(std::exp(score * scale));
        }
        for (int64_t w = 0; w < width; ++w) {
          double sum = 0;
          for (int64_t j = 0; j < keys; ++j) {
            sum += weights[j] * static_cast<float>(v[at(d.v, b, h, j, w)]);
          }
          output[at(d.output, b, h, i, w)] = E(static_cast<float>(sum / all));
        }
      }
    }
  }
}

template <typename E>
void Check(const Case& c) {
  KernelRunner run;
  std::mt19937 random(7);
  const DType dtype = DTypeOf<E>::value;
  const float scale = 0.25f;
  const Tensor q = Random<E>(c.q, run.allocator(), random);
  const Tensor k = Random<E>(c.k, run.allocator(), random);
  const Tensor v = Random<E>(c.v, run.allocator(), random);
  ASSERT_OK_AND_ASSIGN(const Tensor wanted, run.One("_Attention",
                                                    {{"T", dtype},
                                                     {"M", dtype},
                                                     {"N", int64_t{0}},
                                                     {"equation", std::string(c.equation)},
                                                     {"scale", scale},
                                                     {"broadcast", true}},
                                                    {q, k, v}));
  ASSERT_OK_AND_ASSIGN(AttentionAttrs attrs, AttentionAttrs::Parse(c.equation));
  attrs.scale = scale;
  attrs.broadcast = true;
  const absl::Span<const int64_t> shapes[] = {q.shape().dims(), k.shape().dims(), v.shape().dims()};
  ASSERT_OK_AND_ASSIGN(const AttentionGeometry g, PrepareAttention(attrs, shapes));
  const element::AttentionCall call = AttentionCallOf(attrs, g, shapes);
  const int64_t rows = wanted.num_elements() / g.width;

  const auto expect_wanted = [&](Aligned& made, const char* by) {
    Tensor got = *Tensor::Allocate(run.allocator(), dtype, wanted.shape());
    made.CopyTo(got);
    for (int64_t i = 0; i < wanted.num_elements(); ++i) {
      const float want = static_cast<float>(wanted.data<E>()[i]);
      ASSERT_NEAR(static_cast<float>(got.data<E>()[i]), want, 1e-3 + std::abs(want) / 100)
          << by << " " << i;
    }
  };
  Aligned of_q(q), of_k(k), of_v(v);
  const auto data = [](Aligned& memory) { return reinterpret_cast<E*>(memory.data()); };
  Tensor nothing = *Tensor::Allocate(run.allocator(), dtype, wanted.shape());
  std::memset(nothing.mutable_raw(), 0xff, nothing.bytes());
  Aligned by_items(nothing), described(nothing);
  RunItems(element::AttentionItem<E>{data(of_q), data(of_k), data(of_v), data(by_items), call},
           rows);
  expect_wanted(by_items, "items");
  if (g.keys == 0) return;
  const auto description = AttentionDescription::Of(rows / (call.heads * g.queries), call);
  ASSERT_EQ(description.has_value(), c.for_cudnn);
  if (!description) return;
  AsDescribed(*description, call.scale, data(of_q), data(of_k), data(of_v), data(described));
  expect_wanted(described, "cuDNN");
}

TEST(GpuAttentionTest, GivesWhatTheCpuDoes) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(absl::StrCat(c.equation, " queries: ", absl::StrJoin(c.q, ",")));
    Check<half>(c);
    Check<bfloat16>(c);
  }
}

TEST(GpuAttentionTest, TakesWhatCudnnHasEnginesFor) {
  const AttentionKind kind = {
      .dtype = DType::kBfloat16, .batch_rank = 2, .depth = 64, .width = 128};
  EXPECT_TRUE(GpuTakesAttention(kind));
  const auto takes = [&](auto change) {
    AttentionKind other = kind;
    change(other);
    return GpuTakesAttention(other);
  };
  EXPECT_TRUE(takes([](AttentionKind& k) { k.dtype = DType::kHalf; }));
  EXPECT_TRUE(takes([](AttentionKind& k) { k.batch_rank = 0; }));
  EXPECT_FALSE(takes([](AttentionKind& k) { k.dtype = DType::kFloat; }));
  EXPECT_FALSE(takes([](AttentionKind& k) { k.masked = true; }));
  EXPECT_FALSE(takes([](AttentionKind& k) { k.broadcasts = true; }));
  EXPECT_FALSE(takes([](AttentionKind& k) { k.batch_rank = 3; }));
  EXPECT_FALSE(takes([](AttentionKind& k) { k.depth = -1; }));
  EXPECT_FALSE(takes([](AttentionKind& k) { k.depth = 60; }));
  EXPECT_FALSE(takes([](AttentionKind& k) { k.width = 136; }));
}

}  // namespace
}  // namespace formwork::testing
