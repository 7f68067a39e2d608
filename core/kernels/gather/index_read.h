#pragma once

// Reading index tensors of any integer dtype, and saying which index was wrong.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Calls f(const Index*) with the elements of an index tensor; `f` returns an absl::Status.
/// Errors: kInvalidArgument if the dtype is no integer type that TensorFlow indexes with.
template <typename F>
absl::Status WithIndices(const Tensor& indices, F&& f) {
  switch (indices.dtype()) {
    case DType::kInt32:
      return f(indices.data<int32_t>());
    case DType::kInt64:
      return f(indices.data<int64_t>());
    case DType::kInt16:
      return f(indices.data<int16_t>());
    case DType::kUint16:
      return f(indices.data<uint16_t>());
    case DType::kInt8:
      return f(indices.data<int8_t>());
    case DType::kUint8:
      return f(indices.data<uint8_t>());
    default:
      return InvalidArgument("indices must be integers, not ", DTypeName(indices.dtype()));
  }
}

/// "[1,0]": where element `flat` lies in a value of shape `shape`; "" in a scalar.
std::string PositionString(absl::Span<const int64_t> shape, int64_t flat);

}  // namespace formwork
