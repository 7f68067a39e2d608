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

absl::Status SparseSegmentShape(InferenceContext& c) {
  for (int i = 0; i < 3; ++i) {
    if (!c.input(i).known_rank()) return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(
      const SegmentGeometry geometry,
      PrepareSparseSegment(c.input(0).dims(), c.input(1).dims(), c.input(2).dims(),
                           c.num_inputs() > 3 ? c.constant(3) : nullptr));
  return array_shapes::SetOutput(c, 0, geometry.output);
}

absl::Status SparseSegmentGradShape(InferenceContext& c) {
  for (int i = 0; i < 3; ++i) {
    if (!c.input(i).known_rank()) return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(SegmentGeometry geometry,
                            PrepareSparseSegmentGrad(c.input(0).dims(), c.input(1).dims(),
                                                     c.input(2).dims(), c.constant(3)));
  if (c.num_outputs() > 1) {
    // As many rows as there are different indices.
    geometry.output[0] = -1;
    c.set_output(1, PartialShape::OfRank(1));
  }
  return array_shapes::SetOutput(c, 0, geometry.output);
}

// A scalar of an integer dtype; -1 where it is not known.
absl::StatusOr<int64_t> RowsFrom(const Tensor* rows, absl::string_view what) {
  if (rows == nullptr) return -1;
  if (!rows->shape().is_scalar()) {
    return InvalidArgument(what, " should be a scalar, not shape ", rows->shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(const int64_t count, IntegerFromTensor(*rows, what));
  if (count < 0) return InvalidArgument(what, " must not be negative: ", count);
  return count;
}

absl::Status CheckSparseIds(absl::Span<const int64_t> indices, absl::Span<const int64_t> ids) {
  if (indices.size() != 1) return InvalidArgument("indices should be a vector.");
  if (ids.size() != 1) return InvalidArgument("segment_ids should be a vector.");
  if (!MayBeEqual(indices[0], ids[0])) {
    return InvalidArgument("segment_ids and indices should have same size.");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SegmentGeometry> PrepareSparseSegment(absl::Span<const int64_t> data,
                                                     absl::Span<const int64_t> indices,
                                                     absl::Span<const int64_t> ids,
                                                     const Tensor* num_segments) {
  if (data.empty()) return InvalidArgument("input must be at least rank 1");
  FORMWORK_RETURN_IF_ERROR(CheckSparseIds(indices, ids));
  FORMWORK_ASSIGN_OR_RETURN(const int64_t count, RowsFrom(num_segments, "num_segments"));
  return SegmentsOf(data, 1, count);
}

absl::StatusOr<SegmentGeometry> PrepareSparseSegmentGrad(absl::Span<const int64_t> grad,
                                                         absl::Span<const int64_t> indices,
                                                         absl::Span<const int64_t> ids,
                                                         const Tensor* dim0) {
  if (grad.empty()) return InvalidArgument("Shape must be at least rank 1");
  FORMWORK_RETURN_IF_ERROR(CheckSparseIds(indices, ids));
  FORMWORK_ASSIGN_OR_RETURN(const int64_t count, RowsFrom(dim0, "output_dim0"));
  return SegmentsOf(grad, 1, count);
}

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
  registry.Add(
      "SegmentProd(data: T, segment_ids: Tindices) -> (output: T); T: numbertype; Tindices: "
      "indextype",
      {.shape_fn = SegmentShape, .sized_by_value = true});
  registry.Add(
      "SegmentMax(data: T, segment_ids: Tindices) -> (output: T); T: realnumbertype; Tindices: "
      "indextype",
      {.shape_fn = SegmentShape, .sized_by_value = true});
  registry.Add(
      "SegmentMin(data: T, segment_ids: Tindices) -> (output: T); T: realnumbertype; Tindices: "
      "indextype",
      {.shape_fn = SegmentShape, .sized_by_value = true});
  registry.Add(
      "SegmentMean(data: T, segment_ids: Tindices) -> (output: T); T: numbertype; Tindices: "
      "indextype",
      {.shape_fn = SegmentShape, .sized_by_value = true});
  registry.Add(
      "SparseSegmentSum(data: T, indices: Tidx, segment_ids: Tsegmentids) -> (output: T); T: "
      "realnumbertype; Tidx: indextype = int32; Tsegmentids: indextype = int32; sparse_gradient: "
      "bool = false",
      {.shape_fn = SparseSegmentShape, .sized_by_value = true});
  registry.Add(
      "SparseSegmentSumWithNumSegments(data: T, indices: Tidx, segment_ids: Tsegmentids, "
      "num_segments: host Tnumsegments) -> (output: T); T: realnumbertype; Tidx: indextype = "
      "int32; Tnumsegments: indextype = int32; Tsegmentids: indextype = int32; sparse_gradient: "
      "bool = false",
      {.shape_fn = SparseSegmentShape, .sized_by_value = true});
  registry.Add(
      "SparseSegmentMean(data: T, indices: Tidx, segment_ids: Tsegmentids) -> (output: T); T: "
      "floattype; Tidx: indextype = int32; Tsegmentids: indextype = int32; sparse_gradient: bool = "
      "false",
      {.shape_fn = SparseSegmentShape, .sized_by_value = true});
  registry.Add(
      "SparseSegmentMeanWithNumSegments(data: T, indices: Tidx, segment_ids: Tsegmentids, "
      "num_segments: host Tnumsegments) -> (output: T); T: floattype; Tidx: indextype = int32; "
      "Tnumsegments: indextype = int32; Tsegmentids: indextype = int32; sparse_gradient: bool = "
      "false",
      {.shape_fn = SparseSegmentShape, .sized_by_value = true});
  registry.Add(
      "SparseSegmentSqrtN(data: T, indices: Tidx, segment_ids: Tsegmentids) -> (output: T); T: "
      "floattype; Tidx: indextype = int32; Tsegmentids: indextype = int32; sparse_gradient: bool = "
      "false",
      {.shape_fn = SparseSegmentShape, .sized_by_value = true});
  registry.Add(
      "SparseSegmentSqrtNWithNumSegments(data: T, indices: Tidx, segment_ids: Tsegmentids, "
      "num_segments: host Tnumsegments) -> (output: T); T: floattype; Tidx: indextype = int32; "
      "Tnumsegments: indextype = int32; Tsegmentids: indextype = int32; sparse_gradient: bool = "
      "false",
      {.shape_fn = SparseSegmentShape, .sized_by_value = true});
  registry.Add(
      "SparseSegmentSumGrad(grad: T, indices: Tidx, segment_ids: Tsegmentids, output_dim0: host "
      "int32) -> (output: T); T: floattype; Tidx: indextype = int32; Tsegmentids: indextype = "
      "int32",
      {.shape_fn = SparseSegmentGradShape, .sized_by_value = true});
  registry.Add(
      "SparseSegmentSumGradV2(grad: T, indices: Tidx, segment_ids: Tsegmentids, dense_output_dim0: "
      "host int32) -> (output: T, sorted_unique_indices: Tidx); T: floattype; Tidx: indextype = "
      "int32; Tsegmentids: indextype = int32",
      {.shape_fn = SparseSegmentGradShape, .sized_by_value = true});
  registry.Add(
      "SparseSegmentMeanGrad(grad: T, indices: Tidx, segment_ids: Tsegmentids, output_dim0: host "
      "int32) -> (output: T); T: floattype; Tidx: indextype = int32; Tsegmentids: indextype = "
      "int32",
      {.shape_fn = SparseSegmentGradShape, .sized_by_value = true});
  registry.Add(
      "SparseSegmentMeanGradV2(grad: T, indices: Tidx, segment_ids: Tsegmentids, "
      "dense_output_dim0: host int32) -> (output: T, sorted_unique_indices: Tidx); T: floattype; "
      "Tidx: indextype = int32; Tsegmentids: indextype = int32",
      {.shape_fn = SparseSegmentGradShape, .sized_by_value = true});
  registry.Add(
      "SparseSegmentSqrtNGrad(grad: T, indices: Tidx, segment_ids: Tsegmentids, output_dim0: host "
      "int32) -> (output: T); T: floattype; Tidx: indextype = int32; Tsegmentids: indextype = "
      "int32",
      {.shape_fn = SparseSegmentGradShape, .sized_by_value = true});
  registry.Add(
      "SparseSegmentSqrtNGradV2(grad: T, indices: Tidx, segment_ids: Tsegmentids, "
      "dense_output_dim0: host int32) -> (output: T, sorted_unique_indices: Tidx); T: floattype; "
      "Tidx: indextype = int32; Tsegmentids: indextype = int32",
      {.shape_fn = SparseSegmentGradShape, .sized_by_value = true});
}

}  // namespace formwork
