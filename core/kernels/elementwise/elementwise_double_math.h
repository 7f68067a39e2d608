#pragma once

// Functions of doubles without a branch, as elementwise_float_math.h has them for floats: within
// 3 ulp of the true value, Erfc within 5 (tests/unit/double_math_test.cc); infinities, NaN, -0 and
// denormals as the C library has them. What is not here is the C library's (elementwise_math.h).
//
// Polynomials are interpolated at Chebyshev nodes.

#include <bit>
#include <cstdint>
#include <limits>

#include "core/kernels/isa.h"

namespace formwork::math {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

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

// a x^3 + b x^2 + c x + d, given x^2: parts of a polynomial that do not wait for each other.
FORMWORK_ISA_INLINE double Cubic(double a, double b, double c, double d, double x, double xx) {
  return (a * x + b) * xx + (c * x + d);
}

// c of e^r - 1 = 2 r / (2 - c) for |r| <= ln 2 / 2: r - c is even in r.
FORMWORK_ISA_INLINE double ExpPart(double r) {
  const double w = r * r;
  const double ww = w * w;
  const double high =
      4.1437096880780196e-8 * ww + (-1.6534058842837582e-6 * w + 6.613756470855508e-5);
  const double p = high * ww + (-2.7777777777562864e-3 * w + 0.1666666666666666);
  return r - w * p;
}
FORMWORK_ISA_INLINE double Expm1OfRest(double r) {
  const double c = ExpPart(r);
  return r + r * c / (2.0 - c);
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
  // By e = e^-2|x| = 2^n (2 r / d + 1), in one division: (1 - e) / (1 + e), whose parts keep their
  // precision near 0, where the result is small, and 1 - 2 e / (1 + e) beyond. From 22 on it is 1.
  const double magnitude = Magnitude(x);
  const double a = -2.0 * (magnitude > 22.0 ? 22.0 : magnitude);
  const double n = Nearest(a * 1.44269504088896340736);
  const double r = LessLogs(a, n);
  const double d = 2.0 - ExpPart(r);
  const double scale = Pow2(n);
  const double part = scale * (r + r);
  const double e = scale * d + part;
  const bool small = magnitude < 0.549;
  const double quotient = (small ? (1.0 - scale) * d - part : e + e) / (d + e);
  return WithSignOf(small ? quotient : 1.0 - quotient, x);
}

FORMWORK_ISA_INLINE double Sigmoid(double x) {
  const double e = Exp(-Magnitude(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

// erf for |x| < 1.
FORMWORK_ISA_INLINE double SmallErf(double x) {
  const double z = x * x;
  const double zz = z * z;
  const double z4 = zz * zz;
  const double low = Cubic(5.2239776253035179e-3, -2.6866170645123839e-2, 1.128379167095511e-1,
                           -3.7612638903183752e-1, z, zz);
  const double middle = Cubic(1.6461446656928561e-6, -1.4925622504489841e-5, 1.2055332214716276e-4,
                              -8.548327010033328e-4, z, zz);
  const double high = Cubic(6.1740972213052543e-11, -1.1500357159785295e-9, 1.4692484859133263e-8,
                            -1.6355118610877706e-7, z, zz);
  const double p = (high * z4 + middle) * z4 + low;
  return x + x * (0.12837916709551257390 + z * p);
}

// e^(x^2) erfc(x) for x in [1, 6].
FORMWORK_ISA_INLINE double ScaledErfc(double x) {
  const double t = (x - 3.0) / (x + 3.0);
  const double tt = t * t;
  const double t4 = tt * tt;
  const double p1 = Cubic(7.1665837197748743e-2, -1.5011593650078744e-1, 2.4560380171233194e-1,
                          -3.2623356004303717e-1, t, tt);
  const double p5 = Cubic(-5.9706235170932843e-4, 7.0774644439015373e-4, 4.2691363475082564e-3,
                          -2.4392499318273193e-2, t, tt);
  const double p9 = Cubic(-8.0080213194126843e-6, -1.2848894512523529e-5, 6.4061820735305467e-5,
                          4.5254726354833541e-5, t, tt);
  const double p13 = 1.2801900862962662e-6 * t + 2.0236031796417566e-6;
  // What is largest comes last, so that it is rounded once.
  return ((p5 * t4 + p1) + (t4 * t4) * (p13 * t4 + p9)) * t + 1.7900115118138995e-1;
}

FORMWORK_ISA_INLINE double Erf(double x) {
  // From 6 on the result is 1.
  const double magnitude = Magnitude(x);
  const double a = magnitude > 6.0 ? 6.0 : magnitude;
  const double large = 1.0 - Exp(-a * a) * ScaledErfc(a);
  return magnitude < 1.0 ? SmallErf(x) : WithSignOf(large, x);
}

// A positive number as 2^e (1 + f), f in [sqrt 1/2 - 1, sqrt 2 - 1].
struct LogParts {
  double e;
  double f;
};
FORMWORK_ISA_INLINE LogParts SplitForLog(double x) {
  constexpr uint64_t kHalfRoot = 0x3fe6a09e667f3bcdu;
  const bool denormal = x < 2.2250738585072014e-308;
  const uint64_t bits = std::bit_cast<uint64_t>(denormal ? x * 4503599627370496.0 : x);
  const uint64_t shifted = bits + (0x3ff0000000000000u - kHalfRoot);
  // The exponent's bits under those of 2^52.
  const double biased = std::bit_cast<double>((shifted >> 52) | 0x4330000000000000u);
  const double e = biased - (4503599627370496.0 + 1023.0);
  const double m = std::bit_cast<double>((shifted & 0x000fffffffffffffu) + kHalfRoot);
  return {denormal ? e - 52.0 : e, m - 1.0};
}
// e ln 2 + log(1 + f) + rest.
FORMWORK_ISA_INLINE double LogOfParts(double e, double f, double rest) {
  // log(1 + f) = 2 atanh(s) = f - (f^2/2 - s (f^2/2 + s^2 p)).
  const double s = f / (2.0 + f);
  const double z = s * s;
  double p = 0.14617807153417325;
  p = p * z + 0.15331611722055008;
  p = p * z + 0.1818289243253687;
  p = p * z + 0.22222211089379496;
  p = p * z + 0.28571428626253836;
  p = p * z + 0.3999999999989889;
  p = p * z + 0.666666666666667;
  const double half_square = 0.5 * f * f;
  const double low = s * (half_square + z * p) + (e * 1.90821492927058770002e-10 + rest);
  return e * 6.93147180369123816490e-01 - ((half_square - low) - f);
}

FORMWORK_ISA_INLINE double Log(double x) {
  const LogParts parts = SplitForLog(x);
  double y = LogOfParts(parts.e, parts.f, 0.0);
  y = x == kInfinity ? kInfinity : y;
  y = x == 0.0 ? -kInfinity : y;
  return x >= 0.0 ? y : kNothing;
}

FORMWORK_ISA_INLINE double Log1p(double x) {
  const double u = 1.0 + x;
  const LogParts parts = SplitForLog(u);
  // Near 1 nothing of x is lost; else what the rounding of 1 + x left out comes in at the end.
  const bool near = parts.e == 0.0;
  double y = LogOfParts(parts.e, near ? x : parts.f, near ? 0.0 : (x - (u - 1.0)) / u);
  y = x == kInfinity ? kInfinity : y;
  y = u == 0.0 ? -kInfinity : y;
  y = u >= 0.0 ? y : kNothing;
  return u == 1.0 ? x : y;
}

FORMWORK_ISA_INLINE double Softplus(double x) {
  // max(x, 0) + log(1 + e^-|x|): nothing overflows, and the sum is exact where one part is nothing.
  return (x < 0.0 ? 0.0 : x) + Log1p(Exp(-Magnitude(x)));
}

FORMWORK_ISA_INLINE double Atanh(double x) {
  const double a = Magnitude(x);
  return WithSignOf(0.5 * Log1p((a + a) / (1.0 - a)), x);
}

// The angle of a slope num / den that is at most 1: that of the slope from a half of a quarter turn
// where it is steep.
struct Slope {
  double num;
  double den;
  double from;      // An angle, to which the slope's is added,
  double from_low;  // and what that lacks.
};
// Of a point at a and b, neither of which is negative.
FORMWORK_ISA_INLINE Slope SlopeOf(double a, double b) {
  const bool some = a > 0.41421356237309503 * b;
  const bool steep = a > 2.4142135623730951 * b;
  Slope slope = {a, b, 0.0, 0.0};
  slope.num = some ? a - b : slope.num;
  slope.den = some ? a + b : slope.den;
  slope.from = some ? 0.78539816339744828 : slope.from;
  slope.from_low = some ? 3.0616169978683824e-17 : slope.from_low;
  slope.num = steep ? -b : slope.num;
  slope.den = steep ? a : slope.den;
  slope.from = steep ? 1.5707963267948966 : slope.from;
  slope.from_low = steep ? 6.123233995736766e-17 : slope.from_low;
  return slope;
}
// from + atan(t) for |t| <= sqrt 2 - 1.
FORMWORK_ISA_INLINE double AngleOf(double t, const Slope& slope) {
  const double z = t * t;
  const double zz = z * z;
  const double z4 = zz * zz;
  const double low = Cubic(0.11111111014561013, -0.14285714284657894, 0.1999999999999548,
                           -0.3333333333333333, z, zz);
  const double middle = Cubic(0.058580687568615106, -0.06664502215671447, 0.07692182535116648,
                              -0.09090904549884611, z, zz);
  const double high = -0.019162068915902573 * zz + (0.03921955253255129 * z - 0.05085030492810941);
  const double p = (high * z4 + middle) * z4 + low;
  return slope.from + (t + (t * z * p + slope.from_low));
}

FORMWORK_ISA_INLINE double Atan(double x) {
  const double a = Magnitude(x);
  const Slope slope = SlopeOf(a, 1.0);
  // Of an infinity the other side counts.
  const double t = a == kInfinity ? 0.0 : slope.num / slope.den;
  return WithSignOf(AngleOf(t, slope), x);
}

FORMWORK_ISA_INLINE double Atan2(double y, double x) {
  // Made smaller where their sum would overflow.
  const double y_size = Magnitude(y), x_size = Magnitude(x);
  const double scale = y_size + x_size > 1e300 ? 0x1p-60 : 1.0;
  const double a = y_size * scale, b = x_size * scale;
  // Two infinities are as far as each other; of two zeros it is the signs that count. A NaN is in
  // the quotient.
  const bool even = a == b;
  const Slope slope = SlopeOf(even ? (a == 0.0 ? 0.0 : 1.0) : a, even ? 1.0 : b);
  const double angle = AngleOf(slope.num / slope.den, slope);
  const bool left = std::bit_cast<int64_t>(x) < 0;
  const double whole = left ? 3.1415926535897931 - (angle - 1.2246467991473532e-16) : angle;
  return WithSignOf(whole, y);
}

// e^(x^2) erfc(x) (1 + 2 x) for x in [0.5, 27.3].
FORMWORK_ISA_INLINE double ScaledErfcByLine(double x) {
  const double t = (x - 3.0) / (x + 3.0);
  const double tt = t * t;
  const double t4 = tt * tt;
  const double p1 = Cubic(-0.11927366341629257, 0.12964515870271254, -0.047562294353435265,
                          -0.13562110612458078, t, tt);
  const double p5 = Cubic(0.0018886900530070958, 0.002529391783806301, -0.023770514894356023,
                          0.0683080273457887, t, tt);
  const double p9 = Cubic(4.9394062176004435e-06, 0.00012509732433842115, -0.00010515756321434678,
                          -0.000779831946529359, t, tt);
  const double p13 = Cubic(3.054931767849695e-07, 3.4515839769737127e-06, -7.028020732013142e-07,
                           -2.0092468813829974e-05, t, tt);
  const double p17 = Cubic(9.413638433491175e-09, 7.086022948634711e-08, -8.635219698688152e-08,
                           -5.831505718243247e-07, t, tt);
  const double high = (p17 * t4 + p13) * t4 + p9;
  return ((p5 * t4 + p1) + (t4 * t4) * high) * t + 1.2530080582697296;
}

FORMWORK_ISA_INLINE double Erfc(double x) {
  // From 27.3 on the result is 0.
  const double magnitude = Magnitude(x);
  const double a = magnitude > 27.3 ? 27.3 : magnitude;
  // x^2 in two parts: its rounding would be felt in the exponential.
  const double high = std::bit_cast<double>(std::bit_cast<uint64_t>(a) & 0xfffffffff8000000u);
  const double low = (a - high) * (a + high);
  const double e_low = 1.0 - low * (1.0 - low * (0.5 - low * 0.16666666666666666));
  const double y = Exp(-(high * high)) * (e_low * ScaledErfcByLine(a) / (1.0 + 2.0 * a));
  return magnitude < 0.5 ? 1.0 - SmallErf(x) : (x < 0.0 ? 2.0 - y : y);
}

}  // namespace formwork::math
