#pragma once

#include <cstdint>

#include "core/tensor/shape.h"

namespace formwork {

/// Where in an operand the element of a broadcast value is.
class BroadcastIndex {
 public:
  BroadcastIndex(const Shape& operand, const Dims& output)
      : dims_(output), strides_(output.size(), 0) {
    int64_t stride = 1;
    for (int d = operand.rank() - 1; d >= 0; --d) {
      if (operand.dim(d) == 1) continue;
      strides_[output.size() - static_cast<size_t>(operand.rank() - d)] = stride;
      stride *= operand.dim(d);
    }
  }
  int64_t operator()(int64_t element) const {
    int64_t at = 0;
    for (size_t d = dims_.size(); d-- > 0;) {
      at += element % dims_[d] * strides_[d];
      element /= dims_[d];
    }
    return at;
  }

 private:
  const Dims dims_;
  Dims strides_;
};

}  // namespace formwork
