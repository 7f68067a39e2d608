#pragma once

// Quantized values of a range, between the two real numbers that the lowest and the highest integer
// stand for, as TensorFlow's kernels of the CPU compute with them.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace formwork {

/// The real numbers that the lowest and the highest integer stand for.
struct QuantizedRange {
  float min = 0;
  float max = 0;
};

/// As the processor converts: what does not fit becomes the lowest.
inline int64_t ToInt64(double x) {
  constexpr double kEnd = 9223372036854775808.0;
  return x >= -kEnd && x < kEnd ? static_cast<int64_t>(x) : std::numeric_limits<int64_t>::min();
}
inline int32_t ToInt32(float x) {
  constexpr float kEnd = 2147483648.0f;
  return x >= -kEnd && x < kEnd ? static_cast<int32_t>(x) : std::numeric_limits<int32_t>::min();
}

/// How many there are of an integer type.
template <typename T>
constexpr double kIntegers = static_cast<double>(std::numeric_limits<T>::max()) -
                             static_cast<double>(std::numeric_limits<T>::min()) + 1;

/// What the integer stands for.
template <typename T>
float FromQuantized(T x, QuantizedRange range) {
  const double adjust = kIntegers<T> / (kIntegers<T> - 1.0);
  const double step = static_cast<double>(range.max - range.min) * adjust / kIntegers<T>;
  const auto short_step = static_cast<float>(step);
  const double min = std::round(range.min / short_step) * short_step;
  return static_cast<float>(
      min + (static_cast<double>(x) - static_cast<double>(std::numeric_limits<T>::min())) * step);
}

/// The integer that stands for `x`, which need not be one of T.
template <typename T>
int64_t ToQuantizedUnclamped(float x, QuantizedRange range) {
  constexpr int64_t kLowest = std::numeric_limits<T>::min();
  if (range.min == range.max) return kLowest;
  const double adjust = kIntegers<T> / (kIntegers<T> - 1.0);
  const double scale = kIntegers<T> / (static_cast<double>(range.max - range.min) * adjust);
  const int64_t steps = ToInt64(std::round(x * scale) - std::round(range.min * scale));
  return static_cast<int64_t>(static_cast<uint64_t>(steps) + static_cast<uint64_t>(kLowest));
}

template <typename T>
T ToQuantized(float x, QuantizedRange range) {
  constexpr int64_t kLowest = std::numeric_limits<T>::min();
  constexpr int64_t kHighest = std::numeric_limits<T>::max();
  return static_cast<T>(std::clamp(ToQuantizedUnclamped<T>(x, range), kLowest, kHighest));
}

/// Many at a time: as above, but for rounding.
template <typename T>
struct Dequantizer {
  explicit Dequantizer(QuantizedRange range)
      : step(static_cast<float>((range.max - range.min) / (kIntegers<T> - 1.0))),
        min(range.max == range.min ? range.min : std::round(range.min / step) * step) {}
  float operator()(T x) const {
    constexpr auto kLowest = static_cast<float>(std::numeric_limits<T>::min());
    return (static_cast<float>(x) - kLowest) * step + min;
  }
  const float step, min;
};

template <typename T>
struct Quantizer {
  explicit Quantizer(QuantizedRange range)
      : scale(range.max == range.min
                  ? 0.0f
                  : static_cast<float>((kIntegers<T> - 1.0) / (range.max - range.min))),
        min(range.max == range.min ? range.min : std::round(range.min * scale)) {}
  T operator()(float x) const {
    constexpr auto kLowest = static_cast<float>(std::numeric_limits<T>::min());
    // The highest float that int32 has.
    constexpr float kHighest =
        sizeof(T) == 4 ? 2147483520.0f : static_cast<float>(std::numeric_limits<T>::max());
    const float steps = std::round(x * scale) - (min - kLowest);
    return static_cast<T>(ToInt32(std::min(std::max(steps, kLowest), kHighest)));
  }
  const float scale, min;
};

/// Where products of both stand, int32.
template <typename A, typename B>
QuantizedRange RangeOfProducts(QuantizedRange a, QuantizedRange b) {
  const float step_a = static_cast<float>((a.max - a.min) / static_cast<float>(kIntegers<A> - 1));
  const float step_b = static_cast<float>((b.max - b.min) / static_cast<float>(kIntegers<B> - 1));
  const float step = step_a * step_b;
  return {step * static_cast<float>(std::numeric_limits<int32_t>::min()),
          step * static_cast<float>(std::numeric_limits<int32_t>::max())};
}

/// Where sums of both stand, int32: around 0, with room for as many of the largest.
inline QuantizedRange RangeOfSums(QuantizedRange a, QuantizedRange b, int room) {
  const float most =
      std::max(a.max, std::max(-a.min, std::max(b.max, -b.min))) * static_cast<float>(room);
  return {-most, most};
}

}  // namespace formwork
