#include "core/kernels/elementwise/elementwise_table.h"

namespace formwork {
namespace elementwise {
namespace {

template <typename U>
FORMWORK_ISA_INLINE U ZeroWhereZero(U gradient, U result) {
  return gradient == U(0) ? U(0) : result;
}

// As TensorFlow orders the operands: TanhGrad(y, dy), ReluGrad(dy, x). It takes the conjugate for
// some complex gradients alone.
FORMWORK_BINARY_OP(TanhGradOp, (U(1) - a * a) * b);
FORMWORK_BINARY_OP(SigmoidGradOp, (U(1) - a) * a * b);
// Where no gradient comes none goes on, as in TensorFlow: not NaN where the result is infinite or
// 0.
FORMWORK_BINARY_OP(SqrtGradOp, ZeroWhereZero(b, U(0.5) * b / math::Conj(a)));
FORMWORK_BINARY_OP(RsqrtGradOp, ZeroWhereZero(b, U(-0.5) * b * math::Conj(a * a * a)));
FORMWORK_BINARY_OP(ReciprocalGradOp, ZeroWhereZero(b, -(math::Conj(a* a) * b)));
// By a product, as TensorFlow: a NaN or infinite gradient is not lost where the unit is off.
FORMWORK_BINARY_OP(ReluGradOp, math::Mul(a, U(b > U(0) ? U(1) : U(0))));
FORMWORK_BINARY_OP(Relu6GradOp, math::Mul(a, U(((b > U(0)) & (b < U(6))) ? U(1) : U(0))));
FORMWORK_BINARY_OP(EluGradOp, b < U(0) ? U(a * (b + U(1))) : a);
FORMWORK_BINARY_OP(SeluGradOp, b < U(0) ? U(a * (b + U(1.7580993408473768599402175208123)))
                                        : U(a * U(1.0507009873554804934193349852946)));
FORMWORK_BINARY_OP(SoftplusGradOp, a / (math::Exp(-b) + U(1)));
FORMWORK_BINARY_OP(SoftsignGradOp, a / ((U(1) + math::Abs(b)) * (U(1) + math::Abs(b))));

Table Make() {
  Table t;
  t.Binary<TanhGradOp, FORMWORK_FLOATS, FORMWORK_COMPLEXES>("TanhGrad")
      .Binary<SigmoidGradOp, FORMWORK_FLOATS, FORMWORK_COMPLEXES>("SigmoidGrad")
      .Binary<SqrtGradOp, FORMWORK_FLOATS, FORMWORK_COMPLEXES>("SqrtGrad")
      .Binary<RsqrtGradOp, FORMWORK_FLOATS, FORMWORK_COMPLEXES>("RsqrtGrad")
      .Binary<ReciprocalGradOp, FORMWORK_FLOATS, FORMWORK_COMPLEXES>("ReciprocalGrad")
      .Binary<ReciprocalGradOp, FORMWORK_FLOATS, FORMWORK_COMPLEXES>("InvGrad")
      .Binary<ReluGradOp, FORMWORK_FLOATS, FORMWORK_INTS>("ReluGrad")
      .Binary<Relu6GradOp, FORMWORK_FLOATS, FORMWORK_INTS>("Relu6Grad")
      .Binary<EluGradOp, FORMWORK_FLOATS>("EluGrad")
      .Binary<SeluGradOp, FORMWORK_FLOATS>("SeluGrad")
      .Binary<SoftplusGradOp, FORMWORK_FLOATS>("SoftplusGrad")
      .Binary<SoftsignGradOp, FORMWORK_FLOATS>("SoftsignGrad");
  return t;
}

}  // namespace
}  // namespace elementwise

absl::Span<const NamedBlockOp> GradientBlocks() {
  static const auto* const table = new elementwise::Table(elementwise::Make());
  return table->rows();
}

}  // namespace formwork
