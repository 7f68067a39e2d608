#pragma once

// CropAndResize on a GPU (crop_functions.h): how a call's sizes become the items' numbers, and what
// their failures are called. Needs no CUDA itself.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/kernels/kernel.h"
#include "core/ops/crop.h"
#include "core/tensor/dtype.h"
#include "gpu/crop_functions.h"

namespace formwork {

/// Of a call's inputs 0 to 2.
template <typename T>
formwork_element::CropItem<T> CropItemOf(const CropGeometry& geometry, const KernelContext& ctx,
                                         bool nearest, float outside, Tensor& out) {
  return {static_cast<const T*>(ctx.input(0).raw()),
          static_cast<const float*>(ctx.input(1).raw()),
          static_cast<const int32_t*>(ctx.input(2).raw()),
          static_cast<float*>(out.mutable_raw()),
          {geometry.rows, geometry.cols, geometry.channels, geometry.crop_rows, geometry.crop_cols},
          nearest,
          outside};
}
inline formwork_element::CheckBoxesItem CheckBoxesItemOf(const CropGeometry& geometry,
                                                         const KernelContext& ctx,
                                                         formwork_element::MayFailItem may_fail) {
  return {static_cast<const float*>(ctx.input(1).raw()),
          static_cast<const int32_t*>(ctx.input(2).raw()), geometry.batch, may_fail};
}
/// What a CheckBoxesItem has found.
absl::Status BadBoxes(uint64_t where);

/// "CropItem<...>". Errors: kUnimplemented for dtypes that the host has to compute.
absl::StatusOr<std::string> CropItemName(DType dtype);
/// The text of what the items need beside item_functions.h, for ItemSource (item_source.h).
const std::string& CropText();

}  // namespace formwork
