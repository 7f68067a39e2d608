#pragma once

// Parsing of tf.train.Example. Errors are kInvalidArgument in TensorFlow's words.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// A dense feature: of one shape, or of as many rows as an example has, filled up to those of the
/// longest one.
struct DenseFeature {
  DType dtype = DType::kInvalid;
  bool variable = false;     ///< The first dimension is open.
  Dims row;                  ///< The dimensions behind it; all of them where nothing is open.
  int64_t row_elements = 1;  ///< Their product.
};

/// ParseExampleV2, ParseExampleDatasetV2.
struct ParseExampleAttrs {
  std::vector<DType> sparse;
  std::vector<DenseFeature> dense;
  std::vector<DType> ragged;
  std::vector<DType> splits;  ///< Of ragged features.

  static absl::StatusOr<ParseExampleAttrs> FromAttrs(const AttrMap& attrs);
};

/// ParseSequenceExampleV2: what is wanted of the context, and of the lists of features.
struct ParseSequenceAttrs {
  /// A kind of features: sparse and ragged ones.
  struct Parts {
    std::vector<DType> sparse;
    std::vector<DenseFeature> dense;  ///< None is variable.
    std::vector<DType> ragged;
    std::vector<DType> splits;
  };
  Parts context, lists;

  static absl::StatusOr<ParseSequenceAttrs> FromAttrs(const AttrMap& attrs);
};

/// The shapes of the inputs of ParseSequenceExampleV2, in their order.
absl::Status CheckParseSequence(const ParseSequenceAttrs& attrs,
                                absl::Span<const Tensor* const> inputs);

/// The shapes of the inputs of ParseExampleV2 but for defaults, those of keys known; `serialized`
/// is a vector, or a scalar.
absl::Status CheckParseExample(const ParseExampleAttrs& attrs, const Tensor& serialized,
                               const Tensor& names, int64_t sparse_keys, int64_t dense_keys,
                               int64_t ragged_keys);

/// The default of dense feature `i`: none where it has no elements, one to fill up with, or a whole
/// value.
absl::Status CheckDenseDefault(const DenseFeature& feature, int i, const Shape& value);

}  // namespace formwork
