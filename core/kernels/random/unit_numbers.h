#pragma once

// Floating numbers of a generator's bits, as TensorFlow makes them.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "core/tensor/small_float.h"

namespace formwork {

/// In [0, 1).
inline float UnitFloat(uint32_t x) {
  return std::bit_cast<float>((127u << 23) | (x & 0x7fffffu)) - 1.0f;
}

/// In [0, 1).
inline half UnitHalf(uint32_t x) {
  half one_to_two;
  one_to_two.bits = static_cast<uint16_t>((15u << 10) | (x & 0x3ffu));
  return half(static_cast<float>(one_to_two) - 1.0f);
}

/// In [0, 1).
inline double UnitDouble(uint32_t x0, uint32_t x1) {
  const uint64_t mantissa = (static_cast<uint64_t>(x0 & 0xfffffu) << 32) | x1;
  return std::bit_cast<double>((uint64_t{1023} << 52) | mantissa) - 1.0;
}

/// Two normal numbers from two uniform ones (Box and Muller), rounded where TensorFlow rounds.
inline void NormalPair(uint32_t x0, uint32_t x1, float* f) {
  const float u1 = std::max(UnitFloat(x0), 1.0e-7f);
  const float v1 = static_cast<float>(2.0f * M_PI * UnitFloat(x1));
  const float u2 = std::sqrt(-2.0f * std::log(u1));
  f[0] = std::sin(v1) * u2;
  f[1] = std::cos(v1) * u2;
}

inline void NormalPair(uint32_t x0, uint32_t x1, uint32_t x2, uint32_t x3, double* f) {
  const double u1 = std::max(UnitDouble(x0, x1), 1.0e-7);
  const double v1 = 2 * M_PI * UnitDouble(x2, x3);
  const double u2 = std::sqrt(-2.0 * std::log(u1));
  f[0] = std::sin(v1) * u2;
  f[1] = std::cos(v1) * u2;
}

}  // namespace formwork
