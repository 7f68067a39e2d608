#pragma once

#include "absl/strings/string_view.h"
#include "core/tensor/dtype.h"

namespace formwork {

/// The dtype's name as graphs and TensorFlow's error texts have it: "float", "double", "half".
absl::string_view GraphDTypeName(DType dtype);

}  // namespace formwork
