#pragma once

// Functions of one float without a branch, so that loops over them vectorise at every level of
// vector instructions. Within 3 ulp of the true value, Erfc within 5, Erf within 6 as TensorFlow's,
// Tanh within 6 and TensorFlow's to the bit (tests/unit/float_math_test.cc sweeps them);
// infinities, NaN, -0 and denormals as the C library has them.
//
// Polynomials were fitted to the functions by weighted least squares over Chebyshev nodes; those of
// Exp, Sin and Cos are the Cephes library's.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/kernels/isa.h"

namespace formwork::math {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

FORMWORK_ISA_INLINE float WithSignOf(float magnitude, float sign) {
  return std::bit_cast<float>((std::bit_cast<uint32_t>(magnitude) & 0x7fffffffu) |
                              (std::bit_cast<uint32_t>(sign) & 0x80000000u));
}
FORMWORK_ISA_INLINE float Magnitude(float x) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0x7fffffffu);
}

// Added to a number of at most 2^22 it leaves the nearest integer in the low bits.
inline constexpr float kToIntegerFloat = 12582912.0f;
// 2^n, where the low bits of `bits` are n in [-126, 127]; anything for a NaN.
FORMWORK_ISA_INLINE float Pow2OfBits(uint32_t bits) {
  return std::bit_cast<float>((bits + 127u) << 23);
}

// a x^3 + b x^2 + c x + d, given x^2. Polynomials are put together of such parts because they do
// not wait for each other: it is waiting that Horner's scheme costs.
FORMWORK_ISA_INLINE float Cubic(float a, float b, float c, float d, float x, float xx) {
  return (a * x + b) * xx + (c * x + d);
}

// (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2.
FORMWORK_ISA_INLINE float ExpTail(float r) {
  const float rr = r * r;
  const float p =
      Cubic(1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, r, rr);
  return p * rr + (1.6666665459e-1f * r + 5.0000001201e-1f);
}
// x - n ln 2, with ln 2 in two parts (Cody and Waite).
FORMWORK_ISA_INLINE float LessLogs(float x, float n) {
  return (x - n * 0.693359375f) - n * -2.12194440e-4f;
}

FORMWORK_ISA_INLINE float Exp(float x) {
  // e^x = 2^n e^r; beyond the clamp the result is 0 or infinity anyway. Comparisons with NaN are
  // false: it passes through.
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const float moved = x * 1.44269504088896341f + kToIntegerFloat;
  const float r = LessLogs(x, moved - kToIntegerFloat);
  const float p = ExpTail(r) * (r * r) + r + 1.0f;
  // In two halves, so that neither overflows before the product does.
  const uint32_t n = std::bit_cast<uint32_t>(moved);
  const uint32_t half = n >> 1;
  return p * Pow2OfBits(half) * Pow2OfBits(n - half);
}
// e^-x for x >= 0, or NaN.
FORMWORK_ISA_INLINE float ExpOfNegated(float x) {
  const float a = -(x > 104.0f ? 104.0f : x);
  const float moved = a * 1.44269504088896341f + kToIntegerFloat;
  const float r = LessLogs(a, moved - kToIntegerFloat);
  const float p = ExpTail(r) * (r * r) + r + 1.0f;
  // 2^n for n in [-150, 0].
  return p * Pow2OfBits(std::bit_cast<uint32_t>(moved) + 64u) * 0x1p-64f;
}

FORMWORK_ISA_INLINE float Expm1(float x) {
  float c = x < -18.0f ? -18.0f : x;
  c = c > 89.0f ? 89.0f : c;
  const float moved = c * 1.44269504088896341f + kToIntegerFloat;
  const float r = LessLogs(c, moved - kToIntegerFloat);
  const float m = ExpTail(r) * (r * r) + r;
  // 2^n (m + 1) - 1, by halves: 2^128 is no float.
  const float scale = Pow2OfBits(std::bit_cast<uint32_t>(moved) - 1u);
  const float y = 2.0f * (scale * m + (scale - 0.5f));
  return x == 0.0f ? x : y;
}

// A positive number as 2^e (1 + f), f in [sqrt 1/2 - 1, sqrt 2 - 1].
struct FloatLogParts {
  float e;
  float f;
};
FORMWORK_ISA_INLINE FloatLogParts SplitForLog(float x) {
  constexpr uint32_t kHalfRoot = 0x3f3504f3u;
  const bool denormal = x < 1.17549435e-38f;
  const uint32_t bits = std::bit_cast<uint32_t>(denormal ? x * 8388608.0f : x);
  const uint32_t shifted = bits + (0x3f800000u - kHalfRoot);
  const int32_t e = static_cast<int32_t>(shifted >> 23) - (denormal ? 150 : 127);
  const float m = std::bit_cast<float>((shifted & 0x007fffffu) + kHalfRoot);
  return {static_cast<float>(e), m - 1.0f};
}
// e ln 2 + log(1 + f) + rest.
FORMWORK_ISA_INLINE float LogOfParts(float e, float f, float rest) {
  // log(1 + f) = 2 atanh(s) = f - (f^2/2 - s (f^2/2 + s^2 p)).
  const float s = f / (2.0f + f);
  const float z = s * s;
  float p = 0.2958098593f;
  p = p * z + 0.3998875772f;
  p = p * z + 0.6666668510f;
  const float half_square = 0.5f * f * f;
  const float low = s * (half_square + z * p) + (e * -2.12194440e-4f + rest);
  return e * 0.693359375f - ((half_square - low) - f);
}

