#pragma once

// What tf.strided_slice's masks, begins, ends and strides, and tf.slice's begins and sizes, mean
// for a given shape, and what may be written there; shared by shape functions and kernels.

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Bit i of a mask speaks of entry i of begin, end and strides.
struct SliceMasks {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t ellipsis = 0;
  int64_t new_axis = 0;
  int64_t shrink_axis = 0;

  static absl::StatusOr<SliceMasks> FromAttrs(const AttrMap& attrs);
};

/// Entries begin, begin + stride, ... (size of them) of one dimension of the input. `size` is -1
/// where it is unknown.
struct SliceDim {
  int64_t begin;
  int64_t stride;
  int64_t size;
};

struct SliceBounds {
  absl::InlinedVector<SliceDim, 6> dims;  ///< One per dimension of the input.
  Dims output;                            ///< After new axes are put in and shrunk ones left out.
  bool whole = true;                      ///< All elements of the input, in order.
};

/// `begin` and `end` may be null where they are unknown; `input` has a known rank.
/// Errors: kInvalidArgument if the specification does not fit the shape, in TensorFlow's words.
absl::Status ResolveStridedSlice(const SliceMasks& masks, const Dims* begin, const Dims* end,
                                 const Dims& strides, absl::Span<const int64_t> input,
                                 SliceBounds& bounds);
/// The same of begin, end and strides as a kernel has them.
absl::StatusOr<SliceBounds> PrepareStridedSlice(const SliceMasks& masks,
                                                absl::Span<const int64_t> input,
                                                const Tensor& begin, const Tensor& end,
                                                const Tensor& strides);

/// StridedSliceGrad: of what shape the gradient is, and where in it `dy` goes. Errors: as above,
/// and if `dy` has not the slice's shape.
struct StridedSliceGradGeometry {
  Shape output;
  SliceBounds bounds;
};
absl::StatusOr<StridedSliceGradGeometry> PrepareStridedSliceGrad(
    const SliceMasks& masks, const Tensor& shape, const Tensor& begin, const Tensor& end,
    const Tensor& strides, absl::Span<const int64_t> dy);

/// Slice: `begin` and `size` (-1: all that follows) may be null where they are unknown; dimensions
/// of `input` may be -1. A begin that is unknown is -1 in `bounds`.
/// Errors: kInvalidArgument in TensorFlow's words if they do not fit the shape.
absl::Status ResolveSlice(const Dims* begin, const Dims* size, absl::Span<const int64_t> input,
                          SliceBounds& bounds);
/// The same of begin and size as a kernel has them.
absl::StatusOr<SliceBounds> PrepareSlice(absl::Span<const int64_t> input, const Tensor& begin,
                                         const Tensor& size);

/// XlaDynamicSlice and XlaDynamicUpdateSlice: a slice of `size` as XLA has it: `begin` is moved so
/// that it fits.
/// Errors: kInvalidArgument if ranks differ, or if it is larger than the input.
absl::StatusOr<SliceBounds> PrepareDynamicSlice(absl::Span<const int64_t> input,
                                                const Tensor& begin,
                                                absl::Span<const int64_t> size);
/// The same of a size as a kernel has it. Errors: also if it is negative.
absl::StatusOr<SliceBounds> PrepareDynamicSlice(absl::Span<const int64_t> input,
                                                const Tensor& begin, const Tensor& size);

/// Whether a value may be written to a slice: it has its shape, or broadcasts to it. Errors:
/// kInvalidArgument.
absl::Status CheckSliceValue(const SliceBounds& bounds, absl::Span<const int64_t> value);

}  // namespace formwork
