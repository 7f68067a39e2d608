#pragma once

#include "core/tensor/tensor.h"

namespace formwork {

/// Any byte may come from outside for a bool, but C++ knows only two: makes each 0 or 1. `tensor`
/// is one that may be written.
void NormaliseBools(Tensor& tensor);

}  // namespace formwork
