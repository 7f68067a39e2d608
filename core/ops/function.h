#pragma once

// What ops that pass values on, or stand for them, are on every device.

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Of Placeholder, PlaceholderWithDefault, EnsureShape, FakeParam and VarHandleOp.
struct ShapeAttrs {
  PartialShape shape;

  static absl::StatusOr<ShapeAttrs> FromAttrs(const AttrMap& attrs);
};

/// Const.
struct ConstAttrs {
  Tensor value;

  static absl::StatusOr<ConstAttrs> FromAttrs(const AttrMap& attrs);
};

/// EnsureShape. Errors: kInvalidArgument in TensorFlow's words if the input has another shape.
absl::Status CheckEnsureShape(const ShapeAttrs& attrs, const Shape& input);

/// FakeParam: dimensions that are not known are 0, as in TensorFlow. Errors: kInvalidArgument if
/// the others are too large.
absl::StatusOr<Shape> PrepareFakeParam(const ShapeAttrs& attrs);

}  // namespace formwork