FORMWORK_ISA_INLINE float Log(float x) {
  const FloatLogParts parts = SplitForLog(x);
  float y = LogOfParts(parts.e, parts.f, 0.0f);
  y = x == kInf ? kInf : y;
  y = x == 0.0f ? -kInf : y;
  return x >= 0.0f ? y : kNan;
}

// log(1 + x) for x in [0, 1], or NaN.
FORMWORK_ISA_INLINE float Log1pOfFraction(float x) {
  const float u = 1.0f + x;
  const FloatLogParts parts = SplitForLog(u);
  // Near 1 nothing of x is lost; else what the rounding of 1 + x left out comes in at the end.
  const bool near = parts.e == 0.0f;
  return LogOfParts(parts.e, near ? x : parts.f, near ? 0.0f : (x - (u - 1.0f)) / u);
}

FORMWORK_ISA_INLINE float Log1p(float x) {
  const float u = 1.0f + x;
  float y = Log1pOfFraction(x);
  y = x == kInf ? kInf : y;
  y = u == 0.0f ? -kInf : y;
  y = u >= 0.0f ? y : kNan;
  return u == 1.0f ? x : y;
}

// TensorFlow's bits: Eigen's rational approximation (tanh's best of degrees 9 and 8 on
// [-8.67, 8.67], by rminimax) as a machine without fused multiply-add computes it, which is what
// TensorFlow's builds are; so it must not be contracted. The clamp is the smallest argument whose
// result is 1.
FORMWORK_ISA_INLINE float Tanh(float x) {
  constexpr float kOne = 7.90738964080810547f;
  x = x > kOne ? kOne : x;
  x = x < -kOne ? -kOne : x;
  const float z = x * x;
  float p = 1.394553628e-8f;
  p = p * z + 2.102733560e-5f;
  p = p * z + 3.520756727e-3f;
  p = p * z + 1.340216100e-1f;
  float q = 8.015776984e-7f;
  q = q * z + 3.326951409e-4f;
  q = q * z + 2.597254514e-2f;
  q = q * z + 4.673548340e-1f;
  q = q * z + 1.0f;
  return (z * x * p + x) / q;
}

