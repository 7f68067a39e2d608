#include "core/kernels/elementwise/elementwise_table.h"
#include "core/kernels/elementwise/special_functions.h"

namespace formwork {
namespace elementwise {
namespace {

FORMWORK_UNARY_OP(BesselI0Op, math::BesselI0(a));
FORMWORK_UNARY_OP(BesselI0eOp, math::BesselI0e(a));
FORMWORK_UNARY_OP(BesselI1Op, math::BesselI1(a));
FORMWORK_UNARY_OP(BesselI1eOp, math::BesselI1e(a));
FORMWORK_UNARY_OP(BesselJ0Op, math::BesselJ0(a));
FORMWORK_UNARY_OP(BesselJ1Op, math::BesselJ1(a));
FORMWORK_UNARY_OP(BesselK0Op, math::BesselK0(a));
FORMWORK_UNARY_OP(BesselK0eOp, math::BesselK0e(a));
FORMWORK_UNARY_OP(BesselK1Op, math::BesselK1(a));
FORMWORK_UNARY_OP(BesselK1eOp, math::BesselK1e(a));
FORMWORK_UNARY_OP(BesselY0Op, math::BesselY0(a));
FORMWORK_UNARY_OP(BesselY1Op, math::BesselY1(a));
FORMWORK_UNARY_OP(NdtriOp, math::Ndtri(a));
FORMWORK_UNARY_OP(DawsnOp, U(math::Dawsn(a)));
FORMWORK_UNARY_OP(ExpintOp, U(math::Expint(a)));
FORMWORK_UNARY_OP(FresnelCosOp, U(math::FresnelCos(a)));
FORMWORK_UNARY_OP(FresnelSinOp, U(math::FresnelSin(a)));
FORMWORK_UNARY_OP(SpenceOp, U(math::Spence(a)));
FORMWORK_UNARY_OP(ErfinvOp, math::Erfinv(a));
FORMWORK_BINARY_OP(PolygammaOp, math::Polygamma(a, b));
FORMWORK_BINARY_OP(ZetaOp, math::Zeta(a, b));
FORMWORK_BINARY_OP(IgammaOp, math::Igamma(a, b));
FORMWORK_BINARY_OP(IgammacOp, math::Igammac(a, b));
FORMWORK_BINARY_OP(IgammaGradAOp, math::IgammaGradA(a, b));
FORMWORK_BINARY_OP(RandomGammaGradOp, math::RandomGammaGrad(a, b));

Table Make() {
  Table t;
  t.Unary<BesselI0Op, float, double, half>("BesselI0")
      .Unary<BesselI0eOp, float, double, half>("BesselI0e")
      .Unary<BesselI1Op, float, double, half>("BesselI1")
      .Unary<BesselI1eOp, float, double, half>("BesselI1e")
      .Unary<BesselJ0Op, float, double, half>("BesselJ0")
      .Unary<BesselJ1Op, float, double, half>("BesselJ1")
      .Unary<BesselK0Op, float, double, half>("BesselK0")
      .Unary<BesselK0eOp, float, double, half>("BesselK0e")
      .Unary<BesselK1Op, float, double, half>("BesselK1")
      .Unary<BesselK1eOp, float, double, half>("BesselK1e")
      .Unary<BesselY0Op, float, double, half>("BesselY0")
      .Unary<BesselY1Op, float, double, half>("BesselY1")
      .Unary<NdtriOp, float, double>("Ndtri")
      .Unary<ErfinvOp, float, double>("Erfinv")
      .Unary<DawsnOp, float, double>("Dawsn")
      .Unary<ExpintOp, float, double>("Expint")
      .Unary<FresnelCosOp, float, double>("FresnelCos")
      .Unary<FresnelSinOp, float, double>("FresnelSin")
      .Unary<SpenceOp, float, double>("Spence")
      .Binary<PolygammaOp, float, double>("Polygamma")
      .Binary<ZetaOp, float, double>("Zeta")
      .Binary<IgammaOp, FORMWORK_FLOATS>("Igamma")
      .Binary<IgammacOp, FORMWORK_FLOATS>("Igammac")
      .Binary<IgammaGradAOp, float, double>("IgammaGradA")
      .Binary<RandomGammaGradOp, float, double>("RandomGammaGrad");
  return t;
}

}  // namespace
}  // namespace elementwise

absl::Span<const NamedBlockOp> SpecialBlocks() {
  static const auto* const table = new elementwise::Table(elementwise::Make());
  return table->rows();
}

}  // namespace formwork
