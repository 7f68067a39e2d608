#pragma once

// What OptionalGetValue is on every device.

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// What the components are wanted to be: as many dtypes as shapes.
struct OptionalAttrs {
  std::vector<DType> dtypes;
  std::vector<PartialShape> shapes;

  /// Errors: kInvalidArgument if there are not as many of both.
  static absl::StatusOr<OptionalAttrs> FromAttrs(const AttrMap& attrs);
};

/// Errors: kInvalidArgument in TensorFlow's words if there are no components (the optional has no
/// value) or they are others.
absl::Status CheckOptionalValue(const OptionalAttrs& attrs, absl::Span<const Tensor> components);

}  // namespace formwork