FORMWORK_ISA_INLINE float Sigmoid(float x) {
  const float e = ExpOfNegated(Magnitude(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

// e^(x^2) erfc(x) (1 + 2 x) for x in [0, 10.1].
FORMWORK_ISA_INLINE float ScaledErfc(float x) {
  const float t = (x - 3.0f) / (x + 3.0f);
  const float tt = t * t;
  const float t4 = tt * tt;
  const float low = Cubic(-0.11927097290754318f, 0.1296464204788208f, -0.04756239801645279f,
                          -0.13562114536762238f, t, tt);
  const float middle = Cubic(0.0020018082577735186f, 0.002567388815805316f, -0.023797525092959404f,
                             0.06829576194286346f, t, tt);
  const float high = -0.00026813658769242465f * t - 0.0007776014972478151f;
  // What is largest comes last, so that it is rounded once.
  return ((high * t4 + middle) * t4 + low) * t + 1.2530080080032349f;
}

// erf for |x| < 1.
FORMWORK_ISA_INLINE float SmallErf(float x) {
  const float z = x * x;
  const float zz = z * z;
  const float p = Cubic(7.933108281577006e-05f, -0.0008035031496547163f, 0.005191291682422161f,
                        -0.026855483651161194f, z, zz) *
                      zz +
                  (0.11283630132675171f * z - 0.37612631916999817f);
  return x + x * (0.12837916709551256f + z * p);
}

FORMWORK_ISA_INLINE float Erf(float x) {
  // A quotient of polynomials without negative terms. From 3.93 on the result is 1.
  x = x > 3.93f ? 3.93f : x;
  x = x < -3.93f ? -3.93f : x;
  const float z = x * x;
  const float zz = z * z;
  const float p =
      Cubic(2.042272585e-6f, 2.84782703e-4f, 3.778253645e-3f, 5.278609748e-2f, z, zz) * zz +
      (1.907515846e-1f * z + 1.128379146f);
  const float q =
      Cubic(3.800586297e-5f, 1.164893129e-3f, 1.499471145e-2f, 1.142442632e-1f, z, zz) * zz +
      (5.023819152e-1f * z + 1.0f);
  float y = x * p / q;
  y = y > 1.0f ? 1.0f : y;
  return y < -1.0f ? -1.0f : y;
}

FORMWORK_ISA_INLINE float Erfc(float x) {
  const float magnitude = Magnitude(x);
  const float a = magnitude > 10.1f ? 10.1f : magnitude;
  // x^2 in two parts: its rounding would be felt in the exponential.
  const float high = std::bit_cast<float>(std::bit_cast<uint32_t>(a) & 0xfffff000u);
  const float low = (a - high) * (a + high);
  const float e_low = ExpTail(-low) * (low * low) - low + 1.0f;
  const float y = Exp(-(high * high)) * (e_low * ScaledErfc(a) / (1.0f + 2.0f * a));
  return magnitude < 0.5f ? 1.0f - SmallErf(x) : (x < 0.0f ? 2.0f - y : y);
}

FORMWORK_ISA_INLINE float AtanOfFraction(float t) {
  const float z = t * t;
  const float zz = z * z;
  const float z4 = zz * zz;
  const float low = Cubic(0.10957571864128113f, -0.1426524519920349f, 0.19998638331890106f,
                          -0.33333301544189453f, z, zz);
  const float high = Cubic(0.011064315214753151f, -0.03145546838641167f, 0.0582343190908432f,
                           -0.08419445902109146f, z, zz);
  const float p = (-0.0018271846929565072f * z4 + high) * z4 + low;
  return p * z * t + t;
}
FORMWORK_ISA_INLINE float Atan(float x) {
  const float magnitude = Magnitude(x);
  const bool steep = magnitude > 1.0f;
  const float y = AtanOfFraction(steep ? 1.0f / magnitude : magnitude);
  return WithSignOf(steep ? 1.57079632679489662f - (y + 4.37113900018624283e-8f) : y, x);
}

FORMWORK_ISA_INLINE float Atan2(float y, float x) {
  const float a = Magnitude(y), b = Magnitude(x);
  const bool steep = a > b;
  // Of two zeros or two infinities it is the signs that count. A NaN is in the quotient.
  const float t = (steep ? b : a) / (steep ? a : b);
  const float fraction = a == b ? (a == 0.0f ? 0.0f : 1.0f) : t;
  const float slope = AtanOfFraction(fraction);
  const float angle = steep ? 1.57079632679489662f - (slope + 4.37113900018624283e-8f) : slope;
  const bool left = std::bit_cast<int32_t>(x) < 0;
  const float whole = left ? 3.14159265358979324f - (angle + 8.74227800037248566e-8f) : angle;
  return WithSignOf(whole, y);
}

FORMWORK_ISA_INLINE float Atanh(float x) {
  const float a = Magnitude(x);
  return WithSignOf(0.5f * Log1p((a + a) / (1.0f - a)), x);
}

// (asin(x) - x) / x^3 for x^2 in [0, 1/4].
FORMWORK_ISA_INLINE float AsinTail(float z) {
  const float zz = z * z;
  const float p = Cubic(0.0336908472f, 0.0171492384f, 0.0311006627f, 0.0445994015f, z, zz);
  return p * zz + (0.0750009454f * z + 0.166666663f);
}
FORMWORK_ISA_INLINE float Asin(float x) {
  // Beyond 1/2 by half the angle: asin x = pi/2 - 2 asin(sqrt((1 - x) / 2)).
  const float a = Magnitude(x);
  const bool steep = a > 0.5f;
  const float z = steep ? (1.0f - a) * 0.5f : a * a;
  const float s = steep ? std::sqrt(z) : a;
  const float y = AsinTail(z) * z * s + s;
  return WithSignOf(steep ? 1.57079632679489662f - (y + y + 4.37113900018624283e-8f) : y, x);
}

// Below this magnitude the functions of an angle hold; callers leave the rest to the C library.
inline constexpr float kMostAngle = 1048576.0f;

// An angle as `quadrant` quarter turns and `rest` within an eighth of a turn.
struct Angle {
  double rest;
  int32_t quadrant;
};
FORMWORK_ISA_INLINE Angle ReduceAngle(float x) {
  // The nearest integer: after the addition it is in the low bits, whatever they are for a NaN.
  const double moved = x * 0.63661977236758134308 + 6755399441055744.0;
  const double n = moved - 6755399441055744.0;
  const double rest = (x - n * 1.57079632673412561417e+00) - n * 6.07710050650619224932e-11;
  return {rest, static_cast<int32_t>(std::bit_cast<uint64_t>(moved))};
}
template <typename U>
FORMWORK_ISA_INLINE U SinOfRest(U r) {
  const U z = r * r;
  U p = U(-1.9515295891e-4);
  p = p * z + U(8.3321608736e-3);
  p = p * z - U(1.6666654611e-1);
  return r == U(0) ? r : p * z * r + r;
}
template <typename U>
FORMWORK_ISA_INLINE U CosOfRest(U r) {
  const U z = r * r;
  U p = U(2.443315711809948e-5);
  p = p * z - U(1.388731625493765e-3);
  p = p * z + U(4.166664568298827e-2);
  return p * (z * z) + (U(1) - U(0.5) * z);
}

FORMWORK_ISA_INLINE float Sin(float x) {
  const Angle a = ReduceAngle(x);
  const float r = static_cast<float>(a.rest);
  const float y = (a.quadrant & 1) != 0 ? CosOfRest(r) : SinOfRest(r);
  return (a.quadrant & 2) != 0 ? -y : y;
}
FORMWORK_ISA_INLINE float Cos(float x) {
  const Angle a = ReduceAngle(x);
  const float r = static_cast<float>(a.rest);
  const float y = (a.quadrant & 1) != 0 ? SinOfRest(r) : CosOfRest(r);
  return ((a.quadrant + 1) & 2) != 0 ? -y : y;
}
FORMWORK_ISA_INLINE float Tan(float x) {
  const Angle a = ReduceAngle(x);
  const double s = SinOfRest(a.rest), c = CosOfRest(a.rest);
  const bool odd = (a.quadrant & 1) != 0;
  return static_cast<float>((odd ? -c : s) / (odd ? s : c));
}

FORMWORK_ISA_INLINE float Pow(float base, float exponent) {
  // 2^(y log2 |x|) in double: float's 24 bits are not enough before the exponential.
  const double x = base, y = exponent;
  const uint64_t x_bits = std::bit_cast<uint64_t>(x);
  const uint64_t bits = x_bits & 0x7fffffffffffffffu;
  const double magnitude = std::bit_cast<double>(bits);
  // |x| = 2^e m, m in [sqrt 1/2, sqrt 2).
  constexpr uint64_t kHalfRoot = 0x3fe6a09e667f3bcdu;
  const uint64_t shifted = bits + (0x3ff0000000000000u - kHalfRoot);
  const double e =
      std::bit_cast<double>((shifted >> 52) | 0x4330000000000000u) - (4503599627370496.0 + 1023.0);
  const double m = std::bit_cast<double>((shifted & 0x000fffffffffffffu) + kHalfRoot);
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double q = 1.0 / 15.0;
  q = q * z + 1.0 / 13.0;
  q = q * z + 1.0 / 11.0;
  q = q * z + 1.0 / 9.0;
  q = q * z + 1.0 / 7.0;
  q = q * z + 1.0 / 5.0;
  q = q * z + 1.0 / 3.0;
  q = q * z + 1.0;
  double v = y * (e + 2.8853900817779268147 * s * q);
  v = v > 200.0 ? 200.0 : v;
  v = v < -200.0 ? -200.0 : v;
  const double moved = v + 6755399441055744.0;
  const double f = (v - (moved - 6755399441055744.0)) * 0.69314718055994530942;
  double p = 1.0 / 362880;
  p = p * f + 1.0 / 40320;
  p = p * f + 1.0 / 5040;
  p = p * f + 1.0 / 720;
  p = p * f + 1.0 / 120;
  p = p * f + 1.0 / 24;
  p = p * f + 1.0 / 6;
  p = p * f + 0.5;
  p = p * f + 1.0;
  p = p * f + 1.0;
  double result = p * std::bit_cast<double>((std::bit_cast<uint64_t>(moved) + 1023u) << 52);

  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
  // Zero and infinity to a power.
  result = magnitude == 0.0 ? (y > 0.0 ? 0.0 : kInfinity) : result;
  result = magnitude == kInfinity ? (y > 0.0 ? kInfinity : 0.0) : result;
  result = magnitude == 1.0 ? 1.0 : result;
  // Powers of what is negative. Floats of 2^24 and more are even.
  const double whole = y < 16777216.0 && y > -16777216.0 ? y : 0.0;
  const double whole_moved = whole + 6755399441055744.0;
  const bool is_whole = whole_moved - 6755399441055744.0 == whole;
  const uint64_t odd_sign = (std::bit_cast<uint64_t>(whole_moved) << 63) & x_bits;
  result = std::bit_cast<double>(std::bit_cast<uint64_t>(result) | (is_whole ? odd_sign : 0u));
  result = x < 0.0 && x > -kInfinity && !is_whole ? kNothing : result;
  result = x != x || y != y ? kNothing : result;
  result = x == 1.0 || y == 0.0 ? 1.0 : result;
  return static_cast<float>(result);
}

}  // namespace formwork::math
