// What kernels do for one element of crops of images, resized: compiled for GPUs at run time, from
// this text behind those of item_functions.h, element_access.h and resize_functions.h, and by the
// host's compiler for the op cases. Positions are computed in float, each step rounded, as
// TensorFlow's are (core/kernels/image): a bit more may lie outside of the image.
#ifndef __CUDACC_RTC__
#pragma once
#include "gpu/resize_functions.h"
#endif

namespace formwork_element {

// FailureWord::where: what is wrong with boxes, the worst first.
constexpr uint64_t kNoSuchImage = 0;
constexpr uint64_t kNotFinite = 1;

// Before the crops: an item is a box.
struct CheckBoxesItem {
  const float* corners;  // Of each: top, left, bottom, right.
  const int32_t* image;
  int64_t batch;
  MayFailItem may_fail;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    if (image[i] < 0 || image[i] >= batch) return Fail(may_fail, kNoSuchImage);
    for (int k = 0; k < 4; ++k) {
      if (!isfinite(corners[4 * i + k])) return Fail(may_fail, kNotFinite);
    }
  }
};

// Where the places of one axis of a crop lie in the image.
struct CropAxis {
  float first, last;  // What is a part of the image is given from 0 to 1.
  int64_t size;       // Of the image.
  int64_t places;     // Of the crop.

  FORMWORK_ELEMENT float Extent() const { return static_cast<float>(size - 1); }
  FORMWORK_ELEMENT float At(int64_t i) const {
    if (places == 1) {
      return static_cast<float>(0.5 * static_cast<double>(first + last) *
                                static_cast<double>(size - 1));
    }
    const float step = RoundedTimes(last - first, Extent()) / static_cast<float>(places - 1);
    return RoundedTimes(first, Extent()) + RoundedTimes(static_cast<float>(i), step);
  }
  FORMWORK_ELEMENT bool Has(float at) const { return at >= 0 && at <= Extent(); }
  // Rounding of large sizes may lead out of the image.
  FORMWORK_ELEMENT int64_t Inside(float at) const {
    const int64_t k = static_cast<int64_t>(at);
    return k < size ? k : size - 1;
  }
};

struct CropSizes {
  int64_t rows, cols, channels, crop_rows, crop_cols;
};

// CropAndResize: an item is an element of the crops. The boxes have been checked.
template <typename T>
struct CropItem {
  const T* images;
  const float* corners;
  const int32_t* image;
  float* crops;
  CropSizes sizes;
  bool nearest;
  float outside;

  FORMWORK_ELEMENT float Element(int64_t box, int64_t row, int64_t col, int64_t channel) const {
    const int64_t line = image[box] * sizes.rows + row;
    return static_cast<float>(Widen(images[(line * sizes.cols + col) * sizes.channels + channel]));
  }
  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const int64_t at = static_cast<int64_t>(i), pixel = at / sizes.channels;
    const int64_t line = pixel / sizes.crop_cols, box = line / sizes.crop_rows;
    const int64_t c = at - pixel * sizes.channels;
    const float* corner = corners + 4 * box;
    const CropAxis rows{corner[0], corner[2], sizes.rows, sizes.crop_rows};
    const CropAxis cols{corner[1], corner[3], sizes.cols, sizes.crop_cols};
    const float row = rows.At(line - box * sizes.crop_rows);
    const float col = cols.At(pixel - line * sizes.crop_cols);
    if (!rows.Has(row) || !cols.Has(col)) {
      crops[i] = outside;
    } else if (nearest) {
      crops[i] = Element(box, rows.Inside(round(row)), cols.Inside(round(col)), c);
    } else {
      const int64_t top = rows.Inside(floor(row)), bottom = rows.Inside(ceil(row));
      const int64_t left = cols.Inside(floor(col)), right = cols.Inside(ceil(col));
      const float along = col - floor(col), top_left = Element(box, top, left, c);
      const float bottom_left = Element(box, bottom, left, c);
      const float above = top_left + (Element(box, top, right, c) - top_left) * along;
      const float below = bottom_left + (Element(box, bottom, right, c) - bottom_left) * along;
      crops[i] = above + (below - above) * (row - floor(row));
    }
  }
};

}  // namespace formwork_element
