#pragma once

// What the table's expressions are made of: always inlined, so that each level of vector
// instructions gets its own copy, and without branches where the function allows it.

#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/kernels/arithmetic.h"
#include "core/kernels/elementwise/elementwise_double_math.h"
#include "core/kernels/elementwise/elementwise_float_math.h"

namespace formwork::math {

template <typename U>
constexpr bool kIsComplex = false;
template <typename U>
constexpr bool kIsComplex<std::complex<U>> = true;

// These of doubles are left to the C library.
FORMWORK_ISA_INLINE double Asin(double x) { return std::asin(x); }
FORMWORK_ISA_INLINE double Pow(double x, double y) { return std::pow(x, y); }

FORMWORK_ISA_INLINE float Softplus(float x) {
  // max(x, 0) + log(1 + e^-|x|): nothing overflows, and the sum is exact where one part is nothing.
  const float e = Exp(-Magnitude(x));
  return (x < 0.0f ? 0.0f : x) + Log1pOfFraction(e);
}

// NaN wins on either side; of equal operands (0 and -0) the first.
template <typename U>
FORMWORK_ISA_INLINE U Max(U a, U b) {
  const U larger = a < b ? b : a;
  return b != b ? b : larger;
}
template <typename U>
FORMWORK_ISA_INLINE U Min(U a, U b) {
  const U smaller = b < a ? b : a;
  return b != b ? b : smaller;
}

template <typename U>
FORMWORK_ISA_INLINE U FloorDiv(U a, U b) {
  if constexpr (std::is_integral_v<U>) {
    if (b == 0) return 0;  // The kernel has refused it.
    if constexpr (std::is_signed_v<U>) {
      if (b == U(-1)) return Sub(U(0), a);
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
      if (b == U(-1)) return Sub(U(0), a);
    }
    return static_cast<U>(a / b);
  } else {
    return a / b;
  }
}

template <typename U>
FORMWORK_ISA_INLINE U Pow(U a, U b) {
  if constexpr (std::is_integral_v<U>) {
    U base = a, result = 1;
    if (b < 0) return 0;  // The kernel has refused it.
    for (auto e = static_cast<std::make_unsigned_t<U>>(b); e != 0; e >>= 1) {
      if (e & 1) result = Mul(result, base);
      base = Mul(base, base);
    }
    return result;
  } else {
    return std::pow(a, b);
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

// Shifts by no or too many places are undefined in C++: as TensorFlow, the nearest that is not.
template <typename U>
FORMWORK_ISA_INLINE U ShiftBy(U places) {
  constexpr U kMost = static_cast<U>(sizeof(U) * 8 - 1);
  const U positive = places < U(0) ? U(0) : places;
  return positive > kMost ? kMost : positive;
}
template <typename U>
FORMWORK_ISA_INLINE U LeftShift(U a, U places) {
  return static_cast<U>(static_cast<std::make_unsigned_t<U>>(a) << ShiftBy(places));
}
template <typename U>
FORMWORK_ISA_INLINE U RightShift(U a, U places) {
  return static_cast<U>(a >> ShiftBy(places));
}

// The remainder that has the dividend's sign.
template <typename U>
FORMWORK_ISA_INLINE U TruncateMod(U a, U b) {
  if constexpr (std::is_integral_v<U>) {
    if (b == 0 || (std::is_signed_v<U> && b == static_cast<U>(-1))) return 0;
    return static_cast<U>(a % b);
  } else {
    return std::fmod(a, b);
  }
}

// The derivative of log gamma: NaN at the poles, infinity beyond the largest values.
inline double Digamma(double x) {
  if (x == std::floor(x) && x <= 0) return std::numeric_limits<double>::quiet_NaN();
  if (std::isinf(x)) return x > 0 ? x : std::numeric_limits<double>::quiet_NaN();
  constexpr double kPi = 3.14159265358979323846;
  double result = 0;
  if (x < 0) {
    // Reflection; only the fraction of x counts for the tangent.
    result = -kPi / std::tan(kPi * (x - std::floor(x)));
    x = 1 - x;
  }
  for (; x < 10; x += 1) result -= 1 / x;
  const double z = 1 / (x * x);
  const double series =
      z * (1.0 / 12 - z * (1.0 / 120 -
                           z * (1.0 / 252 -
                                z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return result + std::log(x) - 0.5 / x - series;
}

// Log of |gamma|, without the C library's global sign.
inline double Lgamma(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}

}  // namespace formwork::math
