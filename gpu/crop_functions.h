// What kernels do for one element of crops of images, resized: compiled for GPUs at run time, from
// this text behind those of item_functions.h, element_access.h and resize_functions.h, and by the
// host's compiler for the op cases. Positions are computed in float, each step rounded, as
// TensorFlow's are (core/kernels/image): a bit more may lie outside of the image. What several
// threads add to one element they add in any order.
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

// Which place of which box one of the crops' elements, or pixels, is, and where that lies in the
// image.
struct CropPlace {
  int64_t box, crop_row, crop_col;
  CropAxis rows, cols;
  float row, col;

  FORMWORK_ELEMENT CropPlace(const CropSizes& sizes, const float* corners, int64_t pixel) {
    const int64_t line = pixel / sizes.crop_cols;
    box = line / sizes.crop_rows;
    crop_row = line - box * sizes.crop_rows;
    crop_col = pixel - line * sizes.crop_cols;
    const float* corner = corners + 4 * box;
    rows = {corner[0], corner[2], sizes.rows, sizes.crop_rows};
    cols = {corner[1], corner[3], sizes.cols, sizes.crop_cols};
    row = rows.At(crop_row);
    col = cols.At(crop_col);
  }
  FORMWORK_ELEMENT bool IsInside() const { return rows.Has(row) && cols.Has(col); }
};
// The four elements of an image between which a place inside lies, and how far from the first.
struct CropBetween {
  int64_t top, bottom, left, right;
  float down, along;

  explicit FORMWORK_ELEMENT CropBetween(const CropPlace& at)
      : top(at.rows.Inside(floor(at.row))),
        bottom(at.rows.Inside(ceil(at.row))),
        left(at.cols.Inside(floor(at.col))),
        right(at.cols.Inside(ceil(at.col))),
        down(at.row - floor(at.row)),
        along(at.col - floor(at.col)) {}
};
FORMWORK_ELEMENT int64_t ImageElement(const CropSizes& sizes, int64_t image, int64_t row,
                                      int64_t col, int64_t channel) {
  return ((image * sizes.rows + row) * sizes.cols + col) * sizes.channels + channel;
}

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
    return static_cast<float>(Widen(images[ImageElement(sizes, image[box], row, col, channel)]));
  }
  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const int64_t at = static_cast<int64_t>(i), pixel = at / sizes.channels;
    const int64_t c = at - pixel * sizes.channels;
    const CropPlace place(sizes, corners, pixel);
    if (!place.IsInside()) {
      crops[i] = outside;
    } else if (nearest) {
      crops[i] = Element(place.box, place.rows.Inside(round(place.row)),
                         place.cols.Inside(round(place.col)), c);
    } else {
      const CropBetween b(place);
      const float top_left = Element(place.box, b.top, b.left, c);
      const float bottom_left = Element(place.box, b.bottom, b.left, c);
      const float above = top_left + (Element(place.box, b.top, b.right, c) - top_left) * b.along;
      const float below =
          bottom_left + (Element(place.box, b.bottom, b.right, c) - bottom_left) * b.along;
      crops[i] = above + (below - above) * b.down;
    }
  }
};

// CropAndResizeGradImage: an item is an element of the crops, whose gradient the elements share
// that it was made of. `images` is zeros. T: float, double.
template <typename T>
struct CropGradImageItem {
  const float* crops;
  const float* corners;
  const int32_t* image;
  T* images;
  CropSizes sizes;
  bool nearest;

  FORMWORK_ELEMENT void AddTo(int64_t box, int64_t row, int64_t col, int64_t channel,
                              float grad) const {
    const T share = static_cast<T>(grad);
    Exchange(images + ImageElement(sizes, image[box], row, col, channel),
             [share](T before) { return Add(before, share); });
  }
  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const int64_t at = static_cast<int64_t>(i), pixel = at / sizes.channels;
    const int64_t c = at - pixel * sizes.channels;
    const CropPlace place(sizes, corners, pixel);
    if (!place.IsInside()) return;
    if (nearest) {
      return AddTo(place.box, place.rows.Inside(round(place.row)),
                   place.cols.Inside(round(place.col)), c, crops[i]);
    }
    const CropBetween b(place);
    const float above = (1 - b.down) * crops[i], below = b.down * crops[i];
    AddTo(place.box, b.top, b.left, c, (1 - b.along) * above);
    AddTo(place.box, b.top, b.right, c, b.along * above);
    AddTo(place.box, b.bottom, b.left, c, (1 - b.along) * below);
    AddTo(place.box, b.bottom, b.right, c, b.along * below);
  }
};

// CropAndResizeGradBoxes: an item is a pixel of the crops. `boxes` is zeros.
template <typename T>
struct CropGradBoxesItem {
  const float* crops;
  const T* images;
  const float* corners;
  const int32_t* image;
  float* boxes;  // As the corners are.
  CropSizes sizes;

  FORMWORK_ELEMENT float Element(int64_t box, int64_t row, int64_t col, int64_t channel) const {
    return static_cast<float>(Widen(images[ImageElement(sizes, image[box], row, col, channel)]));
  }
  // What a place's gradients say of the two ends of its axis.
  FORMWORK_ELEMENT void AddEnds(const CropAxis& axis, int64_t place, float slope,
                                float* ends) const {
    float first, last;
    if (axis.places == 1) {
      first = last =
          static_cast<float>(0.5 * static_cast<double>(slope) * static_cast<double>(axis.size - 1));
    } else {
      const float share =
          static_cast<float>(place) * (axis.Extent() / static_cast<float>(axis.places - 1));
      first = slope * (axis.Extent() - share);
      last = slope * share;
    }
    Exchange(ends, [first](float before) { return before + first; });
    Exchange(ends + 2, [last](float before) { return before + last; });
  }
  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const CropPlace place(sizes, corners, static_cast<int64_t>(i));
    if (!place.IsInside()) return;
    const CropBetween b(place);
    float down = 0, along = 0;
    for (int64_t c = 0; c < sizes.channels; ++c) {
      const float top_left = Element(place.box, b.top, b.left, c);
      const float top_right = Element(place.box, b.top, b.right, c);
      const float bottom_left = Element(place.box, b.bottom, b.left, c);
      const float bottom_right = Element(place.box, b.bottom, b.right, c);
      const float grad =
          crops[i * static_cast<uint64_t>(sizes.channels) + static_cast<uint64_t>(c)];
      down +=
          grad * ((1 - b.along) * (bottom_left - top_left) + b.along * (bottom_right - top_right));
      along +=
          grad * ((1 - b.down) * (top_right - top_left) + b.down * (bottom_right - bottom_left));
    }
    AddEnds(place.rows, place.crop_row, down, boxes + 4 * place.box);
    AddEnds(place.cols, place.crop_col, along, boxes + 4 * place.box + 1);
  }
};

}  // namespace formwork_element
