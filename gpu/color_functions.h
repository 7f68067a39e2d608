// What kernels do for one pixel of images whose colours change: compiled for GPUs at run time, from
// this text behind those of item_functions.h, element_access.h and
// core/kernels/image/color_rules.h, and by the host's compiler for the op cases.
#ifndef __CUDACC_RTC__
#pragma once
#include "core/kernels/image/color_rules.h"
#include "gpu/element_access.h"
#include "gpu/item_functions.h"
#endif

namespace formwork_element {

// An item is a pixel of three channels. Change: of the rules.
template <typename T, typename Change>
struct ColorItem {
  const T* from;
  const float* by;  // Null: nothing.
  T* to;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    typedef decltype(Widen(T())) Wide;
    const formwork::color::Color<Wide> was{Widen(from[3 * i]), Widen(from[3 * i + 1]),
                                           Widen(from[3 * i + 2])};
    const formwork::color::Color<Wide> is = Change::Of(was, by == nullptr ? 0.0f : *by);
    to[3 * i] = Narrow<T>::Of(is.a);
    to[3 * i + 1] = Narrow<T>::Of(is.b);
    to[3 * i + 2] = Narrow<T>::Of(is.c);
  }
};

// AdjustContrastv2. Images are [images, pixels, channels]; each channel falls into `parts` of
// `part` pixels but the last, whose sums are [images, parts, channels]: an item is one of them.
struct ContrastSumItem {
  const float* from;
  double* sums;
  uint64_t pixels, channels, parts, part;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const uint64_t row = i / channels, channel = i - row * channels, image = row / parts;
    const uint64_t begin = (row - image * parts) * part;
    const uint64_t end = pixels - begin < part ? pixels : begin + part;
    double sum = 0;
    for (uint64_t k = begin; k < end; ++k) {
      sum += static_cast<double>(from[(image * pixels + k) * channels + channel]);
    }
    sums[i] = sum;
  }
};
// An item is a channel of an image.
struct ContrastMeanItem {
  const double* sums;
  float* means;
  uint64_t pixels, channels, parts;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const uint64_t image = i / channels, channel = i - image * channels;
    double sum = 0;
    for (uint64_t k = 0; k < parts; ++k) sum += sums[(image * parts + k) * channels + channel];
    means[i] = static_cast<float>(sum / static_cast<double>(pixels));
  }
};
// An item is an element.
struct ContrastItem {
  const float* from;
  const float* means;
  const float* factor;
  float* to;
  uint64_t pixels, channels;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const uint64_t pixel = i / channels;
    const float mean = means[pixel / pixels * channels + (i - pixel * channels)];
    to[i] = (from[i] - mean) * *factor + mean;
  }
};

}  // namespace formwork_element
