#pragma once

// What paddings mean for a shape; shared by shape functions, for which dimensions may be unknown
// (-1), and kernels.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// For each dimension what lies before and after it; none is negative.
struct PadGeometry {
  Dims before;
  Dims after;
  Dims output;
};

/// Pad, PadV2. Errors: kInvalidArgument in TensorFlow's words if the paddings do not fit the shape
/// or are negative.
absl::StatusOr<PadGeometry> PreparePad(absl::Span<const int64_t> input, const Tensor& paddings);

struct MirrorAttrs {
  int64_t offset = 0;  ///< 1 where the border itself is not repeated (REFLECT).

  static absl::StatusOr<MirrorAttrs> FromAttrs(const AttrMap& attrs);
};

/// MirrorPad. Errors: as PreparePad, and where there is not as much to mirror.
absl::StatusOr<PadGeometry> PrepareMirrorPad(const MirrorAttrs& attrs,
                                             absl::Span<const int64_t> input,
                                             const Tensor& paddings);
/// MirrorPadGrad: of an input with the paddings to an output without. Errors: as above.
absl::StatusOr<PadGeometry> PrepareMirrorPadGrad(const MirrorAttrs& attrs,
                                                 absl::Span<const int64_t> input,
                                                 const Tensor& paddings);

}  // namespace formwork
