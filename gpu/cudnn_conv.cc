#include "gpu/cudnn_conv.h"

#include <optional>
#include <utility>

#include "core/base/status.h"
#include "core/kernels/enqueued_work.h"
#include "gpu/conv_description.h"
#include "gpu/cuda_stream.h"
#include "gpu/item_kernel.h"

namespace formwork {
namespace {

enum Operand : int64_t { kInput = 1, kFilter, kOutput };

// How cuDNN names what describes a pass.
struct PassNames {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t conv, input, filter, output, alpha, beta;
};
constexpr PassNames kNames[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};

absl::StatusOr<CudnnDescriptor> Window(const ConvDescription& of, cudnnDataType_t compute) {
  FORMWORK_ASSIGN_OR_RETURN(CudnnDescriptor conv,
                            CudnnDescriptor::Make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR));
  FORMWORK_RETURN_IF_ERROR(conv.SetNumbers(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {2}));
  FORMWORK_RETURN_IF_ERROR(
      conv.SetOne(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, compute));
  FORMWORK_RETURN_IF_ERROR(conv.SetOne(CUDNN_ATTR_CONVOLUTION_CONV_MODE,
                                       CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION));
  FORMWORK_RETURN_IF_ERROR(conv.SetNumbers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, of.pad_before));
  FORMWORK_RETURN_IF_ERROR(conv.SetNumbers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, of.pad_after));
  FORMWORK_RETURN_IF_ERROR(conv.SetNumbers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, of.stride));
  FORMWORK_RETURN_IF_ERROR(conv.SetNumbers(CUDNN_ATTR_CONVOLUTION_DILATIONS, of.dilation));
  FORMWORK_RETURN_IF_ERROR(conv.Finalize());
  return conv;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CudnnPlan>> PlanConv(ConvPass pass, DType dtype,
                                                          const ConvShape& shape,
                                                          const CudnnDescriptor* device) {
  const std::optional<ConvDescription> of = ConvDescription::Of(shape);
  if (!of) return Unimplemented("cuDNN is not asked for such a convolution");
  const PassNames& names = kNames[static_cast<size_t>(pass)];
  const auto tensor = [dtype](Operand id, const ConvDescription::Operand& operand) {
    return CudnnTensor(id, dtype, operand.dims, operand.strides);
  };
  FORMWORK_ASSIGN_OR_RETURN(const CudnnDescriptor input, tensor(kInput, of->input));
  FORMWORK_ASSIGN_OR_RETURN(const CudnnDescriptor filter, tensor(kFilter, of->filter));
  FORMWORK_ASSIGN_OR_RETURN(const CudnnDescriptor output, tensor(kOutput, of->output));
  const bool in_double = dtype == DType::kDouble;
  FORMWORK_ASSIGN_OR_RETURN(const CudnnDescriptor window,
                            Window(*of, in_double ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT));
  FORMWORK_ASSIGN_OR_RETURN(CudnnDescriptor operation, CudnnDescriptor::Make(names.operation));
  FORMWORK_RETURN_IF_ERROR(operation.SetPart(names.conv, window));
  FORMWORK_RETURN_IF_ERROR(operation.SetPart(names.input, input));
  FORMWORK_RETURN_IF_ERROR(operation.SetPart(names.filter, filter));
  FORMWORK_RETURN_IF_ERROR(operation.SetPart(names.output, output));
  for (const auto& [name, factor] : {std::pair(names.alpha, 1.0), {names.beta, 0.0}}) {
    FORMWORK_RETURN_IF_ERROR(
        in_double ? operation.SetOne(name, CUDNN_TYPE_DOUBLE, factor)
                  : operation.SetOne(name, CUDNN_TYPE_FLOAT, static_cast<float>(factor)));
  }
  FORMWORK_RETURN_IF_ERROR(operation.Finalize());
  return CudnnPlan::Of(operation, dtype, device);
}

absl::StatusOr<bool> CudnnConv::TryEnqueue(KernelContext& ctx, const ConvShape& shape,
                                           const void* first, const void* second,
                                           void* made) const {
  if (Cudnn::Find() == nullptr) return false;
  FORMWORK_ASSIGN_OR_RETURN(const std::shared_ptr<const CudnnPlan> plan, plans_.Find(shape, [&] {
    return PlanConv(pass_, dtype_, shape, /*device=*/nullptr);
  }));
  if (plan == nullptr) return false;
  const size_t bytes = DTypeSize(dtype_);
  FORMWORK_ASSIGN_OR_RETURN(const Buffer filter,
                            ScratchOf(ctx, static_cast<size_t>(shape.filter_elements()) * bytes));
  const auto reorder = [&](const void* from, void* to, bool back) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const UnitCopy copy, UnitCopyOf(FilterMove(shape, back), bytes));
    return EnqueueUnitCopy(copy, from, to, {}, CudaStreamOf(StreamOf(ctx)));
  };
  const void *input = first, *output = second;
  switch (pass_) {
    case ConvPass::kForward:
      output = made;
      FORMWORK_RETURN_IF_ERROR(reorder(second, filter.data(), /*back=*/false));
      break;
    case ConvPass::kInputGradient:
      input = made;
      FORMWORK_RETURN_IF_ERROR(reorder(first, filter.data(), /*back=*/false));
      break;
    case ConvPass::kFilterGradient:
      break;
  }
  FORMWORK_RETURN_IF_ERROR(
      plan->Enqueue(ctx, {{kInput, input}, {kFilter, filter.data()}, {kOutput, output}}));
  if (pass_ == ConvPass::kFilterGradient) {
    FORMWORK_RETURN_IF_ERROR(reorder(filter.data(), made, /*back=*/true));
  }
  return true;
}

}  // namespace formwork
