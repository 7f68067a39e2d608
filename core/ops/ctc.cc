#include "core/ops/ctc.h"

#include <algorithm>
#include <limits>

#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/dims.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<CtcGeometry> PrepareCtc(absl::Span<const int64_t> inputs,
                                       absl::Span<const int64_t> sequence_length) {
  if (inputs.size() != 3) return InvalidArgument("inputs is not a 3-Tensor");
  if (sequence_length.size() != 1) return InvalidArgument("sequence_length is not a vector");
  if (!MayBeEqual(sequence_length[0], inputs[1])) {
    return FailedPrecondition("len(sequence_length) != batch_size.  len(sequence_length):  ",
                              sequence_length[0], " batch_size: ", inputs[1]);
  }
  return CtcGeometry{inputs[0], std::max(inputs[1], sequence_length[0]), inputs[2]};
}

absl::Status CheckCtcLabels(absl::Span<const int64_t> indices, absl::Span<const int64_t> values) {
  if (indices.size() != 2) return InvalidArgument("labels_indices is not a matrix");
  if (indices[1] >= 0 && indices[1] <= 1) {
    return InvalidArgument("labels_indices second dimension must be > 1. Received ", indices[1]);
  }
  if (indices[1] > 2) return InvalidArgument("Order length must be SparseTensor rank.");
  if (values.size() != 1) return InvalidArgument("labels_values is not a vector");
  if (MayBeEqual(indices[0], values[0])) return absl::OkStatus();
  return InvalidArgument(
      "labels_indices and labels_values must contain the same number of rows, but saw shapes: ",
      DimsText(indices), " vs. ", DimsText(values));
}

absl::StatusOr<CtcLossAttrs> CtcLossAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<CtcLossAttrs>(attrs, "preprocess_collapse_repeated",
                                 &CtcLossAttrs::collapse_repeated, "ctc_merge_repeated",
                                 &CtcLossAttrs::merge_repeated, "ignore_longer_outputs_than_inputs",
                                 &CtcLossAttrs::ignore_longer_outputs);
}

absl::StatusOr<CtcBeamAttrs> CtcBeamAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(
      const CtcBeamAttrs read,
      ReadAttrs<CtcBeamAttrs>(attrs, "beam_width", &CtcBeamAttrs::beam_width, "top_paths",
                              &CtcBeamAttrs::top_paths, "merge_repeated",
                              &CtcBeamAttrs::merge_repeated));
  if (read.beam_width > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument("Attr beam_width has value ", read.beam_width,
                           " out of range for an int32");
  }
  return read;
}

namespace {

absl::StatusOr<CtcGeometry> Geometry(const InferenceContext& c, int sequence_length) {
  return PrepareCtc(shapes::OrOfRank(c.input(0), 3).dims(),
                    shapes::OrOfRank(c.input(sequence_length), 1).dims());
}

absl::Status LossShape(InferenceContext& c) {
  FORMWORK_RETURN_IF_ERROR(CheckCtcLabels(shapes::OrOfRank(c.input(1), 2).dims(),
                                          shapes::OrOfRank(c.input(2), 1).dims()));
  FORMWORK_ASSIGN_OR_RETURN(const CtcGeometry geometry, Geometry(c, 3));
  FORMWORK_RETURN_IF_ERROR(array_shapes::SetOutput(c, 0, {geometry.batch}));
  return array_shapes::SetOutput(c, 1, {geometry.steps, geometry.batch, geometry.classes});
}

absl::Status GreedyShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const CtcGeometry geometry, Geometry(c, 1));
  FORMWORK_RETURN_IF_ERROR(array_shapes::SetOutput(c, 0, {-1, 2}));
  FORMWORK_RETURN_IF_ERROR(array_shapes::SetOutput(c, 1, {-1}));
  FORMWORK_RETURN_IF_ERROR(array_shapes::SetOutput(c, 2, {2}));
  return array_shapes::SetOutput(c, 3, {geometry.batch, 1});
}

absl::Status BeamSearchShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const CtcGeometry geometry, Geometry(c, 1));
  const int paths = (c.num_outputs() - 1) / 3;
  for (int p = 0; p < paths; ++p) {
    FORMWORK_RETURN_IF_ERROR(array_shapes::SetOutput(c, p, {-1, 2}));
    FORMWORK_RETURN_IF_ERROR(array_shapes::SetOutput(c, paths + p, {-1}));
    FORMWORK_RETURN_IF_ERROR(array_shapes::SetOutput(c, 2 * paths + p, {2}));
  }
  return array_shapes::SetOutput(c, 3 * paths, {geometry.batch, paths});
}

}  // namespace

void RegisterCtcOps(OpRegistry& registry) {
  registry.Add(
      "CTCLoss(inputs: T, labels_indices: int64, labels_values: int32, sequence_length: int32) -> "
      "(loss: T, gradient: T); preprocess_collapse_repeated: bool = false; ctc_merge_repeated: "
      "bool = true; ignore_longer_outputs_than_inputs: bool = false; T: {float, double} = float",
      {.shape_fn = LossShape});
  registry.Add(
      "CTCGreedyDecoder(inputs: T, sequence_length: int32) -> (decoded_indices: int64, "
      "decoded_values: int64, decoded_shape: int64, log_probability: T); merge_repeated: bool = "
      "false; blank_index: int = -1; T: {float, double} = float",
      {.shape_fn = GreedyShape});
  registry.Add(
      "CTCBeamSearchDecoder(inputs: T, sequence_length: int32) -> (decoded_indices: "
      "top_paths*int64, decoded_values: top_paths*int64, decoded_shape: top_paths*int64, "
      "log_probability: T); beam_width: int >= 1; top_paths: int >= 1; merge_repeated: bool = "
      "true; T: {float, double} = float",
      {.shape_fn = BeamSearchShape});
}

}  // namespace formwork
