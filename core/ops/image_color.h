#pragma once

// Colours of images on every device: what the ops that change them want. Shape functions use it,
// for which dimensions may be unknown (-1), and kernels. Errors are in TensorFlow's words.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// RGBToHSV, HSVToRGB: [..., 3]. Errors: kInvalidArgument; kFailedPrecondition for other channels.
absl::Status CheckColors(absl::Span<const int64_t> images);
/// AdjustHue, AdjustSaturation, AdjustContrastv2: [..., rows, columns, channels], and a scalar
/// (null: not known) that errors call `what`. Errors: kInvalidArgument.
absl::Status CheckAdjusting(absl::Span<const int64_t> images, bool of_three_channels,
                            absl::string_view what, const Tensor* by);

}  // namespace formwork
