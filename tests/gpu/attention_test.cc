// Attention of half precision is one node of a plan for a GPU with cuDNN, and gives there what the
// CPU does. The first needs no GPU.

#include <cmath>

#include "core/ops/attention.h"
#include "core/ops/register_ops.h"
#include "core/tensor/small_float.h"
#include "gpu/cudnn.h"
#include "tests/gpu/cuda_engine.h"

namespace formwork::testing {
namespace {

constexpr int64_t kBatch = 2, kHeads = 4, kQueries = 100, kKeys = 77, kSize = 64;

class GpuAttentionTest : public CudaEngineTest {
 protected:
  // Heads behind the rows, as Keras has them.
  Tensor Attend() {
    absl::StatusOr<Registered> made =
        Register("f", R"(
      q = Placeholder dtype=bfloat16
      k = Placeholder dtype=bfloat16
      v = Placeholder dtype=bfloat16
      c = Const bfloat16[] 0.125
      scaled = Mul(q, c) T=bfloat16
      scores = Einsum(k, scaled) equation="aecd,abcd->acbe" N=2 T=bfloat16
      weights = Softmax(scores) T=bfloat16
      y = Einsum(weights, v) equation="acbe,aecd->abcd" N=2 T=bfloat16
    )",
                 {Of("q:0", kQueries), Of("k:0", kKeys), Of("v:0", kKeys)}, {"y:0"});
    EXPECT_OK(made.status());
    if (!made.ok()) return Tensor();
    CallResult result =
        Run(made->function.id, Owned(Values(kQueries, 1), Values(kKeys, 2), Values(kKeys, 3)));
    EXPECT_OK(result.status);
    return result.status.ok() ? result.outputs[0].tensor : Tensor();
  }

  static Shape ShapeOf(int64_t rows) { return Shape({kBatch, rows, kHeads, kSize}); }
  static TensorSpec Of(absl::string_view name, int64_t rows) {
    return {std::string(name), DType::kBfloat16, PartialShape(ShapeOf(rows))};
  }
  static Tensor Values(int64_t rows, uint32_t state) {
    std::vector<bfloat16> values(ShapeOf(rows).num_elements());
    for (bfloat16& v : values) {
      state = state * 1664525 + 1013904223;
      v = bfloat16(static_cast<float>(state >> 8) / (1 << 22) - 2);
    }
    return TensorOf<bfloat16>(ShapeOf(rows), values);
  }
};

TEST_F(GpuAttentionTest, IsForCudnn) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  RegisterCudaKernels(kernels);
  AttentionKind kind = {.dtype = DType::kBfloat16, .batch_rank = 2, .depth = 64, .width = 64};
  EXPECT_EQ(kernels.TakesAttention(kind), Cudnn::Find() != nullptr);
  kind.dtype = DType::kFloat;
  EXPECT_FALSE(kernels.TakesAttention(kind));
}

TEST_F(GpuAttentionTest, GivesWhatTheCpuDoes) {
  if (!StartOnGpu()) return;
  const Tensor got = Attend();
  for (const auto& [op, nodes] : engine_->Stats().fallbacks) ADD_FAILURE() << op << " on the host";
  Start(EngineOptions());
  const Tensor wanted = Attend();
  ASSERT_EQ(got.shape(), wanted.shape());
  for (int64_t i = 0; i < wanted.num_elements(); ++i) {
    const float want = static_cast<float>(wanted.data<bfloat16>()[i]);
    ASSERT_NEAR(static_cast<float>(got.data<bfloat16>()[i]), want, 0.02 + std::abs(want) / 50) << i;
  }
}

}  // namespace
}  // namespace formwork::testing
