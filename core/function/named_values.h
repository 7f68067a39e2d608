#pragma once

// What the inputs and outputs of a ConcreteFunction are called by those who pass values by names.

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/function/function_type.h"
#include "core/tensor/tensor_spec.h"

namespace formwork {

/// In the order of a call's inputs and outputs. Immutable; shared by a function and its callers.
struct NamedValues {
  std::vector<TensorSpec> inputs;  ///< By their parameters' names.
  /// By the keys of the dict that is returned; of another result "output_0", "output_1", ..., as
  /// tf.saved_model.save names them.
  std::vector<TensorSpec> outputs;

  size_t bytes() const;  ///< About what it takes.
};

/// Null where values cannot be passed by names: each input has to be one parameter, a tensor or a
/// variable. `inputs`, `outputs`: the function's, by the names that they have in its graph.
std::shared_ptr<const NamedValues> NamedValuesOf(const FunctionType& type,
                                                 absl::Span<const TensorSpec> inputs,
                                                 absl::Span<const TensorSpec> outputs);

}  // namespace formwork
