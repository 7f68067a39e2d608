// What GPUs do of pooled volumes (gpu/pool3d_functions.h), item by item, on the host against the op
// cases, and against the CPU's kernels where windows lie in many ways.

#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/register_ops.h"
#include "gpu/pool3d_items.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

namespace element = formwork_element;

// Into a new output of `dims`, of `dtype`: `run(E())`.
template <typename Run>
absl::Status Make(KernelContext& ctx, DType dtype, const Dims& dims, Run run) {
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), dtype, shape));
  const auto items = [&](auto e) {
    const auto item = run(e, out.mutable_data<decltype(e)>());
    for (auto i = static_cast<uint64_t>(shape.num_elements()); i-- > 0;) item(i);
  };
  if (dtype == DType::kFloat) {
    items(float());
  } else {
    items(bfloat16());
  }
  ctx.SetOutput(0, std::move(out));
  return absl::OkStatus();
}

absl::StatusOr<Pool3dAttrs> AttrsOf(KernelInit& init) {
  if (!Pool3dItemName(init.op().name, init.output_dtypes()[0]).ok()) {
    return Unimplemented("what a GPU leaves to the host");
  }
  return Pool3dAttrs::FromAttrs(init.attrs());
}

template <template <typename> typename Item>
absl::StatusOr<KernelFn> MakeForward(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const Pool3dAttrs attrs, AttrsOf(init));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& in = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const Pool3dGeometry s, PreparePool3d(attrs, in.shape().dims()));
    return Make(ctx, in.dtype(), s.output_dims(), [&](auto e, auto* out) {
      return Item<decltype(e)>{in.data<decltype(e)>(), out, Pool3dSizesOf(s)};
    });
  });
}

absl::StatusOr<KernelFn> MakeMaxPoolGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const Pool3dAttrs attrs, AttrsOf(init));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor &in = ctx.input(0), &pooled = ctx.input(1), &grad = ctx.input(2);
    FORMWORK_ASSIGN_OR_RETURN(
        const Pool3dGeometry s,
        PrepareMaxPool3dGrad(attrs, in.shape(), pooled.shape(), grad.shape()));
    return Make(ctx, grad.dtype(), s.input_dims(), [&](auto e, auto* out) {
      using E = decltype(e);
      return element::MaxPool3DGradItem<E>{in.data<E>(), pooled.data<E>(), grad.data<E>(), out,
                                           Pool3dSizesOf(s)};
    });
  });
}

absl::StatusOr<KernelFn> MakeAvgPoolGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const Pool3dAttrs attrs, AttrsOf(init));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& grad = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(const Pool3dGeometry s,
                              PrepareAvgPool3dGrad(attrs, ctx.input(0), grad.shape()));
    return Make(ctx, grad.dtype(), s.input_dims(), [&](auto e, auto* out) {
      return element::AvgPool3DGradItem<decltype(e)>{grad.data<decltype(e)>(), out,
                                                     Pool3dSizesOf(s)};
    });
  });
}

class GpuPools3dTest : public ::testing::Test {
 protected:
  GpuPools3dTest() {
    RegisterOps(ops_);
    kernels_.Add("AvgPool3D", &MakeForward<element::AvgPool3DItem>);
    kernels_.Add("AvgPool3DGrad", &MakeAvgPoolGrad);
    kernels_.Add("MaxPool3D", &MakeForward<element::MaxPool3DItem>);
    kernels_.Add("MaxPool3DGrad", &MakeMaxPoolGrad);
  }

  OpRegistry ops_;
  KernelRegistry kernels_{ops_};
};

TEST_F(GpuPools3dTest, GiveWhatTensorFlowDoes) {
  std::map<std::string, int> tried =
      RunGpuCases({.files = {"nn"}, .some_are_hosts = true}, ops_, kernels_);
  for (const std::string& op : kernels_.Names()) EXPECT_GT(tried[op], 1) << op;
}

