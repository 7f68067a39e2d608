#pragma once

// Tensors <-> JSON.

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "formwork/client.h"

namespace formwork::command {

/// The tensor that JSON stands for: a number, boolean or string, or lists of them of one shape.
/// Every element has to be a value of `dtype` as it is: a number with a fraction is no integer, and
/// one out of range is not wrapped. "NaN", "Infinity" and "-Infinity" are floating-point numbers.
/// `dtype` DT_INVALID: string, bool, float32 where a number has a fraction, else int32.
/// Errors: kInvalidArgument with the first element that does not fit.
absl::StatusOr<client::Tensor> TensorFromJson(const nlohmann::ordered_json& json,
                                              client::DataType dtype);

/// The same back: nested lists of the elements; strings that are not UTF-8 with replacement
/// characters. Null where the content is not what dtype and dims say.
nlohmann::ordered_json ToJson(const client::Tensor& tensor);

}  // namespace formwork::command
