// What GPUs do of convolutions (gpu/conv_functions.h), stage by stage and item by item, on the host
// against the op cases, and against the CPU's kernels where windows lie in many ways. Products are
// made here.

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/epilogue.h"
#include "core/ops/register_ops.h"
#include "gpu/conv_items.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"
#include "tests/unit/gpu_products.h"

namespace formwork::testing {
namespace {

namespace element = formwork_element;

// A convolution as a call finds it, its operands where a GPU has them.
struct Call {
  Call(const ConvShape& of, std::initializer_list<const Tensor*> inputs, Tensor& result,
       int64_t rows)
      : shape(of), out(result), to(result), plan(PatchPlan::Of(of, DTypeSize(result.dtype()))) {
    for (const Tensor* input : inputs) in.emplace_back(*input);
    if (plan && rows > 0 && !plan->are_images) plan->chunk = std::min(rows, plan->rows);
    if (plan && plan->chunk > plan->rows_of_image) {
      plan->chunk -= plan->chunk % plan->rows_of_image;
    }
    if (plan) memory.assign(plan->MemoryBytes() / 16 + 1, {{~0ull, ~0ull}});
  }
  char* patches() { return reinterpret_cast<char*>(memory.data()); }
  template <typename E>
  E* input(size_t i) {
    return reinterpret_cast<E*>(in[i].data());
  }

  const ConvShape shape;
  Tensor& out;
  std::vector<Aligned> in;
  Aligned to;
  std::optional<PatchPlan> plan;
  std::vector<element::Bytes16> memory;
};

template <typename E>
absl::Status Forward(Call& call) {
  if (!call.plan) {
    const element::ConvItem<E> item{call.input<E>(0),
                                    call.input<E>(1),
                                    reinterpret_cast<E*>(call.to.data()),
                                    {},
                                    ConvSizesOf(call.shape)};
    return kRun(ConvStage::kForward, item, static_cast<uint64_t>(call.out.num_elements()));
  }
  return RunConvByPatches(call.shape, *call.plan, call.in[0].data(), call.in[1].data(), nullptr,
                          call.to.data(), call.patches(), kRun, Multiplying<E>(false, false));
}

template <typename E>
absl::Status InputGradient(Call& call) {  // Of filter and gradient.
  if (!call.plan) {
    const element::ConvInputItem<E> item{call.input<E>(1), call.input<E>(0),
                                         reinterpret_cast<E*>(call.to.data()),
                                         ConvSizesOf(call.shape)};
    return kRun(ConvStage::kInput, item, static_cast<uint64_t>(call.out.num_elements()));
  }
  return RunConvInputByPatches<E>(call.shape, *call.plan, call.in[0].data(), call.in[1].data(),
                                  call.to.data(), call.patches(), kRun,
                                  Multiplying<E>(false, true));
}

template <typename E>
absl::Status FilterGradient(Call& call) {  // Of input and gradient.
  if (!call.plan) {
    std::vector<double> sums(
        static_cast<size_t>(FilterParts(call.shape) * call.shape.filter_elements()), NAN);
    return RunConvFilterByItems<E>(call.shape, call.input<E>(0), call.input<E>(1),
                                   reinterpret_cast<E*>(call.to.data()), sums.data(), kRun);
  }
  return RunConvFilterByPatches(call.shape, *call.plan, call.in[0].data(), call.in[1].data(),
                                call.to.data(), call.patches(), kRun, Multiplying<E>(true, false));
}

enum class Kind { kForward, kInput, kFilter };

absl::Status RunCall(Kind kind, Call& call) {
  const auto run = [&](auto e) {
    using E = decltype(e);
    switch (kind) {
      case Kind::kForward:
        return Forward<E>(call);
      case Kind::kInput:
        return InputGradient<E>(call);
      default:
        return FilterGradient<E>(call);
    }
  };
  absl::Status status;
  switch (call.out.dtype()) {
    FORMWORK_FLOAT_CASES(status = run(T()); break)
    default:
      return Unimplemented("what a GPU leaves to the host");
  }
  call.to.CopyTo(call.out);
  return status;
}

template <Kind kKind, bool kDepthwise>
absl::StatusOr<KernelFn> Make(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, SlidingAttrs::OfConv(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const auto dims = [&ctx](int i) { return ctx.input(i).shape().dims(); };
    ConvGradient gradient;
    if constexpr (kKind == Kind::kForward) {
      FORMWORK_ASSIGN_OR_RETURN(gradient.shape, kDepthwise
                                                    ? PrepareDepthwise(attrs, dims(0), dims(1))
                                                    : PrepareConv(attrs, dims(0), dims(1)));
      gradient.output = gradient.shape.output_dims();
    } else if constexpr (kKind == Kind::kInput) {
      FORMWORK_ASSIGN_OR_RETURN(
          gradient, kDepthwise
                        ? PrepareDepthwiseInputGradient(attrs, ctx.input(0), dims(1), dims(2))
                        : PrepareConvInputGradient(attrs, ctx.input(0), dims(1), dims(2)));
    } else {
      FORMWORK_ASSIGN_OR_RETURN(
          gradient, kDepthwise
                        ? PrepareDepthwiseFilterGradient(attrs, dims(0), ctx.input(1), dims(2))
                        : PrepareConvFilterGradient(attrs, dims(0), ctx.input(1), dims(2)));
    }
    // The loops here are slow.
    if (gradient.shape.work() > 1e7) return Unimplemented("what a test leaves to the host");
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(gradient.output));
    FORMWORK_ASSIGN_OR_RETURN(
        Tensor * out,
        ctx.AllocateOutput(0, ctx.input(2 * (kKind != Kind::kForward)).dtype(), shape));
    const Tensor* const first = &ctx.input(kKind == Kind::kInput ? 1 : 0);
    const Tensor* const second = &ctx.input(kKind == Kind::kForward ? 1 : 2);
    Call call(gradient.shape, {first, second}, *out, 0);
    return RunCall(kKind, call);
  });
}

