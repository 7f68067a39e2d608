#pragma once

// The explicit list of op families (static initialisers of a static library would be dropped by the
// linker).

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/ops/op_def.h"

namespace formwork {

/// Adds every op of every family.
void RegisterOps(OpRegistry& registry);

/// A family of ops, by its file's name.
struct OpFamily {
  absl::string_view name;
  void (*add)(OpRegistry& registry);
};
absl::Span<const OpFamily> OpFamilies();

// One per family file, core/ops/<family>.cc.
void RegisterFunctionOps(OpRegistry& registry);
void RegisterVariableOps(OpRegistry& registry);
void RegisterElementwiseOps(OpRegistry& registry);
void RegisterReductionOps(OpRegistry& registry);
void RegisterMatmulOps(OpRegistry& registry);
void RegisterSegmentOps(OpRegistry& registry);
void RegisterNnOps(OpRegistry& registry);
void RegisterCtcOps(OpRegistry& registry);
void RegisterNearestOps(OpRegistry& registry);
void RegisterFakeQuantOps(OpRegistry& registry);
void RegisterQuantizeOps(OpRegistry& registry);
void RegisterQuantizedOps(OpRegistry& registry);
void RegisterConvOps(OpRegistry& registry);
void RegisterLrnOps(OpRegistry& registry);
void RegisterConv3dOps(OpRegistry& registry);
void RegisterPoolOps(OpRegistry& registry);
void RegisterPoolArgmaxOps(OpRegistry& registry);
void RegisterFractionalPoolOps(OpRegistry& registry);
void RegisterPool3dOps(OpRegistry& registry);
void RegisterDilationOps(OpRegistry& registry);
void RegisterBatchNormOps(OpRegistry& registry);
void RegisterGlobalNormOps(OpRegistry& registry);
void RegisterArrayOps(OpRegistry& registry);
void RegisterDataFormatOps(OpRegistry& registry);
void RegisterGatherOps(OpRegistry& registry);
void RegisterScatterOps(OpRegistry& registry);
void RegisterListOps(OpRegistry& registry);
void RegisterOptionalOps(OpRegistry& registry);
void RegisterRandomOps(OpRegistry& registry);
void RegisterCandidateOps(OpRegistry& registry);
void RegisterSampledBoxOps(OpRegistry& registry);
void RegisterIndexShuffleOps(OpRegistry& registry);
void RegisterSobolOps(OpRegistry& registry);
void RegisterGlimpseOps(OpRegistry& registry);
void RegisterDistributionOps(OpRegistry& registry);
void RegisterDebugOps(OpRegistry& registry);
void RegisterTrainingOps(OpRegistry& registry);
void RegisterStringOps(OpRegistry& registry);
void RegisterUnicodeOps(OpRegistry& registry);
void RegisterRawBytesOps(OpRegistry& registry);
void RegisterImageOps(OpRegistry& registry);
void RegisterImageColorOps(OpRegistry& registry);
void RegisterNmsOps(OpRegistry& registry);
void RegisterImageFileOps(OpRegistry& registry);
void RegisterAudioOps(OpRegistry& registry);
void RegisterIoOps(OpRegistry& registry);
void RegisterParseOps(OpRegistry& registry);
void RegisterFftOps(OpRegistry& registry);
void RegisterLinalgOps(OpRegistry& registry);
void RegisterTableOps(OpRegistry& registry);
void RegisterMutexOps(OpRegistry& registry);
void RegisterQueueOps(OpRegistry& registry);
void RegisterStackOps(OpRegistry& registry);
void RegisterBarrierOps(OpRegistry& registry);
void RegisterStagingOps(OpRegistry& registry);
void RegisterAccumulatorOps(OpRegistry& registry);
void RegisterRaggedOps(OpRegistry& registry);
void RegisterSparseOps(OpRegistry& registry);
void RegisterSparseMatrixOps(OpRegistry& registry);
void RegisterCompositeOps(OpRegistry& registry);
void RegisterDataOps(OpRegistry& registry);
void RegisterTensorMapOps(OpRegistry& registry);

}  // namespace formwork
