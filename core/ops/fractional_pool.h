#pragma once

// Pooling of regions of unequal sizes, whose borders along rows and columns are drawn. Shape
// functions use it, for which dimensions may be unknown (-1), and kernels. Errors are
// kInvalidArgument or kUnimplemented in TensorFlow's words, where it looks.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

struct FractionalPoolAttrs {
  std::vector<float> pooling_ratio;  ///< Of each dimension: how much shorter it becomes.
  bool pseudo_random = false;        ///< Borders are spread evenly, from a start that is drawn.
  bool overlapping = false;          ///< Regions have their last row and column in common.
  bool deterministic = false;        ///< Each call has the same borders.
  int64_t seed = 0;  ///< Of what is deterministic; the position in it is drawn else.
  int64_t seed2 = 0;

  static absl::StatusOr<FractionalPoolAttrs> FromAttrs(const AttrMap& attrs);
};

/// The output's dimensions. Of its rows and columns there is one border more each. (TensorFlow's
/// shape function says as many borders as rows.)
absl::StatusOr<Dims> PrepareFractionalPool(const FractionalPoolAttrs& attrs,
                                           absl::Span<const int64_t> input);

/// The regions along one dimension: `output` of them, from one border to the next. Errors if they
/// are not within `input`, or one is empty. (TensorFlow does not look.)
absl::Status CheckPoolingSequence(const Tensor& sequence, int64_t input, int64_t output,
                                  bool overlapping);

/// FractionalMaxPoolGrad: whether the original's and the output's shapes fit.
absl::Status CheckFractionalMaxPoolGrad(absl::Span<const int64_t> input,
                                        absl::Span<const int64_t> output,
                                        absl::Span<const int64_t> grad);

/// FractionalAvgPoolGrad: the original's shape, which a vector lists.
absl::StatusOr<Shape> PrepareFractionalAvgPoolGrad(const Tensor& orig_input_shape,
                                                   absl::Span<const int64_t> grad);

}  // namespace formwork
