#pragma once

// Morphological dilation on every device: attrs, and geometry from shapes, of which dimensions may
// be unknown (-1) to shape functions. Errors are kInvalidArgument in TensorFlow's words.

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/ops/window.h"
#include "core/tensor/shape.h"

namespace formwork {

struct DilationAttrs {
  Padding padding = Padding::kValid;
  std::array<WindowAttr, 2> windows;  ///< Of rows and columns; their sizes are the filter's.

  static absl::StatusOr<DilationAttrs> FromAttrs(const AttrMap& attrs);
};

struct DilationAxis {
  int64_t input;
  int64_t output;
  int64_t window;
  int64_t stride;
  int64_t rate;
  int64_t pad_before;
};

struct DilationGeometry {
  int64_t batch;
  DilationAxis rows;
  DilationAxis cols;
  int64_t channels;

  Dims output_dims() const { return {batch, rows.output, cols.output, channels}; }
};
absl::StatusOr<DilationGeometry> PrepareDilation(const DilationAttrs& attrs,
                                                 absl::Span<const int64_t> input,
                                                 absl::Span<const int64_t> filter);

}  // namespace formwork
