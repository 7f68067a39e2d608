#pragma once

// Scalar functions that vectorise: branch-free, always inlined, so that each level of vector
// instructions gets its own copy. Float versions are ours, within 3 ulp; double ones are libm's.

#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/kernels/isa.h"

namespace formwork::math {

template <typename U>
constexpr bool kIsComplex = false;
template <typename U>
constexpr bool kIsComplex<std::complex<U>> = true;

// 2^n for n in [-126, 127].
FORMWORK_ISA_INLINE float Pow2(int32_t n) { return std::bit_cast<float>((n + 127) << 23); }

FORMWORK_ISA_INLINE float Exp(float x) {
  // e^x = 2^n e^r, r = x - n ln 2 in two parts (Cody and Waite); beyond the clamp the result is 0
  // or infinity anyway. Comparisons with NaN are false: it passes through.
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const float shifted = x * 1.44269504088896341f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  float r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  // In two halves, so that neither overflows before the product does.
  const int32_t i = static_cast<int32_t>(x == x ? n : 0.0f);
  const int32_t half = i >> 1;
  return p * Pow2(half) * Pow2(i - half);
}
FORMWORK_ISA_INLINE double Exp(double x) { return std::exp(x); }

FORMWORK_ISA_INLINE float Log(float x) {
  const bool denormal = x < 1.17549435e-38f;
  float m = denormal ? x * 8388608.0f : x;
  uint32_t bits = std::bit_cast<uint32_t>(m);
  float e = static_cast<float>(static_cast<int32_t>(bits >> 23) - 126) - (denormal ? 23.0f : 0.0f);
  m = std::bit_cast<float>((bits & 0x007fffffu) | 0x3f000000u);  // [0.5, 1)
  const bool low = m < 0.707106781186547524f;
  e = low ? e - 1.0f : e;
  m = (low ? m + m : m) - 1.0f;
  const float z = m * m;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  float y = p * m * z + e * -2.12194440e-4f - 0.5f * z;
  float result = m + y + e * 0.693359375f;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  result = x == kInf ? kInf : result;
  result = x == 0.0f ? -kInf : result;
  return x < 0.0f || x != x ? std::numeric_limits<float>::quiet_NaN() : result;
}
FORMWORK_ISA_INLINE double Log(double x) { return std::log(x); }

FORMWORK_ISA_INLINE float Tanh(float x) {
  // A rational approximation; past the clamp tanh is 1 in float. Tiny values are their own.
  const float t = x < -7.90531110763549805f  ? -7.90531110763549805f
                  : x > 7.90531110763549805f ? 7.90531110763549805f
                                             : x;
  const float z = t * t;
  float p = -2.76076847742355e-16f;
  p = p * z + 2.00018790482477e-13f;
  p = p * z - 8.60467152213735e-11f;
  p = p * z + 5.12229709037114e-08f;
  p = p * z + 1.48572235717979e-05f;
  p = p * z + 6.37261928875436e-04f;
  p = p * z + 4.89352455891786e-03f;
  p = p * t;
  float q = 1.19825839466702e-06f;
  q = q * z + 1.18534705686654e-04f;
  q = q * z + 2.26843463243900e-03f;
  q = q * z + 4.89352518554385e-03f;
  const float magnitude = x < 0 ? -x : x;
  return magnitude < 0.0004f ? x : p / q;
}
FORMWORK_ISA_INLINE double Tanh(double x) { return std::tanh(x); }

FORMWORK_ISA_INLINE float Sigmoid(float x) { return 1.0f / (1.0f + Exp(-x)); }
FORMWORK_ISA_INLINE double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

template <typename U>
FORMWORK_ISA_INLINE U Softplus(U x) {
  // As TensorFlow: past the thresholds the exponential, or x itself, is exact.
  const U threshold = std::log(std::numeric_limits<U>::epsilon()) + U(2);
  if (x > -threshold) return x;
  const U e = Exp(x);
  return x < threshold ? e : std::log1p(e);
}

template <typename U>
FORMWORK_ISA_INLINE U Max(U a, U b) {
  return a >= b || a != a ? a : b;  // NaN wins on either side.
}
template <typename U>
FORMWORK_ISA_INLINE U Min(U a, U b) {
  return a <= b || a != a ? a : b;
}

template <typename U>
FORMWORK_ISA_INLINE U FloorDiv(U a, U b) {
  if constexpr (std::is_integral_v<U>) {
    if (b == 0) return 0;  // The kernel has refused it.
    if constexpr (std::is_signed_v<U>) {
      if (b == U(-1)) return static_cast<U>(-static_cast<std::make_unsigned_t<U>>(a));
      const U q = static_cast<U>(a / b);
      return static_cast<U>(q - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0));
    }
    return static_cast<U>(a / b);
  } else {
    return std::floor(a / b);
  }
}

