#include "gpu/cudnn_attention.h"

#include "core/base/status.h"

namespace formwork {
namespace {

enum Operand : int64_t { kQuery = 1, kKey, kValue, kOutput, kScale };

}  // namespace

absl::StatusOr<std::shared_ptr<const CudnnPlan>> PlanAttention(
    DType dtype, const AttentionDescription& description, const CudnnDescriptor* device) {
  const auto tensor = [dtype](Operand id, const AttentionDescription::Operand& operand) {
    return CudnnTensor(id, dtype, operand.dims, operand.strides);
  };
  FORMWORK_ASSIGN_OR_RETURN(const CudnnDescriptor q, tensor(kQuery, description.q));
  FORMWORK_ASSIGN_OR_RETURN(const CudnnDescriptor k, tensor(kKey, description.k));
  FORMWORK_ASSIGN_OR_RETURN(const CudnnDescriptor v, tensor(kValue, description.v));
  FORMWORK_ASSIGN_OR_RETURN(const CudnnDescriptor output, tensor(kOutput, description.output));
  FORMWORK_ASSIGN_OR_RETURN(const CudnnDescriptor scale, CudnnScalar(kScale));
  FORMWORK_ASSIGN_OR_RETURN(CudnnDescriptor operation,
                            CudnnDescriptor::Make(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR));
  FORMWORK_RETURN_IF_ERROR(operation.SetPart(CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, q));
  FORMWORK_RETURN_IF_ERROR(operation.SetPart(CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, k));
  FORMWORK_RETURN_IF_ERROR(operation.SetPart(CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, v));
  FORMWORK_RETURN_IF_ERROR(operation.SetPart(CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, output));
  FORMWORK_RETURN_IF_ERROR(operation.SetPart(CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, scale));
  FORMWORK_RETURN_IF_ERROR(operation.Finalize());
  return CudnnPlan::Of(operation, dtype, device);
}

absl::StatusOr<bool> CudnnAttention::TryEnqueue(KernelContext& ctx,
                                                const AttentionDescription& description,
                                                float scale, const void* q, const void* k,
                                                const void* v, void* output) const {
  if (Cudnn::Find() == nullptr) return false;
  FORMWORK_ASSIGN_OR_RETURN(
      const std::shared_ptr<const CudnnPlan> plan,
      plans_.Find(description, [&] { return PlanAttention(dtype_, description, nullptr); }));
  if (plan == nullptr) return false;
  FORMWORK_RETURN_IF_ERROR(plan->Enqueue(
      ctx, {{kQuery, q}, {kKey, k}, {kValue, v}, {kOutput, output}, {kScale, &scale}}));
  return true;
}

}  // namespace formwork
