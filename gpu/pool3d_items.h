#pragma once

// Pooling of volumes on a GPU (pool3d_functions.h): how a call's sizes become the items' numbers.
// Needs no CUDA itself.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/ops/pool3d.h"
#include "core/tensor/dtype.h"
#include "gpu/pool3d_functions.h"

namespace formwork {

inline formwork_element::Pool3dSizes Pool3dSizesOf(const Pool3dGeometry& geometry) {
  const auto axis = [](const Pool3dAxis& a) {
    return formwork_element::PoolAxis{a.input, a.output, a.window, a.stride, a.pad_before};
  };
  return {geometry.channels, axis(geometry.axes[0]), axis(geometry.axes[1]),
          axis(geometry.axes[2])};
}

/// The item of MaxPool3D, MaxPool3DGrad, AvgPool3D or AvgPool3DGrad. Errors: kUnimplemented for
/// dtypes that the host has to pool.
absl::StatusOr<std::string> Pool3dItemName(absl::string_view op, DType dtype);
/// The text of what the items need beside item_functions.h, for ItemSource (item_source.h).
const std::string& Pool3dText();

}  // namespace formwork
