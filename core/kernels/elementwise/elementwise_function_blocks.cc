#include "core/kernels/elementwise/elementwise_table.h"

namespace formwork {
namespace elementwise {
namespace {

FORMWORK_UNARY_OP(ExpOp, math::Exp(a));
FORMWORK_UNARY_OP(LogOp, math::Log(a));
FORMWORK_UNARY_OP(TanhOp, math::Tanh(a));
FORMWORK_UNARY_OP(SigmoidOp, math::Sigmoid(a));
FORMWORK_UNARY_OP(SoftplusOp, math::Softplus(a));
FORMWORK_UNARY_OP(SqrtOp, std::sqrt(a));
FORMWORK_UNARY_OP(RsqrtOp, U(1) / std::sqrt(a));
FORMWORK_UNARY_OP(ReciprocalOp, U(1) / a);
FORMWORK_UNARY_OP(SinOp, std::sin(a));
FORMWORK_UNARY_OP(CosOp, std::cos(a));
FORMWORK_UNARY_OP(TanOp, std::tan(a));
FORMWORK_UNARY_OP(AtanOp, math::Atan(a));
FORMWORK_UNARY_OP(Log1pOp, math::Log1p(a));
FORMWORK_UNARY_OP(Expm1Op, math::Expm1(a));
FORMWORK_UNARY_OP(ErfOp, math::Erf(a));
FORMWORK_UNARY_OP(ErfcOp, math::Erfc(a));
FORMWORK_UNARY_OP(LgammaOp, U(math::Lgamma(a)));
FORMWORK_UNARY_OP(DigammaOp, U(math::Digamma(a)));
FORMWORK_UNARY_OP(CeilOp, std::ceil(a));
FORMWORK_UNARY_OP(FloorOp, std::floor(a));
FORMWORK_UNARY_OP(RintOp, std::nearbyint(a));
// NaN passes: its comparisons are false.
FORMWORK_UNARY_OP(ReluOp, a < U(0) ? U(0) : a);
FORMWORK_UNARY_OP(EluOp, a < U(0) ? math::Expm1(a) : a);
FORMWORK_UNARY_OP(SoftsignOp, a / (U(1) + math::Abs(a)));
FORMWORK_UNARY_OP(SinhOp, std::sinh(a));
FORMWORK_UNARY_OP(CoshOp, std::cosh(a));
FORMWORK_UNARY_OP(AsinOp, math::Asin(a));
FORMWORK_UNARY_OP(AcosOp, std::acos(a));
FORMWORK_UNARY_OP(AsinhOp, std::asinh(a));
FORMWORK_UNARY_OP(AcoshOp, std::acosh(a));
FORMWORK_UNARY_OP(AtanhOp, math::Atanh(a));
FORMWORK_UNARY_OP(SeluOp, a < U(0) ? U(1.7580993408473768599402175208123) * math::Expm1(a)
                                   : U(1.0507009873554804934193349852946) * a);
struct Relu6Op {
  template <typename U>
  FORMWORK_ISA_INLINE static U f(U a) {
    const U positive = a < U(0) ? U(0) : a;
    return positive > U(6) ? U(6) : positive;
  }
};
FORMWORK_BINARY_OP(LeakyReluOp, a > U(0) ? a : U(a * b));
FORMWORK_BINARY_OP(Atan2Op, math::Atan2(a, b));
FORMWORK_BINARY_OP(NextAfterOp, std::nextafter(a, b));
FORMWORK_BINARY_OP(XdivyOp, a == U(0) ? U(0) : U(a / b));
FORMWORK_BINARY_OP(XlogyOp, a == U(0) ? U(0) : U(a * math::Log(b)));
FORMWORK_BINARY_OP(Xlog1pyOp, a == U(0) ? U(0) : U(a * math::Log1p(b)));

// libm's and the library's complex functions.
FORMWORK_UNARY_OP(ComplexAtanOp, std::atan(a));
FORMWORK_UNARY_OP(ComplexAsinOp, std::asin(a));
FORMWORK_UNARY_OP(ComplexAtanhOp, std::atanh(a));
FORMWORK_UNARY_OP(ComplexExpOp, std::exp(a));
FORMWORK_UNARY_OP(ComplexLogOp, std::log(a));
FORMWORK_UNARY_OP(ComplexTanhOp, std::tanh(a));
FORMWORK_UNARY_OP(ComplexSigmoidOp, U(1) / (U(1) + std::exp(-a)));
FORMWORK_UNARY_OP(ComplexLog1pOp, std::log(U(1) + a));
FORMWORK_UNARY_OP(ComplexExpm1Op, std::exp(a) - U(1));

// The last operand is the attr alpha.
struct LeakyReluGradOp {
  template <typename U>
  FORMWORK_ISA_INLINE static U f(U gradient, U feature, U alpha) {
    return feature > U(0) ? gradient : U(gradient * alpha);
  }
};

// Complex functions that the table has beside the float ones.
FORMWORK_BINARY_OP(ComplexXlogyOp, a == U(0) ? U(0) : U(a * std::log(b)));
FORMWORK_BINARY_OP(ComplexXlog1pyOp, a == U(0) ? U(0) : U(a * std::log(U(1) + b)));

// Sin, Cos and Tan of floats: the vector loop where no angle of the run is huge, else the C
// library's for all of it.
template <typename Fast, typename Exact, typename T>
struct AngleLoop {
  static constexpr uint8_t kArity = 1;
  FORMWORK_ISA_INLINE static void Run(const void* const* in, void* out, int64_t n) {
    const T* a = static_cast<const T*>(in[0]);
    T* o = static_cast<T*>(out);
    int huge = 0;
    for (int64_t i = 0; i < n; ++i) {
      huge |= math::Magnitude(static_cast<float>(a[i])) > math::kMostAngle ? 1 : 0;
    }
    if (huge == 0) {
      for (int64_t i = 0; i < n; ++i) o[i] = static_cast<T>(Fast::f(static_cast<float>(a[i])));
    } else {
      for (int64_t i = 0; i < n; ++i) o[i] = static_cast<T>(Exact::f(static_cast<float>(a[i])));
    }
  }
};
FORMWORK_UNARY_OP(FastSinOp, math::Sin(a));
FORMWORK_UNARY_OP(FastCosOp, math::Cos(a));
FORMWORK_UNARY_OP(FastTanOp, math::Tan(a));
template <typename Fast, typename Exact, typename... Ts>
void AddAngle(Table& t, absl::string_view name) {
  (t.Add<AngleLoop<Fast, Exact, Ts>, Ts, Ts>(name), ...);
}

Table Make() {
  Table t;
  t.Unary<ExpOp, FORMWORK_FLOATS>("Exp")
      .Unary<ComplexExpOp, FORMWORK_COMPLEXES>("Exp")
      .Unary<LogOp, FORMWORK_FLOATS>("Log")
      .Unary<ComplexLogOp, FORMWORK_COMPLEXES>("Log")
      .Unary<TanhOp, FORMWORK_FLOATS>("Tanh")
      .Unary<ComplexTanhOp, FORMWORK_COMPLEXES>("Tanh")
      .Unary<SigmoidOp, FORMWORK_FLOATS>("Sigmoid")
      .Unary<ComplexSigmoidOp, FORMWORK_COMPLEXES>("Sigmoid")
      .Unary<Log1pOp, FORMWORK_FLOATS>("Log1p")
      .Unary<ComplexLog1pOp, FORMWORK_COMPLEXES>("Log1p")
      .Unary<Expm1Op, FORMWORK_FLOATS>("Expm1")
      .Unary<ComplexExpm1Op, FORMWORK_COMPLEXES>("Expm1")
      .Unary<SoftplusOp, FORMWORK_FLOATS>("Softplus")
      .Unary<SqrtOp, FORMWORK_FLOATS, FORMWORK_COMPLEXES>("Sqrt")
      .Unary<RsqrtOp, FORMWORK_FLOATS, FORMWORK_COMPLEXES>("Rsqrt")
      .Unary<ReciprocalOp, FORMWORK_FLOATS, FORMWORK_COMPLEXES>("Reciprocal")
      .Unary<ReciprocalOp, FORMWORK_FLOATS, FORMWORK_COMPLEXES>("Inv")
      .Unary<SinOp, double, FORMWORK_COMPLEXES>("Sin")
      .Unary<CosOp, double, FORMWORK_COMPLEXES>("Cos")
      .Unary<TanOp, double, FORMWORK_COMPLEXES>("Tan")
      .Unary<SinhOp, FORMWORK_FLOATS, FORMWORK_COMPLEXES>("Sinh")
      .Unary<CoshOp, FORMWORK_FLOATS, FORMWORK_COMPLEXES>("Cosh")
      .Unary<AsinOp, FORMWORK_FLOATS>("Asin")
      .Unary<ComplexAsinOp, FORMWORK_COMPLEXES>("Asin")
      .Unary<AcosOp, FORMWORK_FLOATS, FORMWORK_COMPLEXES>("Acos")
      .Unary<AtanOp, FORMWORK_FLOATS>("Atan")
      .Unary<ComplexAtanOp, FORMWORK_COMPLEXES>("Atan")
      .Unary<AsinhOp, FORMWORK_FLOATS, FORMWORK_COMPLEXES>("Asinh")
      .Unary<AcoshOp, FORMWORK_FLOATS, FORMWORK_COMPLEXES>("Acosh")
      .Unary<AtanhOp, FORMWORK_FLOATS>("Atanh")
      .Unary<ComplexAtanhOp, FORMWORK_COMPLEXES>("Atanh")
      .Unary<ErfOp, FORMWORK_FLOATS>("Erf")
      .Unary<ErfcOp, FORMWORK_FLOATS>("Erfc")
      .Unary<CeilOp, FORMWORK_FLOATS>("Ceil")
      .Unary<FloorOp, FORMWORK_FLOATS>("Floor")
      .Unary<RintOp, FORMWORK_FLOATS>("Round")
      .Unary<RintOp, FORMWORK_FLOATS>("Rint")
      .Unary<ReluOp, FORMWORK_FLOATS, FORMWORK_INTS>("Relu")
      .Unary<Relu6Op, FORMWORK_FLOATS, FORMWORK_INTS>("Relu6")
      .Unary<EluOp, FORMWORK_FLOATS>("Elu")
      .Unary<SeluOp, FORMWORK_FLOATS>("Selu")
      .Unary<SoftsignOp, FORMWORK_FLOATS>("Softsign")
      .Binary<Atan2Op, FORMWORK_FLOATS>("Atan2")
      .Binary<NextAfterOp, float, double>("NextAfter")
      .Binary<XdivyOp, FORMWORK_FLOATS, FORMWORK_COMPLEXES>("Xdivy")
      .Binary<XlogyOp, FORMWORK_FLOATS>("Xlogy")
      .Binary<ComplexXlogyOp, FORMWORK_COMPLEXES>("Xlogy")
      .Binary<Xlog1pyOp, FORMWORK_FLOATS>("Xlog1py")
      .Binary<ComplexXlog1pyOp, FORMWORK_COMPLEXES>("Xlog1py")
      .Binary<LeakyReluOp, FORMWORK_FLOATS>("LeakyRelu")
      .Ternary<LeakyReluGradOp, FORMWORK_FLOATS>("LeakyReluGrad")
      .Unary<LgammaOp, FORMWORK_FLOATS>("Lgamma")
      .Unary<DigammaOp, FORMWORK_FLOATS>("Digamma");
  AddAngle<FastSinOp, SinOp, float, half, bfloat16>(t, "Sin");
  AddAngle<FastCosOp, CosOp, float, half, bfloat16>(t, "Cos");
  AddAngle<FastTanOp, TanOp, float, half, bfloat16>(t, "Tan");
  return t;
}

}  // namespace
}  // namespace elementwise

absl::Span<const NamedBlockOp> FunctionBlocks() {
  static const auto* const table = new elementwise::Table(elementwise::Make());
  return table->rows();
}

}  // namespace formwork
