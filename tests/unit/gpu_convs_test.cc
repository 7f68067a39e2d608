// What GPUs do of convolutions (gpu/conv_functions.h), stage by stage and item by item, on the host
// against the op cases, and against the CPU's kernels where windows lie in many ways. Products are
// made here, and so is what cuDNN makes of a description.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/epilogue.h"
#include "core/ops/register_ops.h"
#include "gpu/conv_description.h"
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

// The filter in the order that cuDNN is given, or back.
std::vector<float> Reordered(const ConvShape& shape, const float* filter, bool back) {
  std::vector<element::Bytes16> from(static_cast<size_t>(shape.filter_elements()) / 4 + 1),
      to(from);
  const size_t bytes = static_cast<size_t>(shape.filter_elements()) * sizeof(float);
  std::memcpy(from.data(), filter, bytes);
  const absl::StatusOr<UnitCopy> copy = UnitCopyOf(FilterMove(shape, back), sizeof(float));
  EXPECT_OK(copy);
  WithUnit(copy->unit, [&](auto unit) {
    RunItems(CopyItemOf<decltype(unit)>(*copy, from.data(), to.data()), copy->units);
  });
  const auto* const made = reinterpret_cast<const float*>(to.data());
  return {made, made + shape.filter_elements()};
}

// What cuDNN's documentation says that a convolution of these dimensions and strides is. Operands
// are those of the pass; null: it is the one that is made.
std::vector<float> ByDescription(const ConvDescription& of, const float* x, const float* w,
                                 const float* y) {
  const auto elements = [](const ConvDescription::Operand& operand) {
    return static_cast<size_t>(operand.dims[0] * operand.dims[1] * operand.dims[2] *
                               operand.dims[3]);
  };
  std::vector<float> made(elements(x == nullptr ? of.input : w == nullptr ? of.filter : of.output));
  const auto at = [](const ConvDescription::Operand& operand, int64_t a, int64_t b, int64_t c,
                     int64_t d) {
    const auto& s = operand.strides;
    return a * s[0] + b * s[1] + c * s[2] + d * s[3];
  };
  const int64_t in_group = of.filter.dims[1];
  const int64_t out_group = of.filter.dims[0] / (of.input.dims[1] / in_group);
  const auto& out = of.output.dims;
  const auto& window = of.filter.dims;
  const int64_t terms =
      static_cast<int64_t>(elements(of.output)) * in_group * window[2] * window[3];
  for (int64_t i = 0; i < terms; ++i) {
    int64_t rest = i;
    const auto next = [&rest](int64_t size) { return std::exchange(rest, rest / size) % size; };
    const int64_t q = next(out[3]), p = next(out[2]), k = next(out[1]), n = next(out[0]);
    const int64_t s = next(window[3]), r = next(window[2]), c = next(in_group);
    const int64_t row = p * of.stride[0] - of.pad_before[0] + r * of.dilation[0];
    const int64_t col = q * of.stride[1] - of.pad_before[1] + s * of.dilation[1];
    if (row < 0 || row >= of.input.dims[2] || col < 0 || col >= of.input.dims[3]) continue;
    const int64_t in = at(of.input, n, k / out_group * in_group + c, row, col);
    const int64_t tap = at(of.filter, k, c, r, s);
    const int64_t to = at(of.output, n, k, p, q);
    if (x == nullptr) made[in] += w[tap] * y[to];
    if (w == nullptr) made[tap] += x[in] * y[to];
    if (y == nullptr) made[to] += x[in] * w[tap];
  }
  return made;
}

std::vector<float> ByDescription(Kind kind, const ConvShape& shape, const ConvDescription& of,
                                 const Tensor& first, const Tensor& second) {
  const auto* const a = first.data<float>();
  const auto* const b = second.data<float>();
  switch (kind) {
    case Kind::kForward:
      return ByDescription(of, a, Reordered(shape, b, false).data(), nullptr);
    case Kind::kInput:
      return ByDescription(of, nullptr, Reordered(shape, a, false).data(), b);
    default:
      return Reordered(shape, ByDescription(of, a, nullptr, b).data(), true);
  }
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
  int compared = 0, in_parts = 0, by_items = 0, described = 0;
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
      if (const std::optional<ConvDescription> of = ConvDescription::Of(*shape)) {
        const std::vector<float> made = ByDescription(kind, *shape, *of, a, b);
        ASSERT_EQ(made.size(), static_cast<size_t>(ours.num_elements()));
        for (size_t k = 0; k < made.size(); ++k) {
          EXPECT_NEAR(made[k], theirs->data<float>()[k], 1e-4) << op << " as described at " << k;
        }
        ++described;
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
  EXPECT_GT(described, 1000);
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

// The same of a result that is in memory, as one elementwise program.
TEST_F(GpuConvsTest, AnEpiloguesProgramDoesItsStepsInOrder) {
  for (int bits = 0; bits < 32; ++bits) {
    const Epilogue epilogue{
        (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0,
        bits & 8 ? bits & 16 ? Activation::kRelu6 : Activation::kRelu : Activation::kNone};
    const ElementProgram program = EpilogueProgram(epilogue, DType::kFloat);
    std::vector<float> values = {3};
    if (epilogue.scale) values.push_back(-2);
    if (epilogue.bias) values.push_back(4.5f);
    if (epilogue.residual) values.push_back(11);
    ASSERT_EQ(program.inputs, std::vector<DType>(values.size(), DType::kFloat));
    for (const ElementProgram::Instruction& step : program.instructions) {
      const float a = values[step.operands[0]];
      const absl::string_view op = step.op->name;
      ASSERT_EQ(step.operands.size(), static_cast<size_t>(step.op->arity));
      values.push_back(op == "Mul"     ? a * values[step.operands[1]]
                       : op == "AddV2" ? a + values[step.operands[1]]
                       : op == "Relu"  ? std::max(a, 0.0f)
                                       : std::clamp(a, 0.0f, 6.0f));
    }
    const float scale = -2, bias = 4.5f, residual = 11;
    const element::ConvEpilogue<float> wanted{
        epilogue.scale ? &scale : nullptr, epilogue.bias ? &bias : nullptr,
        epilogue.residual ? &residual : nullptr, static_cast<int32_t>(epilogue.activation)};
    ASSERT_EQ(program.outputs.size(), 1u);
    EXPECT_EQ(values[program.outputs[0]], wanted.Of(3.0f, 0, 0)) << bits;
  }
}

}  // namespace
}  // namespace formwork::testing
