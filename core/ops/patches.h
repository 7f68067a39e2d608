#pragma once

// Patches of images and volumes, each as one vector, on every device. Shape functions use it, for
// which dimensions may be unknown (-1, and so is what follows from them), and kernels. Errors have
// TensorFlow's words and codes.

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/ops/op_def.h"
#include "core/ops/window.h"
#include "core/tensor/shape.h"

namespace formwork {

/// ExtractImagePatches (two spatial dimensions) and ExtractVolumePatches (three).
struct PatchAttrs {
  int spatial = 2;
  Padding padding = Padding::kValid;
  std::array<WindowAttr, 3> windows;  ///< Of planes, which images have one of, rows and columns.

  static absl::StatusOr<PatchAttrs> FromAttrs(const AttrMap& attrs, int spatial);
};

struct PatchAxis {
  int64_t input = 1;
  int64_t output = 1;
  int64_t pad_before = 0;  ///< Negative where the first patch begins within a volume.
  WindowAttr window;
};

struct PatchGeometry {
  int spatial = 2;
  int64_t batch = 0;
  int64_t channels = 0;
  int64_t depth = 0;  ///< Elements of a patch.
  std::array<PatchAxis, 3> axes;

  Dims patches() const;
};

/// `input`: [batch, rows, columns, channels], or [batch, planes, rows, columns, channels].
absl::StatusOr<PatchGeometry> PreparePatches(const PatchAttrs& attrs,
                                             absl::Span<const int64_t> input);

/// Part of the family image.
void RegisterPatchOps(OpRegistry& registry);

}  // namespace formwork
