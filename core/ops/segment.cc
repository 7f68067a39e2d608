#include "core/base/status.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

// The rows of data after the dimensions of segment_ids, `count` (-1: unknown) of them.
absl::Status RowsShape(InferenceContext& c, int64_t count) {
  const PartialShape& data = c.input(0);
  const PartialShape& ids = c.input(1);
  if (!data.known_rank() || !ids.known_rank()) return absl::OkStatus();
  if (ids.rank() > data.rank()) {
    return InvalidArgument("segment_ids has more dimensions than data: data=", data.ToString(),
                           " segment_ids=", ids.ToString());
  }
  Dims dims = {count};
  for (int d = ids.rank(); d < data.rank(); ++d) dims.push_back(data.dim(d));
  c.set_output(0, PartialShape::Trusted(dims));
  return absl::OkStatus();
}

absl::Status UnsortedSegmentShape(InferenceContext& c) {
  int64_t count = -1;
  if (const Tensor* tensor = c.constant(2); tensor != nullptr && tensor->num_elements() == 1) {
    FORMWORK_ASSIGN_OR_RETURN(Dims values, IntegersOf(*tensor, "num_segments"));
    if (values[0] < 0) {
      return InvalidArgument("Input num_segments == ", values[0], " must not be negative.");
    }
    count = values[0];
  }
  return RowsShape(c, count);
}

absl::Status SegmentShape(InferenceContext& c) { return RowsShape(c, -1); }

}  // namespace

void RegisterSegmentOps(OpRegistry& registry) {
  registry.Add(
      "UnsortedSegmentSum(data: T, segment_ids: Tindices, num_segments: host Tnumsegments) -> "
      "(output: T); T: numbertype; Tindices: {int16, int32, int64}; Tnumsegments: indextype = "
      "int32",
      {.shape_fn = UnsortedSegmentShape, .sized_by_value = true});
  registry.Add(
      "UnsortedSegmentMax(data: T, segment_ids: Tindices, num_segments: host Tnumsegments) -> "
      "(output: T); T: realnumbertype; Tindices: indextype; Tnumsegments: indextype = int32",
      {.shape_fn = UnsortedSegmentShape, .sized_by_value = true});
  registry.Add(
      "UnsortedSegmentMin(data: T, segment_ids: Tindices, num_segments: host Tnumsegments) -> "
      "(output: T); T: realnumbertype; Tindices: indextype; Tnumsegments: indextype = int32",
      {.shape_fn = UnsortedSegmentShape, .sized_by_value = true});
  registry.Add(
      "UnsortedSegmentProd(data: T, segment_ids: Tindices, num_segments: host Tnumsegments) -> "
      "(output: T); T: numbertype; Tindices: indextype; Tnumsegments: indextype = int32",
      {.shape_fn = UnsortedSegmentShape, .sized_by_value = true});
  // The number of segments follows from the last id.
  registry.Add(
      "SegmentSum(data: T, segment_ids: Tindices) -> (output: T); T: numbertype; Tindices: "
      "indextype",
      {.shape_fn = SegmentShape, .sized_by_value = true});
}

}  // namespace formwork
