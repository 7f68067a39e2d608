#include "core/ops/shape_inference.h"

#include <utility>

#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/function.h"

namespace formwork::shapes {

absl::Status SameAsFirstInput(InferenceContext& c) {
  if (c.num_inputs() > 0 && c.num_outputs() > 0) c.set_output(0, c.input(0));
  return absl::OkStatus();
}

absl::Status Broadcast(InferenceContext& c) {
  if (c.num_inputs() < 2 || c.num_outputs() < 1) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, BroadcastShapes(c.input(0), c.input(1)));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status Scalar(InferenceContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, PartialShape::OfRank(0));
  return absl::OkStatus();
}

absl::Status FromShapeAttr(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(ShapeAttrs attrs, ShapeAttrs::FromAttrs(c.attrs()));
  c.set_output(0, std::move(attrs.shape));
  return absl::OkStatus();
}

absl::Status FromShapeInput(InferenceContext& c) {
  if (c.num_inputs() < 1 || c.num_outputs() < 1) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, ShapeFromInput(c, 0));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::StatusOr<PartialShape> ShapeFromInput(const InferenceContext& c, int i) {
  if (const Tensor* constant = c.constant(i); constant != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(Dims dims, IntegersOf(*constant, "shape"));
    // A scalar of -1 is TensorFlow's way to say that nothing is known.
    if (constant->rank() == 0) {
      if (dims[0] == -1) return PartialShape::Unknown();
      return InvalidArgument("shape must be a vector, not a scalar: ", dims[0]);
    }
    if (constant->rank() != 1) {
      return InvalidArgument("shape must be a vector: shape=", constant->shape().ToString());
    }
    return PartialShape::Make(dims);
  }
  if (const Dims* elements = c.elements(i)) return PartialShape::Make(*elements);
  const PartialShape& shape = c.input(i);
  if (shape.known_rank() && shape.rank() > 1) {
    return InvalidArgument("shape must be a vector: shape=", shape.ToString());
  }
  if (shape.rank() == 1 && shape.dim(0) >= 0) {
    if (shape.dim(0) > kMaxRank) {
      return InvalidArgument("shape has too many dimensions: rank=", shape.dim(0),
                             " limit=", kMaxRank);
    }
    return PartialShape::OfRank(static_cast<int>(shape.dim(0)));
  }
  return PartialShape::Unknown();
}

absl::StatusOr<PartialShape> BroadcastShapes(const PartialShape& a, const PartialShape& b) {
  if (!a.known_rank() || !b.known_rank()) return PartialShape::Unknown();
  const std::optional<Dims> dims = BroadcastDims(a.dims(), b.dims());
  if (!dims) return InvalidArgument("Incompatible shapes: ", a.ToString(), " vs. ", b.ToString());
  return PartialShape::Trusted(*dims);
}

PartialShape OrOfRank(const PartialShape& shape, int rank) {
  return shape.known_rank() ? shape : PartialShape::OfRank(rank);
}

}  // namespace formwork::shapes
