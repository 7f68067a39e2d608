// What GPUs do of pooled images (gpu/pool_functions.h), item by item, on the host against the op
// cases, and against the CPU's kernels where windows lie in many ways.

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/pool.h"
#include "core/ops/register_ops.h"
#include "gpu/pool_items.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

namespace element = formwork_element;

// Into a new output of `dims`, whose elements are of input `like`'s dtype: `run(E())`.
template <typename Run>
absl::Status Make(KernelContext& ctx, int like, const Dims& dims, Run run) {
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  FORMWORK_ASSIGN_OR_RETURN(Tensor out,
                            Tensor::Allocate(ctx.allocator(), ctx.input(like).dtype(), shape));
  const auto items = [&](auto e) {
    using E = decltype(e);
    const auto item = run(e, out.mutable_data<E>());
    for (uint64_t i = 0; i < static_cast<uint64_t>(shape.num_elements()); ++i) item(i);
  };
  switch (out.dtype()) {
    FORMWORK_REAL_CASES(items(T()); break)
    default:
      return Internal("no number");
  }
  ctx.SetOutput(0, std::move(out));
  return absl::OkStatus();
}

absl::StatusOr<SlidingAttrs> AttrsOf(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(SlidingAttrs attrs, SlidingAttrs::OfPool(init.attrs()));
  const bool named = PoolItemName(init.op().name, init.output_dtypes()[0]).ok();
  if (attrs.depth_window > 1 || !named) return Unimplemented("what a GPU leaves to the host");
  return attrs;
}

template <template <typename> class Item>
absl::StatusOr<KernelFn> MakeForward(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, AttrsOf(init));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape,
                              PreparePool(attrs, ctx.input(0).shape().dims()));
    return Make(ctx, 0, shape.output_dims(), [&](auto e, auto* out) {
      return Item<decltype(e)>{ctx.input(0).data<decltype(e)>(), out, PoolSizesOf(shape)};
    });
  });
}

absl::StatusOr<KernelFn> MakeMaxPoolGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, AttrsOf(init));
  const bool relu = OfRelu(init.attrs());
  return KernelFn([attrs, relu](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const ConvShape shape,
        PrepareMaxPoolGrad(attrs, ctx.input(0).shape().dims(), ctx.input(1).shape().dims(),
                           ctx.input(2).shape().dims()));
    return Make(ctx, 0, shape.input_dims(), [&](auto e, auto* out) {
      using E = decltype(e);
      return element::MaxPoolGradItem<E>{ctx.input(0).data<E>(), ctx.input(2).data<E>(), out,
                                         PoolSizesOf(shape), relu};
    });
  });
}

absl::StatusOr<KernelFn> MakeAvgPoolGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, AttrsOf(init));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape,
                              PrepareAvgPoolGrad(attrs, ctx.input(0), ctx.input(1).shape().dims()));
    return Make(ctx, 1, shape.input_dims(), [&](auto e, auto* out) {
      return element::AvgPoolGradItem<decltype(e)>{ctx.input(1).data<decltype(e)>(), out,
                                                   PoolSizesOf(shape)};
    });
  });
}

class GpuPoolsTest : public ::testing::Test {
 protected:
  GpuPoolsTest() {
    RegisterOps(ops_);
    kernels_.Add("AvgPool", &MakeForward<element::AvgPoolItem>);
    kernels_.Add("AvgPoolGrad", &MakeAvgPoolGrad);
    kernels_.Add("MaxPool", &MakeForward<element::MaxPoolItem>);
    kernels_.Add("MaxPoolGrad", &MakeMaxPoolGrad);
  }

  OpRegistry ops_;
  KernelRegistry kernels_{ops_};
};

TEST_F(GpuPoolsTest, GiveWhatTensorFlowDoes) {
  std::map<std::string, int> tried =
      RunGpuCases({.files = {"conv", "nn"}, .some_are_hosts = true}, ops_, kernels_);
  for (const std::string& op : kernels_.Names()) EXPECT_GT(tried[op], 4) << op;
}

