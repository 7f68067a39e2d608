// What kernels do for one element of images that are transformed projectively: compiled for GPUs at
// run time, from this text behind those of item_functions.h, element_access.h and
// resize_functions.h, and by the host's compiler for the op cases. Positions are computed in float,
// each step rounded, as TensorFlow's are (core/kernels/image).
#ifndef __CUDACC_RTC__
#pragma once
#include "gpu/resize_functions.h"
#endif

namespace formwork_element {

// FillMode of core/ops/image.h.
enum TransformFill { kFillConstant, kFillReflect, kFillWrap, kFillNearest };

// As an integer, for counting whole periods; what is far out of range counts as the farthest.
FORMWORK_ELEMENT float WholePeriods(float x) {
  return trunc(x < -1e18f ? -1e18f : x > 1e18f ? 1e18f : x);
}
// Where in [0, size - 1] a coordinate outside of it lies.
FORMWORK_ELEMENT float MapInside(TransformFill mode, float at, int64_t length) {
  const float size = static_cast<float>(length), last = size - 1, both = 2 * size;
  if (mode == kFillConstant) return at;
  if (mode != kFillNearest && length <= 1) return 0;
  if (mode == kFillReflect && at < 0) {
    if (at < both) at = RoundedTimes(both, WholePeriods(-at / both)) + at;
    at = at < -size ? at + both : -at - 1;
  } else if (mode == kFillReflect && at > last) {
    at -= RoundedTimes(both, WholePeriods(at / both));
    if (at >= size) at = both - at - 1;
  } else if (mode == kFillWrap && at < 0) {
    at += RoundedTimes(size, WholePeriods(-at / last) + 1);
  } else if (mode == kFillWrap && at > last) {
    at -= RoundedTimes(size, WholePeriods(at / last));
  }
  return at > 0 ? (last < at ? last : at) : 0;  // NaN is 0, too.
}

// An item is an element of the output, [batch, out_rows, out_cols, channels].
template <typename T>
struct TransformItem {
  const T* images;
  const float* transforms;  // Of 8 numbers, for each image or for all.
  T* out;
  int64_t in_rows, in_cols, out_rows, out_cols, channels;
  bool one, bilinear;
  TransformFill mode;
  float fill;

  // Of an image that begins at `image`; what is outside is filled.
  FORMWORK_ELEMENT T At(const T* image, float row, float col, int64_t channel) const {
    const bool inside = row >= 0 && row < static_cast<float>(in_rows) && col >= 0 &&
                        col < static_cast<float>(in_cols);
    if (!inside) return CastTo<T>(fill);
    return image[(static_cast<int64_t>(row) * in_cols + static_cast<int64_t>(col)) * channels +
                 channel];
  }
  // Between two.
  FORMWORK_ELEMENT float Along(const T* image, float row, float left, float col,
                               int64_t channel) const {
    return RoundedTimes(left + 1 - col, static_cast<float>(Widen(At(image, row, left, channel)))) +
           RoundedTimes(col - left, static_cast<float>(Widen(At(image, row, left + 1, channel))));
  }
  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const int64_t at = static_cast<int64_t>(i), pixel = at / channels, line = pixel / out_cols;
    const int64_t n = line / out_rows, channel = at - pixel * channels;
    const T* const image = images + n * in_rows * in_cols * channels;
    const float* const by = transforms + (one ? 0 : n * 8);
    const float y = static_cast<float>(line - n * out_rows);
    const float x = static_cast<float>(pixel - line * out_cols);
    const float projection = RoundedTimes(by[6], x) + RoundedTimes(by[7], y) + 1;
    if (projection == 0) {
      out[i] = CastTo<T>(fill);
      return;
    }
    const float to_col = (RoundedTimes(by[0], x) + RoundedTimes(by[1], y) + by[2]) / projection;
    const float to_row = (RoundedTimes(by[3], x) + RoundedTimes(by[4], y) + by[5]) / projection;
    const float col = MapInside(mode, to_col, in_cols), row = MapInside(mode, to_row, in_rows);
    if (!bilinear) {
      out[i] = At(image, round(row), round(col), channel);
      return;
    }
    const float top = floor(row), left = floor(col);
    const float above = Along(image, top, left, col, channel);
    const float below = Along(image, top + 1, left, col, channel);
    out[i] = CastTo<T>(RoundedTimes(top + 1 - row, above) + RoundedTimes(row - top, below));
  }
};

}  // namespace formwork_element
