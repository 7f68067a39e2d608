// Functions that are integrals, and that Eigen has not: by series where these are short, else by
// continued fractions. In double; for floats too, which costs less than their own would be to
// write.

#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

#include "core/kernels/elementwise/special_functions.h"

namespace formwork::math {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = std::numbers::pi;

// Both Fresnel integrals, of x >= 0: cosine's is the real part.
std::complex<double> Fresnel(double x) {
  // From where on TensorFlow's are 1/2; they differ from that by less than 1 / (pi x).
  if (!(x < 36974))
    return std::isnan(x) ? std::complex<double>(kNan, kNan) : std::complex(0.5, 0.5);
  const double square = kPi * x * x;
  if (x < 1.6) {
    // Of exp(i pi t^2 / 2), term by term.
    std::complex<double> term = x, sum = x;
    for (int k = 1; k < 60; ++k) {
      term *= std::complex<double>(0, square / 2) / static_cast<double>(k);
      const std::complex<double> part = term / static_cast<double>(2 * k + 1);
      sum += part;
      if (std::abs(part) < kEpsilon * std::abs(sum) && k > 1) break;
    }
    return sum;
  }
  // (1 + i) / 2 times the error function of z = sqrt(pi) / 2 (1 - i) x, whose complement is
  // exp(-z^2) times a continued fraction, by Lentz's method.
  std::complex<double> b(1, -square), c = 1e300, d = 1.0 / b, h = d;
  for (int k = 2, n = -1; k < 400; ++k) {
    n += 2;
    const double a = -static_cast<double>(n) * (n + 1);
    b += 4.0;
    d = 1.0 / (a * d + b);
    c = b + a / c;
    const std::complex<double> step = c * d;
    h *= step;
    if (std::abs(step.real() - 1) + std::abs(step.imag()) < kEpsilon) break;
  }
  h *= std::complex<double>(x, -x);
  const std::complex<double> turn(std::cos(square / 2), std::sin(square / 2));
  return std::complex<double>(0.5, 0.5) * (1.0 - turn * h);
}

// The dilogarithm of z <= 1/2 and z >= -1, by the Bernoulli numbers.
double ShortDilogarithm(double z) {
  constexpr double kTerms[] = {1.0 / 36,
                               -1.0 / 3600,
                               1.0 / 211680,
                               -1.0 / 10886400,
                               1.0 / 526901760,
                               -4.0647616451442255e-11,
                               8.921691020456452e-13,
                               -1.9939295860721076e-14,
                               4.518980029619918e-16};
  const double y = -std::log1p(-z);
  double sum = y - y * y / 4, power = y;
  for (double term : kTerms) {
    power *= y * y;
    sum += term * power;
  }
  return sum;
}

}  // namespace

double Dawsn(double x) {
  const double size = std::abs(x);
  if (size < 1) {
    double term = x, sum = x;
    for (int k = 1; k < 60; ++k) {
      term *= -2 * x * x / (2 * k + 1);
      sum += term;
    }
    return sum;
  }
  if (!(size < 1e7)) return std::isnan(x) ? x : 0.5 / x;
  // Rybicki's sum over odd multiples of h, around the even one that is nearest.
  constexpr double h = 0.2;
  const double nearest = 2 * std::round(size / (2 * h)), rest = size - nearest * h;
  double sum = 0;
  for (int n = -33; n <= 33; n += 2) {
    const double t = rest - n * h;
    sum += std::exp(-t * t) / (n + nearest);
  }
  return std::copysign(sum / std::sqrt(kPi), x);
}

double Expint(double x) {
  if (!(x >= 0) || std::isinf(x)) return kNan;
  if (x == 0) return -std::numeric_limits<double>::infinity();
  double sum = 0, term = 1;
  if (x < 40) {
    for (int k = 1; k < 300; ++k) {
      term *= x / k;
      sum += term / k;
      if (term < kEpsilon * sum) break;
    }
    return std::numbers::egamma + std::log(x) + sum;
  }
  for (int k = 1; k < 40 && term > kEpsilon; ++k) {
    sum += term;
    term *= k / x;
  }
  return std::exp(x) / x * sum;
}

double FresnelCos(double x) { return std::copysign(Fresnel(std::abs(x)).real(), x); }
double FresnelSin(double x) { return std::copysign(Fresnel(std::abs(x)).imag(), x); }

double Spence(double x) {
  if (!(x >= 0) || std::isinf(x)) return kNan;
  const double z = 1 - x;
  if (x == 0) return kPi * kPi / 6;
  if (z > 0.5) return kPi * kPi / 6 - std::log(z) * std::log(x) - ShortDilogarithm(x);
  if (z >= -1) return ShortDilogarithm(z);
  const double log = std::log(-z);
  return -kPi * kPi / 6 - log * log / 2 - ShortDilogarithm(1 / z);
}

float Dawsn(float x) { return static_cast<float>(Dawsn(static_cast<double>(x))); }
float Expint(float x) { return static_cast<float>(Expint(static_cast<double>(x))); }
float FresnelCos(float x) { return static_cast<float>(FresnelCos(static_cast<double>(x))); }
float FresnelSin(float x) { return static_cast<float>(FresnelSin(static_cast<double>(x))); }
float Spence(float x) { return static_cast<float>(Spence(static_cast<double>(x))); }

}  // namespace formwork::math