TEST_F(GpuPoolsTest, WindowsOfManyKindsGiveWhatTheCpuDoes) {
  std::mt19937_64 random(1);
  const auto draw = [&random](int least, int most) {
    return static_cast<int64_t>(least + static_cast<int>(random() % (most - least + 1)));
  };
  KernelRunner run;
  int compared = 0;
  for (int i = 0; i < 400; ++i) {
    const bool first = draw(0, 1) == 1, same = draw(0, 1) == 1;
    const int64_t height = draw(1, 9), width = draw(1, 9), channels = draw(1, 3);
    const auto of_image = [&](int64_t rows, int64_t cols) {
      return first ? std::vector<int64_t>{1, 1, rows, cols}
                   : std::vector<int64_t>{1, rows, cols, 1};
    };
    AttrMap attrs;
    attrs.Set("T", DType::kFloat);
    attrs.Set("ksize", of_image(draw(1, 4), draw(1, 4)));
    attrs.Set("strides", of_image(draw(1, 4), draw(1, 4)));
    attrs.Set("padding", std::string(same ? "SAME" : "VALID"));
    attrs.Set("explicit_paddings", std::vector<int64_t>{});
    attrs.Set("data_format", std::string(first ? "NCHW" : "NHWC"));
    const Shape image = Shape::Trusted(ImageLayout{first}.Of(draw(1, 2), height, width, channels));
    const auto values = [&](const Shape& shape) {
      Tensor value = Tensor::Allocate(run.allocator(), DType::kFloat, shape).value();
      for (int64_t k = 0; k < shape.num_elements(); ++k) {
        // Few, so that the largest is there twice.
        value.mutable_data<float>()[k] = draw(0, 9) == 0 ? std::numeric_limits<float>::quiet_NaN()
                                                         : static_cast<float>(draw(-2, 3));
      }
      return value;
    };
    const Tensor input = values(image);
    const absl::StatusOr<SlidingAttrs> sliding = SlidingAttrs::OfPool(attrs);
    ASSERT_OK(sliding);
    const absl::StatusOr<ConvShape> shape = PreparePool(*sliding, image.dims());
    if (!shape.ok() || shape->output_elements() == 0) continue;
    const Tensor grad = values(Shape::Trusted(shape->output_dims()));
    SCOPED_TRACE(
        absl::StrCat(image.ToString(), " to ", grad.shape().ToString(), first ? " NCHW" : " NHWC"));
    const KernelRunner::Attrs given(attrs.entries().begin(), attrs.entries().end());
    const element::PoolSizes sizes = PoolSizesOf(*shape);
    const auto compare = [&](const auto& item, Tensor& ours, const Tensor& theirs) {
      for (int64_t k = 0; k < ours.num_elements(); ++k) item(static_cast<uint64_t>(k));
      for (int64_t k = 0; k < ours.num_elements(); ++k) {
        const float a = ours.data<float>()[k], b = theirs.data<float>()[k];
        // Shares may be multiplied and added at once.
        EXPECT_TRUE(std::abs(a - b) <= 1e-6f || (a != a && b != b)) << k << ": " << a << " " << b;
      }
      ++compared;
    };
    Tensor pooled = Tensor::Allocate(run.allocator(), DType::kFloat, grad.shape()).value();
    Tensor back = Tensor::Allocate(run.allocator(), DType::kFloat, image).value();
    ASSERT_OK_AND_ASSIGN(const Tensor largest, run.One("MaxPool", given, {input}));
    compare(element::MaxPoolItem<float>{input.data<float>(), pooled.mutable_data<float>(), sizes},
            pooled, largest);
    ASSERT_OK_AND_ASSIGN(const Tensor of_largest,
                         run.One("MaxPoolGrad", given, {input, largest, grad}));
    compare(element::MaxPoolGradItem<float>{input.data<float>(), grad.data<float>(),
                                            back.mutable_data<float>(), sizes, false},
            back, of_largest);
    KernelRunner::Attrs of_average = given;
    std::erase_if(of_average, [](const auto& attr) { return attr.first == "explicit_paddings"; });
    ASSERT_OK_AND_ASSIGN(const Tensor mean, run.One("AvgPool", of_average, {input}));
    compare(element::AvgPoolItem<float>{input.data<float>(), pooled.mutable_data<float>(), sizes},
            pooled, mean);
    Tensor sizes_of_image = Tensor::Allocate(run.allocator(), DType::kInt32, Shape({4})).value();
    for (int d = 0; d < 4; ++d) {
      sizes_of_image.mutable_data<int32_t>()[d] = static_cast<int32_t>(image.dim(d));
    }
    ASSERT_OK_AND_ASSIGN(const Tensor of_mean,
                         run.One("AvgPoolGrad", of_average, {sizes_of_image, grad}));
    compare(element::AvgPoolGradItem<float>{grad.data<float>(), back.mutable_data<float>(), sizes},
            back, of_mean);
  }
  EXPECT_GT(compared, 1000);
}

}  // namespace
}  // namespace formwork::testing
