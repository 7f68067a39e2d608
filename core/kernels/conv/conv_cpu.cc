// Conv2D and its gradients.

#include <memory>
#include <utility>

#include "core/base/status.h"
#include "core/kernels/conv/conv_run.h"
#include "core/kernels/conv/conv_shape.h"
#include "core/kernels/conv/depthwise_cpu.h"
#include "core/kernels/conv/pool_cpu.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/conv.h"

namespace formwork {
namespace {

absl::Status CheckDType(absl::string_view op, DType dtype, bool integers) {
  switch (dtype) {
    case DType::kFloat:
    case DType::kDouble:
    case DType::kHalf:
    case DType::kBfloat16:
      return absl::OkStatus();
    case DType::kInt32:
      if (integers) return absl::OkStatus();
      [[fallthrough]];
    default:
      return Unimplemented(op, ": dtype ", DTypeName(dtype), " is not supported");
  }
}

/// The vector of int32 that says a shape. Errors: kInvalidArgument.
absl::StatusOr<Dims> SizesOf(absl::string_view op, absl::string_view what, const Tensor& sizes) {
  if (sizes.rank() != 1) {
    return InvalidArgument(op, ": ", what, " input must be 1-dim, not ", sizes.rank());
  }
  return IntegersOf(sizes, what);
}

absl::StatusOr<KernelFn> MakeConv2D(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, ParseConvAttrs(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(CheckDType("Conv2D", init.input_dtypes()[0], true));
  FORMWORK_ASSIGN_OR_RETURN(const Epilogue epilogue,
                            Epilogue::FromAttrs(init.attrs(), init.input_dtypes().size()));
  auto memo = std::make_unique<PackedFilterMemo>(/*calls_wanted=*/3);
  return KernelFn([attrs, epilogue, memo = std::move(memo)](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    const Tensor& filter = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape,
                              ConvForwardShape(attrs, input.shape(), filter.shape()));
    FORMWORK_ASSIGN_OR_RETURN(
        const Shape out_shape,
        attrs.layout.Make4d(shape.batch, shape.rows.output, shape.cols.output, shape.out_channels));
    FORMWORK_ASSIGN_OR_RETURN(EpilogueOperands operands,
                              EpilogueOperands::Of(ctx, epilogue, out_shape));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output,
                              operands.AllocateOutput(ctx, input.dtype(), out_shape));
    return RunConvForward(shape, input, filter, operands, *memo, memo->Settled(filter),
                          ctx.allocator(), output);
  });
}

absl::StatusOr<KernelFn> MakeConv2DBackpropInput(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, ParseConvAttrs(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(CheckDType("Conv2DBackpropInput", init.input_dtypes()[1], true));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& filter = ctx.input(1);
    const Tensor& gradient = ctx.input(2);
    FORMWORK_ASSIGN_OR_RETURN(Dims sizes,
                              SizesOf("Conv2DBackpropInput", "input_sizes", ctx.input(0)));
    if (gradient.rank() != 4) {
      return InvalidArgument("input_sizes must be 4-dimensional, got: ", gradient.rank());
    }
    if (filter.rank() != 4) {
      return InvalidArgument("Conv2DCustomBackpropInput: filter must be 4-dimensional");
    }
    if (sizes.size() == 2) {
      // Rows and columns alone.
      sizes = attrs.layout.channels_first
                  ? Dims{gradient.dim(0), filter.dim(2), sizes[0], sizes[1]}
                  : Dims{gradient.dim(0), sizes[0], sizes[1], filter.dim(2)};
    } else if (sizes.size() != 4) {
      return InvalidArgument(
          "Conv2DBackpropInput requires input_sizes to contain 4 values or 2 values, but got: ",
          sizes.size());
    }
    FORMWORK_ASSIGN_OR_RETURN(const Shape input_shape, Shape::Make(sizes));
    FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape,
                              ConvGradientShape("Conv2DCustomBackpropInput", attrs, input_shape,
                                                filter.shape(), gradient.shape()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output,
                              ctx.AllocateOutput(0, gradient.dtype(), input_shape));
    return RunConvInputGradient(shape, filter, gradient, ctx.allocator(), output);
  });
}

absl::StatusOr<KernelFn> MakeConv2DBackpropFilter(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, ParseConvAttrs(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(CheckDType("Conv2DBackpropFilter", init.input_dtypes()[0], false));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    const Tensor& gradient = ctx.input(2);
    FORMWORK_ASSIGN_OR_RETURN(const Dims sizes,
                              SizesOf("Conv2DCustomBackpropFilter", "filter_sizes", ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(const Shape filter_shape, Shape::Make(sizes));
    FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape,
                              ConvGradientShape("Conv2DCustomBackpropFilter", attrs, input.shape(),
                                                filter_shape, gradient.shape()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, input.dtype(), filter_shape));
    return RunConvFilterGradient(shape, input, gradient, ctx.allocator(), output);
  });
}

}  // namespace

void RegisterConvCpuKernels(KernelRegistry& registry) {
  registry.Add("Conv2D", MakeConv2D);
  registry.Add("Conv2DBackpropInput", MakeConv2DBackpropInput);
  registry.Add("Conv2DBackpropFilter", MakeConv2DBackpropFilter);
  AddDepthwiseCpuKernels(registry);
  AddPoolCpuKernels(registry);
}

}  // namespace formwork
