#include "core/ops/nms.h"

#include <algorithm>
#include <optional>

#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/dims.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

absl::Status CheckScores(absl::Span<const int64_t> scores, int64_t boxes) {
  if (scores.size() != 1) return InvalidArgument("scores must be 1-D", DimsText(scores));
  if (MayBeEqual(scores[0], boxes)) return absl::OkStatus();
  return InvalidArgument("scores has incompatible shape: ", DimsText(scores), " for ", boxes,
                         " boxes");
}

}  // namespace

absl::Status CheckNmsBoxes(absl::Span<const int64_t> boxes, absl::Span<const int64_t> scores) {
  if (boxes.size() != 2) return InvalidArgument("boxes must be 2-D", DimsText(boxes));
  if (!MayBeEqual(boxes[1], 4)) return InvalidArgument("boxes must have 4 columns");
  return CheckScores(scores, boxes[0]);
}

absl::Status CheckNmsOverlaps(absl::Span<const int64_t> overlaps,
                              absl::Span<const int64_t> scores) {
  if (overlaps.size() != 2) return InvalidArgument("overlaps must be 2-D", DimsText(overlaps));
  if (!MayBeEqual(overlaps[0], overlaps[1])) {
    return InvalidArgument("overlaps must be square", DimsText(overlaps));
  }
  return CheckScores(scores, overlaps[0]);
}

absl::Status CheckCombinedNms(absl::Span<const int64_t> boxes, absl::Span<const int64_t> scores) {
  if (boxes.size() != 4) return InvalidArgument("boxes must be 4-D", DimsText(boxes));
  if (scores.size() != 3) return InvalidArgument("scores must be 3-D", DimsText(scores));
  if (!MayBeEqual(boxes[0], scores[0])) {
    return InvalidArgument("boxes and scores must have same batch size");
  }
  if (!MayBeEqual(boxes[1], scores[1])) return InvalidArgument("scores has incompatible shape");
  if (boxes[2] != 1 && !MayBeEqual(boxes[2], scores[2])) {
    return InvalidArgument("third dimension of boxes must be either 1 or num classes");
  }
  if (!MayBeEqual(boxes[3], 4)) return InvalidArgument("boxes must have 4 columns");
  return absl::OkStatus();
}

absl::StatusOr<int64_t> CombinedNmsSize(int64_t per_class, int64_t total, int64_t classes,
                                        bool pad_per_class) {
  if (per_class <= 0) return InvalidArgument("max_size_per_class must be positive");
  if (total <= 0) return InvalidArgument("max_total_size must be > 0");
  if (!pad_per_class) return total;
  const std::optional<int64_t> all = MultiplyDims(per_class, classes);
  return !all ? total : *all < 0 ? -1 : std::min(total, *all);
}

absl::Status CheckNmsScalar(const Tensor& tensor, absl::string_view what) {
  if (tensor.rank() == 0) return absl::OkStatus();
  return InvalidArgument(what, " must be 0-D, got shape ", tensor.shape().ToString());
}

absl::Status CheckNmsSize(int64_t max_output_size) {
  if (max_output_size >= 0) return absl::OkStatus();
  return InvalidArgument("output size must be non-negative");
}