class GpuConvsTest : public ::testing::Test {
 protected:
  GpuConvsTest() {
    RegisterOps(ops_);
    kernels_.Add("Conv2D", &Make<Kind::kForward, false>);
    kernels_.Add("Conv2DBackpropFilter", &Make<Kind::kFilter, false>);
    kernels_.Add("Conv2DBackpropInput", &Make<Kind::kInput, false>);
    kernels_.Add("DepthwiseConv2dNative", &Make<Kind::kForward, true>);
    kernels_.Add("DepthwiseConv2dNativeBackpropFilter", &Make<Kind::kFilter, true>);
    kernels_.Add("DepthwiseConv2dNativeBackpropInput", &Make<Kind::kInput, true>);
  }

  OpRegistry ops_;
  KernelRegistry kernels_{ops_};
};

TEST_F(GpuConvsTest, GiveWhatTensorFlowDoes) {
  std::map<std::string, int> tried =
      RunGpuCases({.files = {"conv", "nn"}, .some_are_hosts = true}, ops_, kernels_);
  for (const std::string& op : kernels_.Names()) EXPECT_GT(tried[op], 4) << op;
}

TEST_F(GpuConvsTest, WindowsOfManyKindsGiveWhatTheCpuDoes) {
  std::mt19937_64 random(1);
  const auto draw = [&random](int least, int most) {
    return static_cast<int64_t>(least + static_cast<int>(random() % (most - least + 1)));
  };
  KernelRunner run;
  int compared = 0, in_parts = 0, by_items = 0;
  for (int i = 0; i < 600; ++i) {
    const bool same = draw(0, 1) == 1, first = draw(0, 7) == 0;
    const int64_t groups = draw(0, 5) == 0 ? 2 : 1;
    const Shape image = Shape::Trusted(
        ImageLayout{first}.Of(draw(1, 3), draw(1, 9), draw(1, 9), groups * draw(1, 4)));
    const int64_t channels = image.dim(first ? 1 : 3);
    const Shape filter({draw(1, 3), draw(1, 3), channels / groups, groups * draw(1, 4)});
    const auto of_image = [&](int64_t rows, int64_t cols) {
      return first ? std::vector<int64_t>{1, 1, rows, cols}
                   : std::vector<int64_t>{1, rows, cols, 1};
    };
    AttrMap attrs;
    attrs.Set("T", DType::kFloat);
    attrs.Set("strides", of_image(draw(1, 3), draw(1, 3)));
    attrs.Set("dilations", of_image(draw(1, 2), draw(1, 2)));
    attrs.Set("padding", std::string(same ? "SAME" : "VALID"));
    attrs.Set("explicit_paddings", std::vector<int64_t>{});
    attrs.Set("use_cudnn_on_gpu", true);
    attrs.Set("data_format", std::string(first ? "NCHW" : "NHWC"));
    const absl::StatusOr<SlidingAttrs> sliding = SlidingAttrs::OfConv(attrs);
    ASSERT_OK(sliding);
    const absl::StatusOr<ConvShape> shape = PrepareConv(*sliding, image.dims(), filter.dims());
    if (!shape.ok() || shape->output_elements() == 0) continue;
    const auto values = [&](const Shape& of) {
      Tensor value = Tensor::Allocate(run.allocator(), DType::kFloat, of).value();
      for (int64_t k = 0; k < of.num_elements(); ++k) {
        value.mutable_data<float>()[k] = static_cast<float>(draw(-8, 8)) / 4;
      }
      return value;
    };
    const auto sizes = [&](const Shape& of) {
      Tensor value = Tensor::Allocate(run.allocator(), DType::kInt32, Shape({4})).value();
      for (int d = 0; d < 4; ++d)
        value.mutable_data<int32_t>()[d] = static_cast<int32_t>(of.dim(d));
      return value;
    };
    const Tensor x = values(image), w = values(filter);
    const Tensor dy = values(Shape::Trusted(shape->output_dims()));
    SCOPED_TRACE(absl::StrCat(i, ": ", image.ToString(), " by ", filter.ToString(), " to ",
                              dy.shape().ToString(), first ? " NCHW" : " NHWC"));
    const KernelRunner::Attrs given(attrs.entries().begin(), attrs.entries().end());
    const auto compare = [&](Kind kind, absl::string_view op, std::vector<Tensor> inputs,
                             const Tensor& a, const Tensor& b) {
      const absl::StatusOr<Tensor> theirs = run.One(op, given, std::move(inputs));
      ASSERT_OK(theirs);
      Tensor ours = Tensor::Allocate(run.allocator(), DType::kFloat, theirs->shape()).value();
      Call call(*shape, {&a, &b}, ours, draw(0, 12));
      ASSERT_OK(RunCall(kind, call));
      for (int64_t k = 0; k < ours.num_elements(); ++k) {
        EXPECT_NEAR(ours.data<float>()[k], theirs->data<float>()[k], 1e-4) << op << " at " << k;
      }
      ++compared;
      in_parts += call.plan && call.plan->chunk < call.plan->rows;
      by_items += !call.plan;
    };
    compare(Kind::kForward, "Conv2D", {x, w}, x, w);
    compare(Kind::kInput, "Conv2DBackpropInput", {sizes(image), w, dy}, w, dy);
    compare(Kind::kFilter, "Conv2DBackpropFilter", {x, sizes(filter), dy}, x, dy);
  }
  EXPECT_GT(compared, 1000);
  EXPECT_GT(in_parts, 300);
  EXPECT_GT(by_items, 100);
}

TEST_F(GpuConvsTest, ItemsGoOnWithWhatAnEpilogueAsksFor) {
  const float scale[] = {2, -1}, bias[] = {1, 0.5f}, residual[] = {0, 0, 0, -100, 100};
  const auto of = [&](Activation activation, float x, uint64_t i, int64_t channel) {
    return element::ConvEpilogue<float>{scale, bias, residual, static_cast<int32_t>(activation)}.Of(
        x, i, channel);
  };
  EXPECT_EQ(of(Activation::kNone, 3, 0, 0), 7);
  EXPECT_EQ(of(Activation::kNone, 3, 3, 1), -102.5f);
  EXPECT_EQ(of(Activation::kRelu, 3, 3, 1), 0);
  EXPECT_EQ(of(Activation::kRelu, 3, 4, 1), 97.5f);
  EXPECT_EQ(of(Activation::kRelu6, 3, 4, 1), 6);
  EXPECT_NEAR(of(Activation::kGelu, 0, 0, 0), 0.84134475f, 1e-6);
  EXPECT_EQ((element::ConvEpilogue<float>{}.Of(3.0f, 0, 0)), 3);
}

}  // namespace
}  // namespace formwork::testing
