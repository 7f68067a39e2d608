#pragma once

// Projective transforms of images on a GPU (transform_functions.h): how a call's shapes and memory
// become the items' numbers. Needs no CUDA itself.

#include <string>

#include "absl/status/statusor.h"
#include "core/kernels/kernel.h"
#include "core/ops/image.h"
#include "core/tensor/tensor.h"
#include "gpu/transform_functions.h"

namespace formwork {

/// Of a call's inputs: images, transforms, the output's size and, for V3, what lies outside.
/// Errors: kInvalidArgument, the op's.
absl::StatusOr<TransformGeometry> PrepareTransformCall(const KernelContext& ctx);
template <typename T>
formwork_element::TransformItem<T> TransformItemOf(const TransformAttrs& attrs,
                                                   const TransformGeometry& geometry,
                                                   const KernelContext& ctx, Tensor& out) {
  return {static_cast<const T*>(ctx.input(0).raw()),
          static_cast<const float*>(ctx.input(1).raw()),
          static_cast<T*>(out.mutable_raw()),
          geometry.in_rows,
          geometry.in_cols,
          geometry.out_rows,
          geometry.out_cols,
          geometry.channels,
          ctx.input(1).dim(0) == 1,
          attrs.bilinear,
          static_cast<formwork_element::TransformFill>(attrs.fill_mode),
          ctx.num_inputs() > 3 ? ctx.input(3).scalar<float>() : 0.0f};
}

/// "TransformItem<...>". Errors: kUnimplemented for dtypes that the host has to compute.
absl::StatusOr<std::string> TransformItemName(DType dtype);
/// The text of what the items need beside item_functions.h, for ItemSource (item_source.h).
const std::string& TransformText();

}  // namespace formwork
