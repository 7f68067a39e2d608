#pragma once

// half (IEEE binary16) and bfloat16 as storage types: arithmetic goes through float.

#include <bit>
#include <cstdint>

namespace formwork {

/// IEEE binary16. Conversions round to nearest even, keep NaN and infinities.
struct half {
  uint16_t bits = 0;

  half() = default;
  explicit half(float value);
  explicit operator float() const;
};

/// The upper half of a float. Conversion rounds to nearest even; NaN stays NaN.
struct bfloat16 {
  uint16_t bits = 0;

  bfloat16() = default;
  explicit bfloat16(float value) {
    uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<uint16_t>((u >> 16) | 0x40u);  // Quiet, sign kept.
    } else {
      bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

inline half::half(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (u >> 16) & 0x8000u;
  const uint32_t magnitude = u & 0x7fffffffu;
  uint32_t out;
  if (magnitude > 0x7f800000u) {
    out = 0x7e00u;  // NaN
  } else if (magnitude >= 0x477ff000u) {
    out = 0x7c00u;  // 65520 and more round to infinity.
  } else if (magnitude < 0x38800000u) {
    // Subnormal: adding 0.5 lets the float unit do the rounding.
    out = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    out = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  bits = static_cast<uint16_t>(sign | out);
}

inline half::operator float() const {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fffu) << 13;
  const uint32_t exponent = magnitude & 0x0f800000u;
  uint32_t u;
  if (exponent == 0x0f800000u) {
    u = magnitude + 0x70000000u;  // Infinity and NaN.
  } else if (exponent == 0) {
    u = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude + 0x38800000u) -
                                std::bit_cast<float>(0x38800000u));
  } else {
    u = magnitude + 0x38000000u;
  }
  return std::bit_cast<float>(sign | u);
}

}  // namespace formwork
