#pragma once

// Accumulators of gradients (tf.compat.v1.ConditionalAccumulator): what their ops, on any device,
// have in common. Errors are kInvalidArgument in TensorFlow's words.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/resource_type.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Their one part is a gradient. What is taken is the mean of what has been applied, or the sum.
inline constexpr ResourceKind kMeanAccumulatorKind{"accumulator of means"};
inline constexpr ResourceKind kSumAccumulatorKind{"accumulator of sums"};
inline bool IsAccumulator(const ResourceType& type) {
  return type.kind == &kMeanAccumulatorKind || type.kind == &kSumAccumulatorKind;
}

/// The step that an input names. `name`: the input's.
absl::StatusOr<int64_t> StepFromTensor(const Tensor& step, absl::string_view name);

/// Whether `gradient` may be added to `sum`, which is empty where nothing has been applied.
absl::Status CheckGradientApplied(const ResourceType& type, const Tensor& sum,
                                  const Tensor& gradient);

/// How many gradients a mean or sum is to be of, at least.
absl::StatusOr<int64_t> GradientsRequired(const Tensor& num_required);

}  // namespace formwork