template <typename U>
FORMWORK_ISA_INLINE U FloorMod(U a, U b) {
  if constexpr (std::is_integral_v<U>) {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<U>) {
      if (b == U(-1)) return 0;
      const U r = static_cast<U>(a % b);
      return r != 0 && (r < 0) != (b < 0) ? static_cast<U>(r + b) : r;
    }
    return static_cast<U>(a % b);
  } else {
    const U r = std::fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  }
}

// Division that rounds towards zero for integers.
template <typename U>
FORMWORK_ISA_INLINE U Div(U a, U b) {
  if constexpr (std::is_integral_v<U>) {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<U>) {
      if (b == U(-1)) return static_cast<U>(-static_cast<std::make_unsigned_t<U>>(a));
    }
    return static_cast<U>(a / b);
  } else {
    return a / b;
  }
}

template <typename U>
FORMWORK_ISA_INLINE U Pow(U a, U b) {
  if constexpr (std::is_integral_v<U>) {
    std::make_unsigned_t<U> base = static_cast<std::make_unsigned_t<U>>(a), result = 1;
    if (b < 0) return 0;  // The kernel has refused it.
    for (auto e = static_cast<std::make_unsigned_t<U>>(b); e != 0; e >>= 1) {
      if (e & 1) result = static_cast<decltype(result)>(static_cast<uint64_t>(result) * base);
      base = static_cast<decltype(base)>(static_cast<uint64_t>(base) * base);
    }
    return static_cast<U>(result);
  } else {
    return std::pow(a, b);
  }
}

// Arithmetic that wraps as TensorFlow's does, without undefined behaviour.
template <typename U>
FORMWORK_ISA_INLINE U Add(U a, U b) {
  if constexpr (std::is_integral_v<U>) {
    using V = std::make_unsigned_t<U>;
    return static_cast<U>(static_cast<V>(static_cast<V>(a) + static_cast<V>(b)));
  } else {
    return a + b;
  }
}
template <typename U>
FORMWORK_ISA_INLINE U Sub(U a, U b) {
  if constexpr (std::is_integral_v<U>) {
    using V = std::make_unsigned_t<U>;
    return static_cast<U>(static_cast<V>(static_cast<V>(a) - static_cast<V>(b)));
  } else {
    return a - b;
  }
}
template <typename U>
FORMWORK_ISA_INLINE U Mul(U a, U b) {
  if constexpr (std::is_integral_v<U>) {
    // Through 64 bits: two uint16 would be promoted to int and may overflow it.
    return static_cast<U>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}
template <typename U>
FORMWORK_ISA_INLINE U Abs(U a) {
  if constexpr (std::is_unsigned_v<U>) {
    return a;
  } else if constexpr (std::is_integral_v<U>) {
    return a < 0 ? Sub(U(0), a) : a;
  } else {
    return std::abs(a);
  }
}
template <typename U>
FORMWORK_ISA_INLINE U Sign(U a) {
  if constexpr (kIsComplex<U>) {
    return a == U(0) ? U(0) : a / std::abs(a);
  } else if constexpr (std::is_floating_point_v<U>) {
    return a != a ? a : U((a > 0) - (a < 0));
  } else {
    return static_cast<U>((a > U(0)) - (a < U(0)));
  }
}
template <typename U>
FORMWORK_ISA_INLINE U Conj(U a) {
  if constexpr (kIsComplex<U>) {
    return std::conj(a);
  } else {
    return a;
  }
}

}  // namespace formwork::math
