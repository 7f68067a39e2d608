#pragma once

// Special functions of one number, most by Eigen, which TensorFlow's results come from as well.
// Compiled once: their loops are far longer than what they cost to call.

namespace formwork::math {

#define FORMWORK_SPECIAL_UNARY(name) \
  float name(float x);               \
  double name(double x);
#define FORMWORK_SPECIAL_BINARY(name) \
  float name(float a, float x);       \
  double name(double a, double x);

FORMWORK_SPECIAL_UNARY(BesselI0)
FORMWORK_SPECIAL_UNARY(BesselI0e)
FORMWORK_SPECIAL_UNARY(BesselI1)
FORMWORK_SPECIAL_UNARY(BesselI1e)
FORMWORK_SPECIAL_UNARY(BesselJ0)
FORMWORK_SPECIAL_UNARY(BesselJ1)
FORMWORK_SPECIAL_UNARY(BesselK0)
FORMWORK_SPECIAL_UNARY(BesselK0e)
FORMWORK_SPECIAL_UNARY(BesselK1)
FORMWORK_SPECIAL_UNARY(BesselK1e)
FORMWORK_SPECIAL_UNARY(BesselY0)
FORMWORK_SPECIAL_UNARY(BesselY1)
FORMWORK_SPECIAL_UNARY(Ndtri)   ///< Inverse of the normal distribution's function.
FORMWORK_SPECIAL_UNARY(Erfinv)  ///< Inverse of the error function.
FORMWORK_SPECIAL_UNARY(Dawsn)   ///< Dawson's integral.
FORMWORK_SPECIAL_UNARY(
    Expint)  ///< The exponential integral Ei; as TensorFlow's NaN below 0, and of infinity.
FORMWORK_SPECIAL_UNARY(FresnelCos)
FORMWORK_SPECIAL_UNARY(FresnelSin)
FORMWORK_SPECIAL_UNARY(Spence)  ///< The dilogarithm of 1 - x.
FORMWORK_SPECIAL_BINARY(Polygamma)
FORMWORK_SPECIAL_BINARY(Zeta)             ///< Hurwitz's.
FORMWORK_SPECIAL_BINARY(Igamma)           ///< The lower incomplete gamma function.
FORMWORK_SPECIAL_BINARY(Igammac)          ///< The upper one.
FORMWORK_SPECIAL_BINARY(IgammaGradA)      ///< The derivative of Igamma by a.
FORMWORK_SPECIAL_BINARY(RandomGammaGrad)  ///< Of a sample x of Gamma(a, 1) by a.

float Betainc(float a, float b, float x);  ///< The regularised incomplete beta function.
double Betainc(double a, double b, double x);

#undef FORMWORK_SPECIAL_UNARY
#undef FORMWORK_SPECIAL_BINARY

}  // namespace formwork::math
