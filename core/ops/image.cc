#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

void RegisterImageOps(OpRegistry& registry) {
  registry.Add(
      "ResizeBilinear(images: T, size: int32) -> (resized_images: float); T: {int8, uint8, "
      "int16, uint16, int32, int64, bfloat16, half, float, double, bfloat16}; "
      "align_corners: bool = false; half_pixel_centers: bool = false",
      {});
  registry.Add(
      "ResizeBilinearGrad(grads: float, original_image: T) -> (output: T); T: {float, "
      "bfloat16, half, double}; align_corners: bool = false; half_pixel_centers: bool = "
      "false",
      {});
}

}  // namespace formwork
