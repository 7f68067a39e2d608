#pragma once

// Pooling on every device: geometry from shapes. Shape functions use it, for which dimensions may
// be unknown (-1, and so is what follows from them), and kernels. The attrs are in window.h.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/conv.h"
#include "core/ops/window.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Of MaxPool and AvgPool: as a convolution that keeps channels apart. Over channels, where
/// attrs.depth_window says so, there are fewer of them and the image stays as large. Errors:
/// kInvalidArgument or kUnimplemented in TensorFlow's words.
absl::StatusOr<ConvShape> PreparePool(const SlidingAttrs& attrs, absl::Span<const int64_t> input);

/// MaxPoolV2's attrs, whose window and strides are the vectors `ksize` and `strides`. Errors: as
/// above.
absl::StatusOr<SlidingAttrs> MaxPoolV2Attrs(const AttrMap& attrs, const Tensor& ksize,
                                            const Tensor& strides);

/// The pooling whose gradient it is. Errors: as above, and kInvalidArgument where an image has more
/// pixels than fit int32.
absl::StatusOr<ConvShape> PrepareMaxPoolGrad(const SlidingAttrs& attrs,
                                             absl::Span<const int64_t> orig_input,
                                             absl::Span<const int64_t> orig_output,
                                             absl::Span<const int64_t> grad);

/// Its input_dims() are the output's. `orig_input_shape` lists them, or holds them. Errors: as
/// above.
absl::StatusOr<ConvShape> PrepareAvgPoolGrad(const SlidingAttrs& attrs,
                                             absl::Span<const int64_t> orig_input_shape,
                                             absl::Span<const int64_t> grad);
absl::StatusOr<ConvShape> PrepareAvgPoolGrad(const SlidingAttrs& attrs,
                                             const Tensor& orig_input_shape,
                                             absl::Span<const int64_t> grad);

/// Attr _relu of MaxPoolGrad: its input is the output of a ReLU whose gradient it computes as well.
/// Set by FuseReluGradients.
bool OfRelu(const AttrMap& attrs);
void SetOfRelu(AttrMap& attrs);

}  // namespace formwork
