#include "core/ops/image_color.h"

#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::Status CheckColors(absl::Span<const int64_t> images) {
  if (images.empty()) return InvalidArgument("input must be at least 1D", DimsText(images));
  if (MayBeEqual(images.back(), 3)) return absl::OkStatus();
  return FailedPrecondition("input must have 3 channels but input only has ", images.back(),
                            " channels.");
}

absl::Status CheckAdjusting(absl::Span<const int64_t> images, bool of_three_channels,
                            absl::string_view what, const Tensor* by) {
  if (images.size() < 3) {
    return InvalidArgument("input must be at least 3-D, got shape", DimsText(images));
  }
  if (by != nullptr && by->rank() != 0) {
    return InvalidArgument(what, " must be scalar: ", by->shape().ToString());
  }
  if (!of_three_channels || MayBeEqual(images.back(), 3)) return absl::OkStatus();
  return InvalidArgument("input must have 3 channels but instead has ", images.back(),
                         " channels.");
}

void RegisterImageColorOps(OpRegistry& registry) {
  const OpTraits kSame = {.shape_fn = shapes::SameAsFirstInput};
  registry.Add("RGBToHSV(images: T) -> (output: T); T: floattype = float", kSame);
  registry.Add("HSVToRGB(images: T) -> (output: T); T: floattype = float", kSame);
  registry.Add("AdjustHue(images: T, delta: float) -> (output: T); T: {half, float} = float",
               kSame);
  registry.Add("AdjustSaturation(images: T, scale: float) -> (output: T); T: {half, float} = float",
               kSame);
  registry.Add(
      "AdjustContrastv2(images: T, contrast_factor: float) -> (output: T); T: {half, float} = "
      "float",
      kSame);
}

}  // namespace formwork
