#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

void RegisterSegmentOps(OpRegistry& registry) {
  registry.Add(
      "UnsortedSegmentSum(data: T, segment_ids: Tindices, num_segments: Tnumsegments) -> "
      "(output: T); T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, "
      "quint8, qint32, bfloat16, qint16, quint16, uint16, complex128, half, uint32, "
      "uint64}; Tindices: {int16, int32, int64}; Tnumsegments: {int32, int64} = int32",
      {});
}

}  // namespace formwork
