#pragma once

// Ops that change the shape alone: attrs, and the output's dimensions. Shape functions use it, for
// which dimensions may be unknown (-1), and kernels.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Whether output 0 has the elements of input 0 as they are, whatever memory those are in: of the
/// ops here, and of EnsureShape.
bool KeepsElements(absl::string_view op);

/// Reshape to `sizes`, of which one may be -1. Errors: kInvalidArgument in TensorFlow's words if
/// the elements do not fit.
absl::StatusOr<Dims> PrepareReshape(absl::Span<const int64_t> input, const Tensor& sizes);

struct SqueezeAttrs {
  std::vector<int64_t> axes;  ///< From the end where negative. None: all dimensions of 1.

  static absl::StatusOr<SqueezeAttrs> FromAttrs(const AttrMap& attrs);
};

/// Without axes all dimensions must be known. Errors: kInvalidArgument in TensorFlow's words if an
/// axis is out of range or not of size 1.
absl::StatusOr<Dims> PrepareSqueeze(const SqueezeAttrs& attrs, absl::Span<const int64_t> input);

/// ExpandDims; `dim` has one element, from the end where negative. Errors: kInvalidArgument in
/// TensorFlow's words if it is out of range.
absl::StatusOr<Dims> PrepareExpandDims(absl::Span<const int64_t> input, const Tensor& dim);

/// Bitcast, between plain data of any sizes. Errors: kInvalidArgument in TensorFlow's words if the
/// last dimension is not what the larger one takes of the smaller ones.
absl::StatusOr<Dims> PrepareBitcast(absl::Span<const int64_t> input, DType from, DType to);

}  // namespace formwork
