// Groups that end in a reduction, on a GPU: what they give beside the CPU.

#include <cmath>
#include <cstring>

#include "absl/strings/substitute.h"
#include "core/kernels/widen.h"
#include "tests/gpu/cuda_engine.h"

namespace formwork::testing {
namespace {

class GpuElementReductionsTest : public CudaEngineTest {
 protected:
  // Quarters: sums and products of as many as there are here are exact, in any order.
  static Tensor Values(DType dtype, const Shape& shape, uint32_t seed) {
    Tensor values = *Tensor::Allocate(ProcessAllocator(), dtype, shape);
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      seed = seed * 1664525 + 1013904223;
      const float value = static_cast<float>(static_cast<int>(seed >> 16) % 9 - 4) / 4;
      NarrowTo(
          dtype, &value, 1,
          static_cast<char*>(values.mutable_raw()) + static_cast<size_t>(i) * DTypeSize(dtype));
    }
    return values;
  }

  // Whether all bits are the same, but for those of NaNs.
  static bool Same(const Tensor& a, const Tensor& b) {
    if (std::memcmp(a.raw(), b.raw(), b.bytes()) == 0) return true;
    if (!IsFloating(b.dtype())) return false;
    const Tensor wide_a = *Widened(ProcessAllocator(), a), wide_b = *Widened(ProcessAllocator(), b);
    for (int64_t i = 0; i < b.num_elements(); ++i) {
      const float x = wide_a.data<float>()[i], y = wide_b.data<float>()[i];
      if (std::isnan(x) != std::isnan(y)) return false;
      if (!std::isnan(x) && std::memcmp(&x, &y, sizeof(x)) != 0) return false;
    }
    return true;
  }

  // Each reduction of (x + y) * x along `axes`, by a node of its own group.
  void RunAll(DType dtype, const Tensor& x, const Tensor& y, const std::string& axes,
              std::vector<Tensor>& made) {
    std::string text =
        absl::Substitute("x = Placeholder dtype=$0\ny = Placeholder dtype=$0\naxes = Const $1\n",
                         DTypeName(dtype), axes);
    std::vector<std::string> fetches;
    for (const std::string op : {"Sum", "Mean", "Max", "Min"}) {
      // Nodes that no common subexpression makes one.
      absl::SubstituteAndAppend(
          &text,
          "c$0 = Const $1[] $2\na$0 = AddV2(x, y) T=$1\nm$0 = Mul(a$0, x) T=$1\n"
          "n$0 = AddV2(m$0, c$0) T=$1\nr$0 = $0(n$0, axes) T=$1 Tidx=int32 keep_dims=true\n",
          op, DTypeName(dtype), fetches.size());
      fetches.push_back(absl::Substitute("r$0:0", op));
    }
    ASSERT_OK_AND_ASSIGN(
        const Registered registered,
        Register("f", text, {Spec("x:0", dtype), Spec("y:0", dtype)}, fetches, {}, {},
                 /*replace=*/true));
    const CallResult result = Run(registered.function.id, Owned(Tensor(x), Tensor(y)));
    ASSERT_OK(result.status);
    for (const auto& output : result.outputs) {
      const Tensor& of_engine = output.tensor;  // Which ends before the results are compared.
      made.push_back(*Tensor::Allocate(ProcessAllocator(), of_engine.dtype(), of_engine.shape()));
      if (of_engine.bytes() > 0) {
        std::memcpy(made.back().mutable_raw(), of_engine.raw(), of_engine.bytes());
      }
    }
  }
};

TEST_F(GpuElementReductionsTest, GiveWhatTheCpuGives) {
  struct Case {
    Shape x, y;
    std::string axes;
  };
  const Case cases[] = {{Shape({400000}), Shape(), "int32[1] 0"},              // In parts.
                        {Shape({300, 256}), Shape({256}), "int32[1] 1"},       // Rows.
                        {Shape({3000, 100}), Shape({3000, 1}), "int32[1] 0"},  // Columns, in parts.
                        {Shape({16, 30, 20}), Shape({30, 1}), "int32[2] 0 2"},
                        {Shape({4, 8, 1, 50}), Shape({8, 30, 1}), "int32[2] 1 -1"},
                        {Shape({0, 3}), Shape({3}), "int32[1] 0"}};
  for (const DType dtype : {DType::kFloat, DType::kHalf, DType::kBfloat16}) {
    for (const Case& c : cases) {
      SCOPED_TRACE(absl::StrCat(DTypeName(dtype), c.x.ToString(), c.y.ToString(), " ", c.axes));
      const Tensor x = Values(dtype, c.x, 1), y = Values(dtype, c.y, 2);
      std::vector<Tensor> on_cpu, on_gpu;
      Start({});
      RunAll(dtype, x, y, c.axes, on_cpu);
      TearDown();
      if (!StartOnGpu()) return;
      RunAll(dtype, x, y, c.axes, on_gpu);
      TearDown();
      ASSERT_EQ(on_gpu.size(), on_cpu.size());
      for (size_t k = 0; k < on_cpu.size(); ++k) {
        ASSERT_EQ(on_gpu[k].shape(), on_cpu[k].shape()) << k;
        EXPECT_TRUE(Same(on_gpu[k], on_cpu[k])) << k;
      }
    }
  }
}

}  // namespace
}  // namespace formwork::testing
