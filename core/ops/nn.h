#pragma once

// Biases, softmax, losses and top-k on every device: attrs, and geometry from shapes. Shape
// functions use it, for which dimensions may be unknown (-1), and kernels.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

// --- BiasAdd, BiasAddGrad -----------------------------------------------------------------------

struct BiasAttrs {
  bool channels_first = false;

  static absl::StatusOr<BiasAttrs> FromAttrs(const AttrMap& attrs);
};

/// A value as [outer, channels, inner]; channels are last where inner is 1.
struct BiasGeometry {
  int64_t outer;
  int64_t channels;
  int64_t inner;
};

/// Errors: kInvalidArgument in TensorFlow's words if there is not a bias for each channel.
absl::StatusOr<BiasGeometry> PrepareBiasAdd(const BiasAttrs& attrs, absl::Span<const int64_t> value,
                                            absl::Span<const int64_t> bias);
absl::StatusOr<BiasGeometry> PrepareBiasAddGrad(const BiasAttrs& attrs,
                                                absl::Span<const int64_t> value);

// --- _MklLayerNorm, which FuseLayerNorms makes ---------------------------------------------------

/// Errors: kInvalidArgument if x is a scalar, or scale or offset has not an element for each of its
/// last dimension's.
absl::Status CheckLayerNorm(absl::Span<const int64_t> x, absl::Span<const int64_t> scale,
                            absl::Span<const int64_t> offset);

// --- Softmax, LogSoftmax, SoftmaxCrossEntropyWithLogits and its sparse kind ---------------------

/// Errors: kInvalidArgument in TensorFlow's words if it is a scalar.
absl::Status CheckSoftmax(absl::Span<const int64_t> logits);

struct CrossEntropyGeometry {
  int64_t rows;
  int64_t classes;
};

/// Errors: kInvalidArgument in TensorFlow's words if logits and labels are no matrix and no vector
/// with as many rows, or there are no classes.
absl::StatusOr<CrossEntropyGeometry> PrepareSparseCrossEntropy(absl::Span<const int64_t> logits,
                                                               absl::Span<const int64_t> labels);
/// Errors: kInvalidArgument in TensorFlow's words if logits and labels do not broadcast to a
/// matrix.
absl::StatusOr<CrossEntropyGeometry> PrepareCrossEntropy(absl::Span<const int64_t> logits,
                                                         absl::Span<const int64_t> labels);

// --- TopKV2, NthElement, InTopKV2 ----------------------------------------------------------------

struct TopKGeometry {
  int64_t k;  ///< -1 where it is not known.
  int64_t columns;
  Dims output;  ///< Of both.
};

/// `k` is a scalar; null where it is not known. Errors: kInvalidArgument in TensorFlow's words if
/// it is none or negative, or there are fewer columns.
absl::StatusOr<TopKGeometry> PrepareTopK(absl::Span<const int64_t> input, const Tensor* k);

struct ApproxTopKAttrs {
  int64_t k = 0;
  int64_t dimension = -1;
  bool largest = true;

  static absl::StatusOr<ApproxTopKAttrs> FromAttrs(const AttrMap& attrs);
};

/// The dimension that is reduced, from the front, and what it becomes: k. Errors: kInvalidArgument
/// if there is no such dimension or it is smaller.
struct ApproxTopKGeometry {
  int dimension;
  Dims output;
};
absl::StatusOr<ApproxTopKGeometry> PrepareApproxTopK(const ApproxTopKAttrs& attrs,
                                                     absl::Span<const int64_t> input);

struct NthElementGeometry {
  int64_t n = -1;  ///< From 0; -1 where it is not known.
  int64_t columns = -1;
  Dims output;
};

/// `n` is a scalar; null where it is not known. Errors: kInvalidArgument in TensorFlow's words if
/// it is none or negative, or there are no more columns.
absl::StatusOr<NthElementGeometry> PrepareNthElement(absl::Span<const int64_t> input,
                                                     const Tensor* n);

/// Errors: kInvalidArgument in TensorFlow's words if there is not a target for each row of a matrix
/// of predictions, or k is no scalar.
absl::Status CheckInTopK(absl::Span<const int64_t> predictions, absl::Span<const int64_t> targets,
                         absl::Span<const int64_t> k);

}  // namespace formwork
