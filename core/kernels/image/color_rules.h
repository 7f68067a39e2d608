// How TensorFlow changes colours, a pixel at a time. A header of its own because it is also
// compiled for GPUs, as text (gpu/color_functions.h).
#ifdef __CUDACC_RTC__
#define FORMWORK_COLOR_INLINE __device__ __forceinline__
#else
#pragma once
#include <cmath>

#define FORMWORK_COLOR_INLINE inline
#endif

namespace formwork::color {

#ifndef __CUDACC_RTC__
using std::abs, std::fmod;
#endif

// Where one is NaN, the first: as std::max and std::min have it.
template <typename T>
FORMWORK_COLOR_INLINE T Larger(T a, T b) {
  return a < b ? b : a;
}
template <typename T>
FORMWORK_COLOR_INLINE T Smaller(T a, T b) {
  return b < a ? b : a;
}

template <typename T>
struct Color {
  T a, b, c;  // Red, green and blue; or hue, saturation and value.
};

template <typename T>
FORMWORK_COLOR_INLINE T UnitPart(T x) {
  return Smaller(Larger(x, T(0)), T(1));
}

template <typename T>
FORMWORK_COLOR_INLINE Color<T> ColorToHsv(const Color<T>& rgb) {
  const T value = Larger(Larger(rgb.a, rgb.b), rgb.c);
  const T range = value - Smaller(Smaller(rgb.a, rgb.b), rgb.c);
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
FORMWORK_COLOR_INLINE Color<T> ColorToRgb(const Color<T>& hsv) {
  const T sixths = hsv.a * T(6), rest = T(1) - hsv.b;
  return {(rest + hsv.b * UnitPart(abs(sixths - T(3)) - T(1))) * hsv.c,
          (rest + hsv.b * UnitPart(T(2) - abs(sixths - T(2)))) * hsv.c,
          (rest + hsv.b * UnitPart(T(2) - abs(sixths - T(4)))) * hsv.c};
}

// The colour in that sixth of the circle of hues whose largest, middle and smallest part these are.
FORMWORK_COLOR_INLINE Color<float> ColorInSixth(int sixth, float most, float middle, float least) {
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
  static FORMWORK_COLOR_INLINE Color<T> Of(const Color<T>& rgb, float) {
    return ColorToHsv(rgb);
  }
};
struct ToRgb {
  template <typename T>
  static FORMWORK_COLOR_INLINE Color<T> Of(const Color<T>& hsv, float) {
    return ColorToRgb(hsv);
  }
};
struct TurnHue {
  static FORMWORK_COLOR_INLINE Color<float> Of(const Color<float>& rgb, float by) {
    const float r = rgb.a, g = rgb.b, b = rgb.c;
    const float most = Larger(Larger(r, g), b), least = Smaller(Smaller(r, g), b);
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
  static FORMWORK_COLOR_INLINE Color<float> Of(const Color<float>& rgb, float by) {
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

}  // namespace formwork::color
