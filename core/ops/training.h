#pragma once

// What optimizers (ResourceApply..., ResourceSparseApply...) check on every device. Errors are
// kInvalidArgument in TensorFlow's words.

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/ops/op_def.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Which input of an optimizer is what: first the handles of its variables, then scalars and the
/// gradient among them.
struct OptimizerInputs {
  int variables = 0;
  int grad = -1;                   ///< -1 where there is none.
  int indices = -1;                ///< Of a sparse one: which row each row of the gradient is for.
  std::vector<std::string> names;  ///< By input.

  int scalars() const { return static_cast<int>(names.size()) - variables - (indices < 0 ? 1 : 2); }
  static OptimizerInputs Of(const OpDef& op);

  /// Before any variable is opened: each input is a single handle, of a variable of its own, or a
  /// scalar, or the gradient, or the indices, a vector.
  absl::Status Check(absl::FunctionRef<const Tensor&(int i)> input) const;
  /// Before any of them is written: `values` are the variables'; all are of the gradient's dtype
  /// and shape.
  absl::Status CheckVariables(absl::Span<const Tensor* const> values, const Tensor& gradient) const;
  /// The same of a sparse one: there is a row for each of `indices`, which are rows of the
  /// variables.
  absl::Status CheckRows(absl::Span<const Tensor* const> values, const Tensor& gradient,
                         const Tensor& indices) const;

 private:
  absl::Status CheckAlike(absl::Span<const Tensor* const> values, DType dtype) const;
};

}  // namespace formwork