namespace {

// The first outputs are vectors, as long as `max_output_size` (input 2) where all of them are
// padded to it; what is left is how many are valid.
absl::Status Selected(InferenceContext& c) {
  int64_t length = -1;
  if (c.attrs().GetOr<bool>("pad_to_max_output_size", false) && c.constant(2) != nullptr) {
    FORMWORK_RETURN_IF_ERROR(CheckNmsScalar(*c.constant(2), "max_output_size"));
    length = c.constant(2)->scalar<int32_t>();
    FORMWORK_RETURN_IF_ERROR(CheckNmsSize(length));
  }
  const int vectors = c.num_outputs() == 3 ? 2 : 1;
  for (int i = 0; i < c.num_outputs(); ++i) {
    FORMWORK_RETURN_IF_ERROR(array_shapes::SetOutput(c, i, i < vectors ? Dims{length} : Dims{}));
  }
  return absl::OkStatus();
}

absl::Status OfBoxes(InferenceContext& c) {
  FORMWORK_RETURN_IF_ERROR(CheckNmsBoxes(shapes::OrOfRank(c.input(0), 2).dims(),
                                         shapes::OrOfRank(c.input(1), 1).dims()));
  return Selected(c);
}

absl::Status OfOverlaps(InferenceContext& c) {
  FORMWORK_RETURN_IF_ERROR(CheckNmsOverlaps(shapes::OrOfRank(c.input(0), 2).dims(),
                                            shapes::OrOfRank(c.input(1), 1).dims()));
  return Selected(c);
}

absl::Status Combined(InferenceContext& c) {
  const PartialShape boxes = shapes::OrOfRank(c.input(0), 4);
  const PartialShape scores = shapes::OrOfRank(c.input(1), 3);
  FORMWORK_RETURN_IF_ERROR(CheckCombinedNms(boxes.dims(), scores.dims()));
  int64_t size = -1;
  if (c.constant(2) != nullptr && c.constant(3) != nullptr) {
    FORMWORK_RETURN_IF_ERROR(CheckNmsScalar(*c.constant(2), "max_size_per_class"));
    FORMWORK_RETURN_IF_ERROR(CheckNmsScalar(*c.constant(3), "max_total_size"));
    FORMWORK_ASSIGN_OR_RETURN(const bool pad, c.attrs().Get<bool>("pad_per_class"));
    FORMWORK_ASSIGN_OR_RETURN(
        size, CombinedNmsSize(c.constant(2)->scalar<int32_t>(), c.constant(3)->scalar<int32_t>(),
                              scores.dim(2), pad));
  }
  const int64_t batch = std::max(boxes.dim(0), scores.dim(0));
  FORMWORK_RETURN_IF_ERROR(array_shapes::SetOutput(c, 0, {batch, size, 4}));
  FORMWORK_RETURN_IF_ERROR(array_shapes::SetOutput(c, 1, {batch, size}));
  FORMWORK_RETURN_IF_ERROR(array_shapes::SetOutput(c, 2, {batch, size}));
  return array_shapes::SetOutput(c, 3, {batch});
}

}  // namespace

void RegisterNmsOps(OpRegistry& registry) {
  registry.Add(
      "NonMaxSuppression(boxes: float, scores: float, max_output_size: int32) -> "
      "(selected_indices: int32); iou_threshold: float = 0.5",
      {.shape_fn = OfBoxes, .sized_by_value = true});
  registry.Add(
      "NonMaxSuppressionV2(boxes: T, scores: T, max_output_size: host int32, iou_threshold: host "
      "T_threshold) -> (selected_indices: int32); T: {half, float} = float; T_threshold: {half, "
      "float} = float",
      {.shape_fn = OfBoxes, .sized_by_value = true});
  registry.Add(
      "NonMaxSuppressionV3(boxes: T, scores: T, max_output_size: host int32, iou_threshold: host "
      "T_threshold, score_threshold: host T_threshold) -> (selected_indices: int32); T: {half, "
      "float} = float; T_threshold: {half, float} = float",
      {.shape_fn = OfBoxes, .sized_by_value = true});
  registry.Add(
      "NonMaxSuppressionV4(boxes: T, scores: T, max_output_size: host int32, iou_threshold: host "
      "T_threshold, score_threshold: host T_threshold) -> (selected_indices: int32, valid_outputs: "
      "int32); T: {half, float} = float; T_threshold: {half, float} = float; "
      "pad_to_max_output_size: bool = false",
      {.shape_fn = OfBoxes, .sized_by_value = true});
  registry.Add(
      "NonMaxSuppressionV5(boxes: T, scores: T, max_output_size: int32, iou_threshold: T, "
      "score_threshold: T, soft_nms_sigma: T) -> (selected_indices: int32, selected_scores: T, "
      "valid_outputs: int32); T: {half, float} = float; pad_to_max_output_size: bool = false",
      {.shape_fn = OfBoxes, .sized_by_value = true});
  registry.Add(
      "CombinedNonMaxSuppression(boxes: float, scores: float, max_output_size_per_class: int32, "
      "max_total_size: int32, iou_threshold: float, score_threshold: float) -> (nmsed_boxes: "
      "float, nmsed_scores: float, nmsed_classes: float, valid_detections: int32); pad_per_class: "
      "bool = false; clip_boxes: bool = true",
      {.shape_fn = Combined, .sized_by_value = true});
  registry.Add(
      "NonMaxSuppressionWithOverlaps(overlaps: float, scores: float, max_output_size: int32, "
      "overlap_threshold: float, score_threshold: float) -> (selected_indices: int32)",
      {.shape_fn = OfOverlaps, .sized_by_value = true});
}

}  // namespace formwork
