// What kernels do for one pixel of images whose colours change, by TensorFlow's formulas
// (core/kernels/image): compiled for GPUs at run time, from this text behind those of
// item_functions.h and element_access.h, and by the host's compiler for the op cases.
#ifndef __CUDACC_RTC__
#pragma once
#include "gpu/element_access.h"
#include "gpu/item_functions.h"
#endif

namespace formwork_element {

template <typename T>
struct Color {
  T a, b, c;  // Red, green and blue; or hue, saturation and value.
};

template <typename T>
FORMWORK_ELEMENT T UnitPart(T x) {
  return Lower(Higher(x, T(0)), T(1));
}

template <typename T>
FORMWORK_ELEMENT Color<T> ColorToHsv(const Color<T>& rgb) {
  const T value = Higher(Higher(rgb.a, rgb.b), rgb.c);
  const T range = value - Lower(Lower(rgb.a, rgb.b), rgb.c);
  const T saturation = value > 0 ? range / value : T(0);
  const T norm = T(1) / range * (T(1) / T(6));
  T hue = 0;
  if (range > 0) {
    hue = rgb.a == value   ? norm * (rgb.b - rgb.c)
          : rgb.b == value ? norm * (rgb.c - rgb.a) + T(2) / T(6)
                           : norm * (rgb.a - rgb.b) + T(4) / T(6);
    if (hue < 0) hue += T(1);
  }
  return {hue, saturation, value};
}

template <typename T>
FORMWORK_ELEMENT Color<T> ColorToRgb(const Color<T>& hsv) {
  const T sixths = hsv.a * T(6), rest = T(1) - hsv.b;
  return {(rest + hsv.b * UnitPart(abs(sixths - T(3)) - T(1))) * hsv.c,
          (rest + hsv.b * UnitPart(T(2) - abs(sixths - T(2)))) * hsv.c,
          (rest + hsv.b * UnitPart(T(2) - abs(sixths - T(4)))) * hsv.c};
}

// The colour in that sixth of the circle of hues whose largest, middle and smallest part these are.
FORMWORK_ELEMENT Color<float> ColorInSixth(int sixth, float most, float middle, float least) {
  switch (sixth) {
    case 0:
      return {most, middle, least};
    case 1:
      return {middle, most, least};
    case 2:
      return {least, most, middle};
    case 3:
      return {least, middle, most};
    case 4:
      return {middle, least, most};
    default:
      return {most, least, middle};
  }
}

// RGBToHSV, HSVToRGB, AdjustHue and AdjustSaturation.
struct ToHsv {
  template <typename T>
  static FORMWORK_ELEMENT Color<T> Of(const Color<T>& rgb, float) {
    return ColorToHsv(rgb);
  }
};
struct ToRgb {
  template <typename T>
  static FORMWORK_ELEMENT Color<T> Of(const Color<T>& hsv, float) {
    return ColorToRgb(hsv);
  }
};
struct TurnHue {
  static FORMWORK_ELEMENT Color<float> Of(const Color<float>& rgb, float by) {
    const float r = rgb.a, g = rgb.b, b = rgb.c;
    const float most = Higher(Higher(r, g), b), least = Lower(Lower(r, g), b);
    float hue = 0;
    if (most != least) {
      int sixth;
      float middle;
      if (r < g) {
        sixth = b < r ? 1 : b > g ? 3 : 2;
        middle = b < r ? r : b > g ? g : b;
      } else {
        sixth = b < g ? 0 : b > r ? 4 : 5;
        middle = b < g ? g : b > r ? r : b;
      }
      const float part = (middle - least) / (most - least);
      hue = static_cast<float>(sixth) + (sixth % 2 == 0 ? part : 1 - part);
    }
    hue += by * 6;
    // One turn after the other, as long as that is quick.
    if (abs(hue) > 600) hue = fmod(hue, 6.0f);
    while (hue < 0) hue += 6;
    while (hue >= 6) hue -= 6;
    const int sixth = hue >= 0 ? static_cast<int>(hue) : 5;  // Of NaN the last.
    float part = hue - static_cast<float>(sixth);
    if (sixth % 2 != 0) part = 1 - part;
    return ColorInSixth(sixth, most, least + part * (most - least), least);
  }
};
struct Saturate {
  static FORMWORK_ELEMENT Color<float> Of(const Color<float>& rgb, float by) {
    Color<float> hsv = ColorToHsv(rgb);
    hsv.b = UnitPart(hsv.b * by);
    const float chroma = hsv.b * hsv.c, least = hsv.c - chroma, sixths = hsv.a * 6;
    if (!(sixths >= 0 && sixths < 6)) return {least, least, least};
    const int sixth = static_cast<int>(sixths);
    const float within = sixths - static_cast<float>(sixth / 2 * 2);
    const float middle = chroma * (1 - abs(within - 1)) + least;
    return ColorInSixth(sixth, chroma + least, middle, least);
  }
};

// An item is a pixel of three channels.
template <typename T, typename Change>
struct ColorItem {
  const T* from;
  const float* by;  // Null: nothing.
  T* to;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    typedef decltype(Widen(T())) Wide;
    const Color<Wide> was{Widen(from[3 * i]), Widen(from[3 * i + 1]), Widen(from[3 * i + 2])};
    const Color<Wide> is = Change::Of(was, by == nullptr ? 0.0f : *by);
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
