// Conv2D and its gradients.

#include <memory>
#include <utility>

#include "core/base/status.h"
#include "core/kernels/conv/conv_run.h"
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

absl::StatusOr<KernelFn> MakeConv2D(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, SlidingAttrs::OfConv(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(CheckDType("Conv2D", init.input_dtypes()[0], true));
  FORMWORK_ASSIGN_OR_RETURN(const Epilogue epilogue,
                            Epilogue::FromAttrs(init.attrs(), init.input_dtypes().size()));
  auto memo = std::make_unique<PackedFilterMemo>(/*calls_wanted=*/3);
  return KernelFn([attrs, epilogue, memo = std::move(memo)](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    const Tensor& filter = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(const ConvShape shape,
                              PrepareConv(attrs, input.shape().dims(), filter.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape out_shape, Shape::Make(shape.output_dims()));
    FORMWORK_ASSIGN_OR_RETURN(EpilogueOperands operands,
                              EpilogueOperands::Of(ctx, epilogue, out_shape));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output,
                              operands.AllocateOutput(ctx, input.dtype(), out_shape));
    return RunConvForward(shape, input, filter, operands, *memo, memo->Settled(filter),
                          ctx.allocator(), output);
  });
}

absl::StatusOr<KernelFn> MakeConv2DBackpropInput(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, SlidingAttrs::OfConv(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(CheckDType("Conv2DBackpropInput", init.input_dtypes()[1], true));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& filter = ctx.input(1);
    const Tensor& gradient = ctx.input(2);
    FORMWORK_ASSIGN_OR_RETURN(const ConvGradient geometry,
                              PrepareConvInputGradient(attrs, ctx.input(0), filter.shape().dims(),
                                                       gradient.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape input_shape, Shape::Make(geometry.output));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output,
                              ctx.AllocateOutput(0, gradient.dtype(), input_shape));
    return RunConvInputGradient(geometry.shape, filter, gradient, ctx.allocator(), output);
  });
}

absl::StatusOr<KernelFn> MakeConv2DBackpropFilter(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SlidingAttrs attrs, SlidingAttrs::OfConv(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(CheckDType("Conv2DBackpropFilter", init.input_dtypes()[0], false));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    const Tensor& gradient = ctx.input(2);
    FORMWORK_ASSIGN_OR_RETURN(const ConvGradient geometry,
                              PrepareConvFilterGradient(attrs, input.shape().dims(), ctx.input(1),
                                                        gradient.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape filter_shape, Shape::Make(geometry.output));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, input.dtype(), filter_shape));
    return RunConvFilterGradient(geometry.shape, input, gradient, ctx.allocator(), output);
  });
}

}  // namespace

void RegisterConvCpuKernels(KernelRegistry& registry) {
  registry.Add("Conv2D", MakeConv2D);
  registry.Add("Conv2DBackpropInput", MakeConv2DBackpropInput);
  registry.Add("Conv2DBackpropFilter", MakeConv2DBackpropFilter);
  AddConv3dCpuKernels(registry);
  AddDepthwiseCpuKernels(registry);
  AddPoolCpuKernels(registry);
}

}  // namespace formwork
