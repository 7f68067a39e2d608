#pragma once

// Max pooling that tells where the largest are, on every device. Channels come last. Shape
// functions use it, for which dimensions may be unknown (-1), and kernels. Errors are
// kInvalidArgument or kUnimplemented in TensorFlow's words.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/ops/conv.h"
#include "core/ops/window.h"

namespace formwork {

struct PoolArgmaxAttrs {
  SlidingAttrs window;
  /// Places count from the begin of the batch; else from that of their image.
  bool include_batch_in_index = false;

  static absl::StatusOr<PoolArgmaxAttrs> FromAttrs(const AttrMap& attrs);
};

absl::StatusOr<ConvShape> PreparePoolArgmax(const PoolArgmaxAttrs& attrs,
                                            absl::Span<const int64_t> input);
/// The pooling whose gradient it is.
absl::StatusOr<ConvShape> PreparePoolArgmaxGrad(const PoolArgmaxAttrs& attrs,
                                                absl::Span<const int64_t> input,
                                                absl::Span<const int64_t> grad,
                                                absl::Span<const int64_t> argmax);

}  // namespace formwork
