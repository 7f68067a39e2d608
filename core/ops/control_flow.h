#pragma once

// What decides which way control flow goes, on any device.

#include <cstddef>

#include "absl/status/statusor.h"
#include "core/ops/op_def.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// A condition as TensorFlow takes it: a scalar number that is not zero, a string that is not
/// empty, another tensor that has elements. Errors: kInvalidArgument for a dtype that has no truth.
absl::StatusOr<bool> IsTrue(const Tensor& condition);

/// Which of `branches` functions an If or Case runs where its input 0 is `selector`. An index that
/// is out of range takes the last one. Errors: kInvalidArgument where it cannot decide.
absl::StatusOr<size_t> ChooseBranch(ControlFlow kind, const Tensor& selector, size_t branches);

}  // namespace formwork
