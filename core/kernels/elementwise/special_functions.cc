#include "core/kernels/elementwise/special_functions.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <unsupported/Eigen/SpecialFunctions>

namespace formwork::math {

#define FORMWORK_SPECIAL_UNARY(name, function)               \
  float name(float x) { return Eigen::numext::function(x); } \
  double name(double x) { return Eigen::numext::function(x); }
#define FORMWORK_SPECIAL_BINARY(name, function)                          \
  float name(float a, float x) { return Eigen::numext::function(a, x); } \
  double name(double a, double x) { return Eigen::numext::function(a, x); }

FORMWORK_SPECIAL_UNARY(BesselI0, bessel_i0)
FORMWORK_SPECIAL_UNARY(BesselI0e, bessel_i0e)
FORMWORK_SPECIAL_UNARY(BesselI1, bessel_i1)
FORMWORK_SPECIAL_UNARY(BesselI1e, bessel_i1e)
FORMWORK_SPECIAL_UNARY(BesselJ0, bessel_j0)
FORMWORK_SPECIAL_UNARY(BesselJ1, bessel_j1)
FORMWORK_SPECIAL_UNARY(BesselK0, bessel_k0)
FORMWORK_SPECIAL_UNARY(BesselK0e, bessel_k0e)
FORMWORK_SPECIAL_UNARY(BesselK1, bessel_k1)
FORMWORK_SPECIAL_UNARY(BesselK1e, bessel_k1e)
FORMWORK_SPECIAL_UNARY(BesselY0, bessel_y0)
FORMWORK_SPECIAL_UNARY(BesselY1, bessel_y1)
FORMWORK_SPECIAL_BINARY(Igamma, igamma)
FORMWORK_SPECIAL_BINARY(Igammac, igammac)
FORMWORK_SPECIAL_BINARY(IgammaGradA, igamma_der_a)
FORMWORK_SPECIAL_BINARY(RandomGammaGrad, gamma_sample_der_alpha)

namespace {

template <typename T>
T ZetaOf(T order, T x) {
  const bool is_pole = x <= 0 && x == std::floor(x);
  // There Eigen 3.4 casts the order to long, to see whether it is even: from 2^53 on all are.
  constexpr T kAllEven = T(int64_t{1} << 53);
  const T sum = Eigen::numext::zeta(is_pole && order > kAllEven ? kAllEven : order, x);
  if (is_pole || !std::isnan(sum) || !(order > 1)) return sum;
  // Where the terms are too small for T, it goes on to a tail whose factors are too large.
  const T first = std::pow(x, -order);
  return first == 0 ? first : sum;
}

template <typename T>
T PolygammaOf(T n, T x) {
  if (n < 0 || n != std::floor(n)) return std::numeric_limits<T>::quiet_NaN();
  if (n == 0) return Eigen::numext::digamma(x);
  const T order = n + 1;
  return std::pow(T(-1), order) * std::exp(Eigen::numext::lgamma(order)) * ZetaOf(order, x);
}

}  // namespace

float Polygamma(float a, float x) { return PolygammaOf(a, x); }
double Polygamma(double a, double x) { return PolygammaOf(a, x); }
float Zeta(float a, float x) { return ZetaOf(a, x); }
double Zeta(double a, double x) { return ZetaOf(a, x); }

float Betainc(float a, float b, float x) { return Eigen::numext::betainc(a, b, x); }
double Betainc(double a, double b, double x) { return Eigen::numext::betainc(a, b, x); }

// Eigen 3.4 takes what is below 0 for 0, and above 1 for 1.
float Ndtri(float x) { return x >= 0 && x <= 1 ? Eigen::numext::ndtri(x) : NAN; }
double Ndtri(double x) { return x >= 0 && x <= 1 ? Eigen::numext::ndtri(x) : NAN; }

float Erfinv(float x) { return Ndtri(0.5f * x + 0.5f) * 0.70710678f; }
double Erfinv(double x) { return Ndtri(0.5 * x + 0.5) * 0.70710678118654752; }

}  // namespace formwork::math
