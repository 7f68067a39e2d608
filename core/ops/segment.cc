#include "core/ops/segment.h"

#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/dims.h"
#include "core/ops/host_values.h"
#include "core/ops/register_ops.h"

namespace formwork {
namespace {

SegmentGeometry SegmentsOf(absl::Span<const int64_t> data, size_t ids_rank, int64_t count) {
  const absl::Span<const int64_t> row = data.subspan(ids_rank);
  SegmentGeometry geometry = {CountElements(data) == 0 ? 0 : CountElements(row), {count}};
  geometry.output.insert(geometry.output.end(), row.begin(), row.end());
  return geometry;
}

absl::Status UnsortedSegmentShape(InferenceContext& c) {
  if (!c.input(0).known_rank() || !c.input(1).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(
      const SegmentGeometry geometry,
      PrepareUnsortedSegment(c.input(0).dims(), c.input(1).dims(), c.constant(2)));
  return array_shapes::SetOutput(c, 0, geometry.output);
}

absl::Status SegmentShape(InferenceContext& c) {
  if (!c.input(0).known_rank() || !c.input(1).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const SegmentGeometry geometry,
                            PrepareSegment(c.input(0).dims(), c.input(1).dims()));
  return array_shapes::SetOutput(c, 0, geometry.output);
}

}  // namespace

absl::StatusOr<SegmentGeometry> PrepareUnsortedSegment(absl::Span<const int64_t> data,
                                                       absl::Span<const int64_t> ids,
                                                       const Tensor* num_segments) {
  int64_t count = -1;
  if (num_segments != nullptr) {
    if (!num_segments->shape().is_scalar()) {
      return InvalidArgument("num_segments should be a scalar, not shape ",
                             num_segments->shape().ToString());
    }
    FORMWORK_ASSIGN_OR_RETURN(count, IntegerFromTensor(*num_segments, "num_segments"));
    if (count < 0) {
      return InvalidArgument("Input num_segments == ", count, " must not be negative.");
    }
  }
  if (ids.size() > data.size() || !MayBeEqual(data.first(ids.size()), ids)) {
    return InvalidArgument("data.shape = ", DimsText(data),
                           " does not start with segment_ids.shape = ", DimsText(ids));
  }
  return SegmentsOf(data, ids.size(), count);
}

absl::StatusOr<SegmentGeometry> PrepareSegment(absl::Span<const int64_t> data,
                                               absl::Span<const int64_t> ids) {
  if (data.empty()) return InvalidArgument("input must be at least rank 1");
  if (ids.size() != 1) return InvalidArgument("segment_ids should be a vector.");
  if (!MayBeEqual(ids[0], data[0])) {
    return InvalidArgument("segment_ids should be the same size as dimension 0 of input.");
  }
  return SegmentsOf(data, 1, -1);
}

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
