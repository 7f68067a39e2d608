// What kernels do for one element of images that are resized, and of their gradients: compiled for
// GPUs at run time, from this text behind those of item_functions.h and element_access.h, and by
// the host's compiler for the op cases. Positions are computed in float, each step rounded, as
// TensorFlow's are (core/kernels/image). What several threads add to one element they add in any
// order.
#ifndef __CUDACC_RTC__
#pragma once
#include <cmath>

#include "gpu/element_access.h"
#include "gpu/item_functions.h"
#endif

namespace formwork_element {

#ifdef __CUDACC_RTC__
FORMWORK_ELEMENT float RoundedTimes(float a, float b) { return __fmul_rn(a, b); }
#else
using std::round;
FORMWORK_ELEMENT float RoundedTimes(float a, float b) { return a * b; }
#endif

// An axis of the image, and how places of the resized one lie on it.
struct ResizeAxis {
  int64_t in, out;
  float scale;  // Elements of the image for each of the resized one.
  bool align_corners, half_pixel_centers;

  FORMWORK_ELEMENT int64_t Clamp(float at) const {
    const int64_t k = static_cast<int64_t>(at);
    return k < 0 ? 0 : k < in ? k : in - 1;
  }
  FORMWORK_ELEMENT int64_t Nearest(int64_t i) const {
    const float at = RoundedTimes(static_cast<float>(i) + (half_pixel_centers ? 0.5f : 0), scale);
    return Clamp(align_corners ? round(at) : floor(at));
  }
};

// Where a place lies between two of the image.
struct ResizeBetween {
  int64_t lower, upper;
  float lerp;
};
FORMWORK_ELEMENT ResizeBetween BetweenAt(const ResizeAxis& axis, int64_t i) {
  const float at = axis.half_pixel_centers
                       ? RoundedTimes(static_cast<float>(i) + 0.5f, axis.scale) - 0.5f
                       : RoundedTimes(static_cast<float>(i), axis.scale);
  const float below = floor(at);
  return {axis.Clamp(below), axis.Clamp(ceil(at)), at - below};
}

// [batch, rows, cols, channels], as which an item of the resized images is found.
struct ResizeSizes {
  ResizeAxis rows, cols;
  int64_t channels;
};
struct ResizePlace {
  int64_t image, row, col, channel;
};
FORMWORK_ELEMENT ResizePlace PlaceOf(const ResizeSizes& sizes, uint64_t i) {
  const int64_t at = static_cast<int64_t>(i);
  const int64_t pixel = at / sizes.channels, line = pixel / sizes.cols.out;
  const int64_t image = line / sizes.rows.out;
  return {image, line - image * sizes.rows.out, pixel - line * sizes.cols.out,
          at - pixel * sizes.channels};
}
// The element of the image that lies there.
FORMWORK_ELEMENT int64_t ElementAt(const ResizeSizes& sizes, const ResizePlace& place, int64_t row,
                                   int64_t col) {
  return ((place.image * sizes.rows.in + row) * sizes.cols.in + col) * sizes.channels +
         place.channel;
}

// An item is an element of the resized images, here and below. E: of any type of its size.
template <typename E>
struct NearestItem {
  const E* images;
  E* resized;
  ResizeSizes sizes;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const ResizePlace place = PlaceOf(sizes, i);
    resized[i] = images[ElementAt(sizes, place, sizes.rows.Nearest(place.row),
                                  sizes.cols.Nearest(place.col))];
  }
};

template <typename T>
struct BilinearItem {
  const T* images;
  float* resized;
  ResizeSizes sizes;

  FORMWORK_ELEMENT float At(const ResizePlace& place, int64_t row, int64_t col) const {
    return static_cast<float>(Widen(images[ElementAt(sizes, place, row, col)]));
  }
  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const ResizePlace place = PlaceOf(sizes, i);
    const ResizeBetween row = BetweenAt(sizes.rows, place.row);
    const ResizeBetween col = BetweenAt(sizes.cols, place.col);
    const float top = At(place, row.lower, col.lower), bottom = At(place, row.upper, col.lower);
    const float above = top + (At(place, row.lower, col.upper) - top) * col.lerp;
    const float below = bottom + (At(place, row.upper, col.upper) - bottom) * col.lerp;
    resized[i] = above + (below - above) * row.lerp;
  }
};

// Gradients are added to the element that they were copied from. `images` is zeros.
template <typename T>
struct NearestGradItem {
  const T* resized;
  T* images;
  ResizeSizes sizes;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const ResizePlace place = PlaceOf(sizes, i);
    const T grad = resized[i];
    Exchange(images + ElementAt(sizes, place, sizes.rows.Nearest(place.row),
                                sizes.cols.Nearest(place.col)),
             [grad](T before) { return AddRounded(before, grad); });
  }
};

// They are shared out among the four elements that they were made of. T: float, double.
template <typename T>
struct BilinearGradItem {
  const float* resized;
  T* images;
  ResizeSizes sizes;

  FORMWORK_ELEMENT void AddTo(const ResizePlace& place, int64_t row, int64_t col,
                              float grad) const {
    const T share = static_cast<T>(grad);
    Exchange(images + ElementAt(sizes, place, row, col),
             [share](T before) { return Add(before, share); });
  }
  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const ResizePlace place = PlaceOf(sizes, i);
    const ResizeBetween row = BetweenAt(sizes.rows, place.row);
    const ResizeBetween col = BetweenAt(sizes.cols, place.col);
    const float above = resized[i] * (1.0f - row.lerp), below = resized[i] * row.lerp;
    AddTo(place, row.lower, col.lower, above * (1.0f - col.lerp));
    AddTo(place, row.lower, col.upper, above * col.lerp);
    AddTo(place, row.upper, col.lower, below * (1.0f - col.lerp));
    AddTo(place, row.upper, col.upper, below * col.lerp);
  }
};

}  // namespace formwork_element
