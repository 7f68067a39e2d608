#pragma once

// TensorSpec: what a cut's input or output must be.

#include <string>

#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace formwork {

/// A tensor of a graph ("node:0") with the dtype and shape that a call must have.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kInvalid;
  PartialShape shape;
};

}  // namespace formwork
