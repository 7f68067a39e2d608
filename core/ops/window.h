#pragma once

// Windows that slide over two spatial dimensions: what the attrs of convolutions and pooling say,
// and the sizes that follow. Shape functions use it, for which dimensions may be unknown (-1), and
// kernels.

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"

namespace formwork {

enum class Padding : uint8_t { kSame, kValid, kExplicit };

/// Which dimension of a rank-4 activation is what.
struct ImageLayout {
  bool channels_first = false;
  int channels() const { return channels_first ? 1 : 3; }
  int rows() const { return channels_first ? 2 : 1; }
  int cols() const { return channels_first ? 3 : 2; }
  Dims Of(int64_t batch, int64_t rows, int64_t cols, int64_t channels) const {
    return channels_first ? Dims{batch, channels, rows, cols} : Dims{batch, rows, cols, channels};
  }
};

/// The window of one spatial dimension. All but the padding are at least 1 and fit int32.
struct WindowAttr {
  int64_t size = 1;  ///< Pooling's; a convolution's is its filter's.
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_before = 0;  ///< Explicit padding; not negative.
  int64_t pad_after = 0;
};

struct SlidingAttrs {
  ImageLayout layout;
  Padding padding = Padding::kValid;
  WindowAttr rows;
  WindowAttr cols;
  int64_t depth_window = 1;  ///< Pooling over channels (then rows and cols have size 1).

  /// Errors of both: kInvalidArgument or kUnimplemented, in TensorFlow's words.
  static absl::StatusOr<SlidingAttrs> OfConv(const AttrMap& attrs);
  static absl::StatusOr<SlidingAttrs> OfPool(const AttrMap& attrs);
};

/// How a window goes over one dimension. Where that does not follow from what is known the output
/// is -1, and the padding means nothing.
struct WindowedSize {
  int64_t output = 0;
  int64_t pad_before = 0;
  int64_t pad_after = 0;
};

/// `window`: the elements under the window before dilation, up to int32's range.
/// Errors: kInvalidArgument if the output's size would be negative.
absl::StatusOr<WindowedSize> SlideWindow(int64_t input, int64_t window, const WindowAttr& attr,
                                         Padding padding);

}  // namespace formwork
