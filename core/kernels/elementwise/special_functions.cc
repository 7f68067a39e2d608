#include "core/kernels/elementwise/special_functions.h"

#include <cmath>
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
FORMWORK_SPECIAL_BINARY(Polygamma, polygamma)
FORMWORK_SPECIAL_BINARY(Zeta, zeta)
FORMWORK_SPECIAL_BINARY(Igamma, igamma)
FORMWORK_SPECIAL_BINARY(Igammac, igammac)
FORMWORK_SPECIAL_BINARY(IgammaGradA, igamma_der_a)
FORMWORK_SPECIAL_BINARY(RandomGammaGrad, gamma_sample_der_alpha)

float Betainc(float a, float b, float x) { return Eigen::numext::betainc(a, b, x); }
double Betainc(double a, double b, double x) { return Eigen::numext::betainc(a, b, x); }

// Eigen 3.4 takes what is below 0 for 0, and above 1 for 1.
float Ndtri(float x) { return x >= 0 && x <= 1 ? Eigen::numext::ndtri(x) : NAN; }
double Ndtri(double x) { return x >= 0 && x <= 1 ? Eigen::numext::ndtri(x) : NAN; }

float Erfinv(float x) { return Ndtri(0.5f * x + 0.5f) * 0.70710678f; }
double Erfinv(double x) { return Ndtri(0.5 * x + 0.5) * 0.70710678118654752; }

}  // namespace formwork::math
