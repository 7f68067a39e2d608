#pragma once

// Images whose colours change on a GPU (color_functions.h): which items do it, and how a call's
// shapes and memory become their numbers. Needs no CUDA itself.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/tensor/tensor.h"
#include "gpu/color_functions.h"

namespace formwork {

/// An op that changes pixels, each by itself.
struct ColorOp {
  absl::string_view op;
  absl::string_view change;  ///< In core/kernels/image/color_rules.h.
  absl::string_view by;      ///< The name of input 1; empty: there is none.
};
/// RGBToHSV, HSVToRGB, AdjustHue, AdjustSaturation.
absl::Span<const ColorOp> ColorOps();
/// "ColorItem<...>". Errors: kUnimplemented for dtypes that the host has to compute.
absl::StatusOr<std::string> ColorItemName(const ColorOp& op, DType dtype);

/// AdjustContrastv2, of images of at least one element: the items but for their pointers.
struct ContrastPlan {
  uint64_t images, pixels, channels, parts, part;

  uint64_t sums() const { return images * parts * channels; }
  uint64_t means() const { return images * channels; }
};
ContrastPlan PlanContrast(const Shape& images);

/// The text of what the items need beside item_functions.h, for ItemSource (item_source.h).
const std::string& ColorText();

}  // namespace formwork
