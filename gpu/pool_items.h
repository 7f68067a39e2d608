#pragma once

// Pooling on a GPU (pool_functions.h): how a call's sizes become the items' numbers. Needs no CUDA
// itself.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/ops/conv.h"
#include "core/tensor/dtype.h"
#include "gpu/pool_functions.h"

namespace formwork {

inline formwork_element::PoolSizes PoolSizesOf(const ConvShape& shape) {
  const auto axis = [](const ConvAxis& a) {
    return formwork_element::PoolAxis{a.input, a.output, a.taps, a.stride, a.pad_before};
  };
  return {shape.in_channels, shape.channels_first, axis(shape.rows), axis(shape.cols)};
}

/// The item of MaxPool, MaxPoolGrad, AvgPool or AvgPoolGrad. Errors: kUnimplemented for dtypes that
/// the host has to pool.
absl::StatusOr<std::string> PoolItemName(absl::string_view op, DType dtype);
/// The text of what the items need beside item_functions.h, for ItemSource (item_source.h).
const std::string& PoolText();

}  // namespace formwork
