#pragma once

// The JSON of TensorFlow Serving's REST predict API
// (https://www.tensorflow.org/tfx/serving/api_rest) <-> tensors.
//
//   {"signature_name": "serving_default", "instances": [{"x": [1.0, 2.0]}, {"x": [3.0, 4.0]}]}
//   {"inputs": {"x": [[1.0, 2.0], [3.0, 4.0]]}}
//   {"predictions": [[0.5], [0.25]]}
//
// RapidJSON reads a text where it is, twice: what the values are depends on what may stand behind
// them. All memory is operator new's, or the allocator's, so that the caller holds what is taken to
// a budget (HoldToBudget); it does not grow but with what was sent.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/tensor/tensor.h"
#include "core/tensor/tensor_spec.h"

namespace formwork::server {

/// What a predict request says before its tensors are read: which these are depends on it.
struct JsonPredict {
  std::string signature_name;  ///< Empty: not given.
  bool row_format = false;     ///< It has "instances", else "inputs".
  absl::string_view values;    ///< The part of the body that is the value of either.
};

/// Checks that all of it is JSON, and reads what stands besides the values. Other keys are ignored,
/// as TensorFlow Serving does. `body` outlives what is returned.
/// Errors: kInvalidArgument: it is no such object, or one beyond 2 GiB, it has not just one of
/// "instances" and "inputs", or a key of these twice.
absl::StatusOr<JsonPredict> ReadJsonPredictHead(absl::string_view body);

/// Whether tensors of this dtype are read and written: numbers but complex ones, bool and string.
bool HasJsonForm(DType dtype);

/// The tensors, in the order of `inputs`, of which `name` is the signature's and `dtype` that of
/// the tensor; `shape` is not checked, it completes that of values without elements: where the
/// list is empty, the dimensions inside it are the spec's if these are known.
///
/// Integers are written without point and exponent. NaN, Infinity and -Infinity are numbers for
/// floating dtypes; a finite number that the dtype can only round to infinity is refused. A string
/// is text, kept as UTF-8, or {"b64": "..."} of any bytes.
///
/// Errors: kInvalidArgument naming the input and the place, for what does not fit the dtype, lists
/// that are not rectangular, and names that are missing, unknown or there twice; kUnimplemented for
/// dtypes without a form in JSON, as complex64; the allocator's.
absl::StatusOr<std::vector<Tensor>> ReadJsonInputs(const JsonPredict& request,
                                                   absl::Span<const TensorSpec> inputs,
                                                   Allocator& allocator);

/// {"predictions": ...} in the row format, else {"outputs": ...}. `outputs`, of which there are as
/// many as `names`, are in host memory. Floating values are the shortest text that reads back as
/// the same value of their dtype. Strings are text where they are UTF-8 and the name does not end
/// in "_bytes", else {"b64": "..."}.
/// Errors: kInvalidArgument in the row format where the outputs have no common first dimension;
/// kUnimplemented for dtypes without a form in JSON.
absl::StatusOr<std::string> WriteJsonOutputs(bool row_format, absl::Span<const std::string> names,
                                             absl::Span<const Tensor> outputs);

}  // namespace formwork::server
