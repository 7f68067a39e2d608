#include "core/ops/register_ops.h"

namespace formwork {

void RegisterOps(OpRegistry& registry) {
  RegisterFunctionOps(registry);
  RegisterVariableOps(registry);
  RegisterElementwiseOps(registry);
  RegisterReductionOps(registry);
  RegisterMatmulOps(registry);
  RegisterSegmentOps(registry);
  RegisterNnOps(registry);
  RegisterFakeQuantOps(registry);
  RegisterConvOps(registry);
  RegisterLrnOps(registry);
  RegisterConv3dOps(registry);
  RegisterPoolOps(registry);
  RegisterPoolArgmaxOps(registry);
  RegisterPool3dOps(registry);
  RegisterDilationOps(registry);
  RegisterBatchNormOps(registry);
  RegisterArrayOps(registry);
  RegisterGatherOps(registry);
  RegisterScatterOps(registry);
  RegisterListOps(registry);
  RegisterOptionalOps(registry);
  RegisterRandomOps(registry);
  RegisterCandidateOps(registry);
  RegisterDistributionOps(registry);
  RegisterDebugOps(registry);
  RegisterTrainingOps(registry);
  RegisterStringOps(registry);
  RegisterUnicodeOps(registry);
  RegisterRawBytesOps(registry);
  RegisterImageOps(registry);
  RegisterImageColorOps(registry);
  RegisterNmsOps(registry);
  RegisterImageFileOps(registry);
  RegisterAudioOps(registry);
  RegisterIoOps(registry);
  RegisterParseOps(registry);
  RegisterFftOps(registry);
  RegisterLinalgOps(registry);
  RegisterTableOps(registry);
  RegisterRaggedOps(registry);
  RegisterSparseOps(registry);
  RegisterCompositeOps(registry);
  RegisterDataOps(registry);
  RegisterTensorMapOps(registry);
}

}  // namespace formwork
