#pragma once

// Functions of one double without a branch, as elementwise_float_math.h has them for floats: within
// 3 ulp of the true value (tests/unit/double_math_test.cc); infinities, NaN, -0 and denormals as
// the C library has them. What is not here is the C library's (elementwise_math.h).
//
// Polynomials are interpolated at Chebyshev nodes.

#include <bit>
#include <cstdint>

#include "core/kernels/isa.h"

namespace formwork::math {

FORMWORK_ISA_INLINE double Magnitude(double x) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(x) & 0x7fffffffffffffffu);
}
FORMWORK_ISA_INLINE double WithSignOf(double magnitude, double sign) {
  return std::bit_cast<double>((std::bit_cast<uint64_t>(magnitude) & 0x7fffffffffffffffu) |
                               (std::bit_cast<uint64_t>(sign) & 0x8000000000000000u));
}

// Added to a number of at most 2^51 it leaves the nearest integer in the low bits.
inline constexpr double kToInteger = 6755399441055744.0;
FORMWORK_ISA_INLINE double Nearest(double x) { return (x + kToInteger) - kToInteger; }
// 2^n for a whole n in [-1022, 1023]; anything for a NaN.
FORMWORK_ISA_INLINE double Pow2(double n) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(n + (kToInteger + 1023.0)) << 52);
}

// e^r - 1 for |r| <= ln 2 / 2.
FORMWORK_ISA_INLINE double Expm1OfRest(double r) {
  double p = 2.0914755325893202e-9;
  p = p * r + 2.5105312729622102e-8;
  p = p * r + 2.755727347871858e-7;
  p = p * r + 2.7557255170000887e-6;
  p = p * r + 2.4801587325677462e-5;
  p = p * r + 1.9841269875002279e-4;
  p = p * r + 1.3888888888883711e-3;
  p = p * r + 8.3333333333260831e-3;
  p = p * r + 4.166666666666667e-2;
  p = p * r + 1.6666666666666671e-1;
  p = p * r + 0.5;
  return p * (r * r) + r;
}
// x - n ln 2, with ln 2 in two parts (Cody and Waite).
FORMWORK_ISA_INLINE double LessLogs(double x, double n) {
  return (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
}

FORMWORK_ISA_INLINE double Exp(double x) {
  // Beyond the clamp the result is 0 or infinity anyway. Comparisons with NaN are false: it passes.
  x = x < -746.0 ? -746.0 : x;
  x = x > 710.0 ? 710.0 : x;
  const double n = Nearest(x * 1.44269504088896340736);
  const double y = Expm1OfRest(LessLogs(x, n)) + 1.0;
  // In two halves, so that neither overflows before the product does.
  const double half = Nearest(n * 0.5);
  return y * Pow2(half) * Pow2(n - half);
}

FORMWORK_ISA_INLINE double Expm1(double x) {
  double c = x < -40.0 ? -40.0 : x;
  c = c > 710.0 ? 710.0 : c;
  const double n = Nearest(c * 1.44269504088896340736);
  const double m = Expm1OfRest(LessLogs(c, n));
  // 2^n (m + 1) - 1, by halves: 2^1024 is no double.
  const double scale = Pow2(n - 1.0);
  const double y = 2.0 * (scale * m + (scale - 0.5));
  return x == 0.0 ? x : y;
}

FORMWORK_ISA_INLINE double Tanh(double x) {
  // By e^-2|x| - 1, which keeps its precision near 0. From 22 on the result is 1.
  const double magnitude = Magnitude(x);
  const double a = magnitude > 22.0 ? 22.0 : magnitude;
  const double e = Expm1(-2.0 * a);
  return WithSignOf(-e / (2.0 + e), x);
}

FORMWORK_ISA_INLINE double Sigmoid(double x) {
  const double e = Exp(-Magnitude(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

// erf for |x| < 1.
FORMWORK_ISA_INLINE double SmallErf(double x) {
  const double z = x * x;
  double p = 6.1740972213052543e-11;
  p = p * z - 1.1500357159785295e-9;
  p = p * z + 1.4692484859133263e-8;
  p = p * z - 1.6355118610877706e-7;
  p = p * z + 1.6461446656928561e-6;
  p = p * z - 1.4925622504489841e-5;
  p = p * z + 1.2055332214716276e-4;
  p = p * z - 8.548327010033328e-4;
  p = p * z + 5.2239776253035179e-3;
  p = p * z - 2.6866170645123839e-2;
  p = p * z + 1.128379167095511e-1;
  p = p * z - 3.7612638903183752e-1;
  return x + x * (0.12837916709551257390 + z * p);
}

// e^(x^2) erfc(x) for x in [1, 6].
FORMWORK_ISA_INLINE double ScaledErfc(double x) {
  const double t = (x - 3.0) / (x + 3.0);
  double p = 1.2801900862962662e-6;
  p = p * t + 2.0236031796417566e-6;
  p = p * t - 8.0080213194126843e-6;
  p = p * t - 1.2848894512523529e-5;
  p = p * t + 6.4061820735305467e-5;
  p = p * t + 4.5254726354833541e-5;
  p = p * t - 5.9706235170932843e-4;
  p = p * t + 7.0774644439015373e-4;
  p = p * t + 4.2691363475082564e-3;
  p = p * t - 2.4392499318273193e-2;
  p = p * t + 7.1665837197748743e-2;
  p = p * t - 1.5011593650078744e-1;
  p = p * t + 2.4560380171233194e-1;
  p = p * t - 3.2623356004303717e-1;
  return p * t + 1.7900115118138995e-1;
}

FORMWORK_ISA_INLINE double Erf(double x) {
  // From 6 on the result is 1.
  const double magnitude = Magnitude(x);
  const double a = magnitude > 6.0 ? 6.0 : magnitude;
  const double large = 1.0 - Exp(-a * a) * ScaledErfc(a);
  return magnitude < 1.0 ? SmallErf(x) : WithSignOf(large, x);
}

}  // namespace formwork::math
