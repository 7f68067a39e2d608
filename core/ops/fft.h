#pragma once

// What Fourier transforms are on every device: geometry from shapes and the lengths. Shape
// functions use it, for which dimensions may be unknown (-1), and kernels.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// FFT, FFT2D and FFT3D and their inverses, over the last `rank` dimensions. Errors:
/// kInvalidArgument in TensorFlow's words if there are fewer.
absl::Status CheckFft(int rank, absl::Span<const int64_t> input);

/// FFTND and its like: how many dimensions `axes` lists, which are the last ones in their order.
/// Errors: kInvalidArgument in TensorFlow's words if they are others, or there are fewer.
absl::StatusOr<int> PrepareFftAxes(absl::Span<const int64_t> input, const Tensor& axes);

/// FFTND and IFFTND: the output's dimensions; of longer dimensions the beginnings are transformed.
/// Errors: as below. (TensorFlow reads behind a dimension that is shorter than its length.)
absl::StatusOr<Dims> PrepareFftNd(int rank, absl::Span<const int64_t> input,
                                  const Tensor& fft_length);

struct RealFftGeometry {
  Dims lengths;  ///< Of the transform, in the last dimensions.
  Dims output;
};

/// RFFT and its like, `forward`, or IRFFT. Errors: kInvalidArgument in TensorFlow's words if there
/// are fewer dimensions, fft_length is not [rank] or negative, or a dimension is shorter than it
/// takes.
absl::StatusOr<RealFftGeometry> PrepareRealFft(int rank, bool forward,
                                               absl::Span<const int64_t> input,
                                               const Tensor& fft_length);

}  // namespace formwork
