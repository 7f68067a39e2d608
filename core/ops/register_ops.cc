#include "core/ops/register_ops.h"

namespace formwork {

absl::Span<const OpFamily> OpFamilies() {
  static constexpr OpFamily kFamilies[] = {
      {"function", RegisterFunctionOps},
      {"variable", RegisterVariableOps},
      {"elementwise", RegisterElementwiseOps},
      {"reduction", RegisterReductionOps},
      {"matmul", RegisterMatmulOps},
      {"segment", RegisterSegmentOps},
      {"nn", RegisterNnOps},
      {"ctc", RegisterCtcOps},
      {"nearest", RegisterNearestOps},
      {"fake_quant", RegisterFakeQuantOps},
      {"quantize", RegisterQuantizeOps},
      {"quantized", RegisterQuantizedOps},
      {"conv", RegisterConvOps},
      {"lrn", RegisterLrnOps},
      {"conv3d", RegisterConv3dOps},
      {"pool", RegisterPoolOps},
      {"pool_argmax", RegisterPoolArgmaxOps},
      {"fractional_pool", RegisterFractionalPoolOps},
      {"pool3d", RegisterPool3dOps},
      {"dilation", RegisterDilationOps},
      {"batch_norm", RegisterBatchNormOps},
      {"global_norm", RegisterGlobalNormOps},
      {"array", RegisterArrayOps},
      {"data_format", RegisterDataFormatOps},
      {"gather", RegisterGatherOps},
      {"scatter", RegisterScatterOps},
      {"list", RegisterListOps},
      {"optional", RegisterOptionalOps},
      {"random", RegisterRandomOps},
      {"candidate", RegisterCandidateOps},
      {"sampled_box", RegisterSampledBoxOps},
      {"index_shuffle", RegisterIndexShuffleOps},
      {"sobol", RegisterSobolOps},
      {"glimpse", RegisterGlimpseOps},
      {"distribution", RegisterDistributionOps},
      {"debug", RegisterDebugOps},
      {"training", RegisterTrainingOps},
      {"string", RegisterStringOps},
      {"unicode", RegisterUnicodeOps},
      {"raw_bytes", RegisterRawBytesOps},
      {"image", RegisterImageOps},
      {"image_color", RegisterImageColorOps},
      {"nms", RegisterNmsOps},
      {"image_files", RegisterImageFileOps},
      {"audio", RegisterAudioOps},
      {"io", RegisterIoOps},
      {"parse", RegisterParseOps},
      {"fft", RegisterFftOps},
      {"linalg", RegisterLinalgOps},
      {"table", RegisterTableOps},
      {"mutex", RegisterMutexOps},
      {"queue", RegisterQueueOps},
      {"stack", RegisterStackOps},
      {"barrier", RegisterBarrierOps},
      {"staging", RegisterStagingOps},
      {"accumulator", RegisterAccumulatorOps},
      {"ragged", RegisterRaggedOps},
      {"sparse", RegisterSparseOps},
      {"sparse_matrix", RegisterSparseMatrixOps},
      {"composite", RegisterCompositeOps},
      {"data", RegisterDataOps},
      {"tensor_map", RegisterTensorMapOps},
  };
  return kFamilies;
}

void RegisterOps(OpRegistry& registry) {
  for (const OpFamily& family : OpFamilies()) family.add(registry);
}

}  // namespace formwork
