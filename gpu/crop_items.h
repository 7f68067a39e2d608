#pragma once

// CropAndResize and its gradients on a GPU (crop_functions.h): how a call's sizes become the items'
// numbers, and what their failures are called. Needs no CUDA itself.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/kernels/kernel.h"
#include "core/ops/crop.h"
#include "core/tensor/dtype.h"
#include "gpu/crop_functions.h"

namespace formwork {

inline formwork_element::CropSizes CropSizesOf(const CropGeometry& geometry) {
  return {geometry.rows, geometry.cols, geometry.channels, geometry.crop_rows, geometry.crop_cols};
}
/// Of a call's inputs, as the op has them, here and below.
template <typename T>
formwork_element::CropItem<T> CropItemOf(const CropGeometry& geometry, const KernelContext& ctx,
                                         bool nearest, float outside, Tensor& out) {
  return {static_cast<const T*>(ctx.input(0).raw()),
          static_cast<const float*>(ctx.input(1).raw()),
          static_cast<const int32_t*>(ctx.input(2).raw()),
          static_cast<float*>(out.mutable_raw()),
          CropSizesOf(geometry),
          nearest,
          outside};
}
template <typename T>
formwork_element::CropGradImageItem<T> CropGradImageItemOf(const CropGeometry& geometry,
                                                           const KernelContext& ctx, bool nearest,
                                                           Tensor& out) {
  return {static_cast<const float*>(ctx.input(0).raw()),
          static_cast<const float*>(ctx.input(1).raw()),
          static_cast<const int32_t*>(ctx.input(2).raw()),
          static_cast<T*>(out.mutable_raw()),
          CropSizesOf(geometry),
          nearest};
}
template <typename T>
formwork_element::CropGradBoxesItem<T> CropGradBoxesItemOf(const CropGeometry& geometry,
                                                           const KernelContext& ctx, Tensor& out) {
  return {static_cast<const float*>(ctx.input(0).raw()),
          static_cast<const T*>(ctx.input(1).raw()),
          static_cast<const float*>(ctx.input(2).raw()),
          static_cast<const int32_t*>(ctx.input(3).raw()),
          static_cast<float*>(out.mutable_raw()),
          CropSizesOf(geometry)};
}
/// `boxes`: the input that is them; the next one says their images.
inline formwork_element::CheckBoxesItem CheckBoxesItemOf(const CropGeometry& geometry,
                                                         const KernelContext& ctx, int boxes,
                                                         formwork_element::MayFailItem may_fail) {
  return {static_cast<const float*>(ctx.input(boxes).raw()),
          static_cast<const int32_t*>(ctx.input(boxes + 1).raw()), geometry.batch, may_fail};
}
/// What a CheckBoxesItem has found.
absl::Status BadBoxes(uint64_t where);

/// "CropItem<...>" and its like, for the op and images of `dtype`. Errors: kUnimplemented for
/// dtypes that the host has to compute.
absl::StatusOr<std::string> CropItemName(absl::string_view op, DType dtype);
/// The text of what the items need beside item_functions.h, for ItemSource (item_source.h).
const std::string& CropText();

}  // namespace formwork