TEST_F(GpuPools3dTest, WindowsOfManyKindsGiveWhatTheCpuDoes) {
  std::mt19937_64 random(1);
  const auto draw = [&random](int least, int most) {
    return static_cast<int64_t>(least + static_cast<int>(random() % (most - least + 1)));
  };
  KernelRunner run;
  int compared = 0;
  for (int i = 0; i < 200; ++i) {
    AttrMap attrs;
    attrs.Set("T", DType::kFloat);
    attrs.Set("ksize", std::vector<int64_t>{1, draw(1, 4), draw(1, 4), draw(1, 4), 1});
    attrs.Set("strides", std::vector<int64_t>{1, draw(1, 4), draw(1, 4), draw(1, 4), 1});
    attrs.Set("padding", std::string(draw(0, 1) == 1 ? "SAME" : "VALID"));
    attrs.Set("data_format", std::string("NDHWC"));
    const Shape volume({draw(1, 2), draw(1, 6), draw(1, 6), draw(1, 6), draw(1, 3)});
    const auto values = [&](const Shape& shape) {
      Tensor value = Tensor::Allocate(run.allocator(), DType::kFloat, shape).value();
      for (int64_t k = 0; k < shape.num_elements(); ++k) {
        value.mutable_data<float>()[k] = static_cast<float>(draw(-2, 3));  // Some are as large.
      }
      return value;
    };
    ASSERT_OK_AND_ASSIGN(const Pool3dAttrs pool, Pool3dAttrs::FromAttrs(attrs));
    const absl::StatusOr<Pool3dGeometry> geometry = PreparePool3d(pool, volume.dims());
    if (!geometry.ok()) continue;
    const Shape output = Shape::Trusted(geometry->output_dims());
    if (output.num_elements() == 0) continue;
    const Tensor input = values(volume), grad = values(output);
    SCOPED_TRACE(absl::StrCat(volume.ToString(), " to ", output.ToString()));
    const element::Pool3dSizes sizes = Pool3dSizesOf(*geometry);
    const auto compare = [&](auto item, const Tensor& theirs) {
      Tensor ours = Tensor::Allocate(run.allocator(), DType::kFloat, theirs.shape()).value();
      item.out = ours.mutable_data<float>();
      for (int64_t k = 0; k < ours.num_elements(); ++k) item(static_cast<uint64_t>(k));
      for (int64_t k = 0; k < ours.num_elements(); ++k) {
        EXPECT_NEAR(ours.data<float>()[k], theirs.data<float>()[k], 1e-6) << k;
      }
      ++compared;
    };
    const KernelRunner::Attrs given(attrs.entries().begin(), attrs.entries().end());
    const float* const in = input.data<float>();
    const float* const of = grad.data<float>();
    ASSERT_OK_AND_ASSIGN(const Tensor largest, run.One("MaxPool3D", given, {input}));
    compare(element::MaxPool3DItem<float>{in, nullptr, sizes}, largest);
    ASSERT_OK_AND_ASSIGN(const Tensor mean, run.One("AvgPool3D", given, {input}));
    compare(element::AvgPool3DItem<float>{in, nullptr, sizes}, mean);
    KernelRunner::Attrs of_largest = given;
    of_largest.emplace_back("TInput", DType::kFloat);
    ASSERT_OK_AND_ASSIGN(const Tensor back,
                         run.One("MaxPool3DGrad", of_largest, {input, largest, grad}));
    compare(element::MaxPool3DGradItem<float>{in, largest.data<float>(), of, nullptr, sizes}, back);
    Tensor dims = Tensor::Allocate(run.allocator(), DType::kInt32, Shape({5})).value();
    for (int d = 0; d < 5; ++d) {
      dims.mutable_data<int32_t>()[d] = static_cast<int32_t>(volume.dim(d));
    }
    ASSERT_OK_AND_ASSIGN(const Tensor shared, run.One("AvgPool3DGrad", given, {dims, grad}));
    compare(element::AvgPool3DGradItem<float>{of, nullptr, sizes}, shared);
  }
  EXPECT_GT(compared, 300);
}

}  // namespace
}  // namespace formwork::testing
