#include <bit>
#include <type_traits>

#include "core/kernels/elementwise/elementwise_table.h"
#include "core/kernels/elementwise/integer_division.h"

namespace formwork {
namespace elementwise {
namespace {

FORMWORK_BINARY_OP(AddOp, math::Add(a, b));
FORMWORK_BINARY_OP(SubOp, math::Sub(a, b));
FORMWORK_BINARY_OP(MulOp, math::Mul(a, b));
FORMWORK_BINARY_OP(DivOp, math::Div(a, b));
FORMWORK_BINARY_OP(DivNoNanOp, b == U(0) ? U(0) : U(a / b));
FORMWORK_BINARY_OP(MulNoNanOp, b == U(0) ? U(0) : U(a * b));
FORMWORK_BINARY_OP(MaximumOp, math::Max(a, b));
FORMWORK_BINARY_OP(MinimumOp, math::Min(a, b));
FORMWORK_BINARY_OP(SquaredDifferenceOp, math::Mul(math::Conj(math::Sub(a, b)), math::Sub(a, b)));
FORMWORK_BINARY_OP(FloorDivOp, math::FloorDiv(a, b));
FORMWORK_BINARY_OP(FloorModOp, math::FloorMod(a, b));
FORMWORK_BINARY_OP(TruncateDivOp, std::trunc(a / b));
FORMWORK_BINARY_OP(TruncateModOp, math::TruncateMod(a, b));
FORMWORK_BINARY_OP(LeftShiftOp, math::LeftShift(a, b));
FORMWORK_BINARY_OP(RightShiftOp, math::RightShift(a, b));
FORMWORK_BINARY_OP(PowOp, math::Pow(a, b));
FORMWORK_BINARY_OP(BitwiseAndOp, U(a& b));
FORMWORK_BINARY_OP(BitwiseOrOp, U(a | b));
FORMWORK_BINARY_OP(BitwiseXorOp, U(a ^ b));
FORMWORK_UNARY_OP(NegOp, math::Sub(U(0), a));
FORMWORK_UNARY_OP(NegFloatOp, -a);
FORMWORK_UNARY_OP(SquareOp, math::Mul(a, a));
FORMWORK_UNARY_OP(AbsOp, math::Abs(a));
FORMWORK_UNARY_OP(SignOp, math::Sign(a));
FORMWORK_UNARY_OP(InvertOp, U(~a));
FORMWORK_UNARY_OP(PopulationCountOp, std::popcount(std::make_unsigned_t<U>(a)));
FORMWORK_UNARY_OP(Copy, a);
FORMWORK_UNARY_OP(RealOp, a.real());
FORMWORK_UNARY_OP(ImagOp, a.imag());
FORMWORK_UNARY_OP(ConjOp, std::conj(a));
FORMWORK_UNARY_OP(ComplexAbsOp, std::abs(a));
FORMWORK_UNARY_OP(AngleOp, std::arg(a));
FORMWORK_BINARY_OP(ComplexOp, std::complex<U>(a, b));

// A NaN among the limits limits nothing; where they contradict each other the lower one holds. The
// parts of complex numbers are clipped each by itself.
struct ClipOp {
  template <typename U>
  FORMWORK_ISA_INLINE static U f(U a, U low, U high) {
    if constexpr (math::kIsComplex<U>) {
      return U(f(a.real(), low.real(), high.real()), f(a.imag(), low.imag(), high.imag()));
    } else {
      const U below = high < a ? high : a;
      return below < low ? low : below;
    }
  }
};

// From complex numbers to their parts and back.
template <typename C, typename Part>
void AddParts(Table& t) {
  t.Add<UnaryLoop<RealOp, C, Part>, C, Part>("Real");
  t.Add<UnaryLoop<ImagOp, C, Part>, C, Part>("Imag");
  t.Add<UnaryLoop<ComplexAbsOp, C, Part>, C, Part>("ComplexAbs");
  t.Add<UnaryLoop<AngleOp, C, Part>, C, Part>("Angle");
  t.Add<BinaryLoop<ComplexOp, Part, C>, Part, C>("Complex");
}

template <typename T>
void DivideByOne(Table& t) {
  t.SetRightScalar("FloorDiv", DTypeOf<T>::value,
                   ForThisMachine<DivideByOneLoop<FloorDivOp, T, false>, T, T>());
  t.SetRightScalar("FloorMod", DTypeOf<T>::value,
                   ForThisMachine<DivideByOneLoop<FloorModOp, T, true>, T, T>());
}

Table Make() {
  Table t;
  for (absl::string_view add : {"AddV2", "Add"}) {
    t.Binary<AddOp, FORMWORK_FLOATS, FORMWORK_INTS, FORMWORK_COMPLEXES>(add);
  }
  for (absl::string_view mod : {"TruncateMod", "Mod"}) {
    t.Binary<TruncateModOp, FORMWORK_FLOATS>(mod).Binary<TruncateModOp, FORMWORK_INTS>(
        mod, Refusal::kZero);
  }
  t.Binary<SubOp, FORMWORK_FLOATS, FORMWORK_INTS, FORMWORK_COMPLEXES>("Sub")
      .Binary<MulOp, FORMWORK_FLOATS, FORMWORK_INTS, FORMWORK_COMPLEXES>("Mul")
      .Binary<DivOp, FORMWORK_FLOATS, FORMWORK_COMPLEXES>("RealDiv")
      .Binary<DivOp, FORMWORK_INTS>("RealDiv", Refusal::kZero)
      .Binary<DivOp, FORMWORK_FLOATS, FORMWORK_COMPLEXES>("Div")
      .Binary<DivOp, FORMWORK_INTS>("Div", Refusal::kZero)
      .Binary<DivOp, FORMWORK_INTS>("TruncateDiv", Refusal::kZero)
      .Binary<TruncateDivOp, FORMWORK_FLOATS>("TruncateDiv")
      .Binary<LeftShiftOp, FORMWORK_INTS>("LeftShift")
      .Binary<RightShiftOp, FORMWORK_INTS>("RightShift")
      .Binary<DivNoNanOp, FORMWORK_FLOATS, FORMWORK_COMPLEXES>("DivNoNan")
      .Binary<MulNoNanOp, FORMWORK_FLOATS, FORMWORK_COMPLEXES>("MulNoNan")
      .Binary<MaximumOp, FORMWORK_FLOATS, FORMWORK_INTS>("Maximum")
      .Binary<MinimumOp, FORMWORK_FLOATS, FORMWORK_INTS>("Minimum")
      .Binary<SquaredDifferenceOp, FORMWORK_FLOATS, FORMWORK_INTS, FORMWORK_COMPLEXES>(
          "SquaredDifference")
      .Binary<FloorDivOp, FORMWORK_FLOATS>("FloorDiv")
      .Binary<FloorDivOp, FORMWORK_INTS>("FloorDiv", Refusal::kZero)
      .Binary<FloorModOp, FORMWORK_FLOATS>("FloorMod")
      .Binary<FloorModOp, FORMWORK_INTS>("FloorMod", Refusal::kZero)
      .Binary<PowOp, FORMWORK_FLOATS, FORMWORK_COMPLEXES>("Pow")
      .Binary<PowOp, int8_t, int16_t, int32_t, int64_t>("Pow", Refusal::kNegative)
      .Binary<PowOp, uint8_t, uint16_t, uint32_t, uint64_t>("Pow")
      .Binary<BitwiseAndOp, FORMWORK_INTS>("BitwiseAnd")
      .Binary<BitwiseOrOp, FORMWORK_INTS>("BitwiseOr")
      .Binary<BitwiseXorOp, FORMWORK_INTS>("BitwiseXor")
      .Unary<NegFloatOp, FORMWORK_FLOATS, FORMWORK_COMPLEXES>("Neg")
      .Unary<NegOp, FORMWORK_INTS>("Neg")
      .Unary<SquareOp, FORMWORK_FLOATS, FORMWORK_INTS, FORMWORK_COMPLEXES>("Square")
      .Unary<AbsOp, FORMWORK_FLOATS, FORMWORK_INTS>("Abs")
      .Unary<SignOp, FORMWORK_FLOATS, FORMWORK_INTS, FORMWORK_COMPLEXES>("Sign")
      .Unary<InvertOp, FORMWORK_INTS>("Invert")
      .UnaryTo<PopulationCountOp, uint8_t, FORMWORK_INTS>("PopulationCount")
      .Ternary<ClipOp, FORMWORK_FLOATS, FORMWORK_INTS, FORMWORK_COMPLEXES>("ClipByValue");
  t.Unary<Copy, int8_t, int16_t, int32_t, int64_t>("Round").Unary<ConjOp, FORMWORK_COMPLEXES>(
      "Conj");
  DivideByOne<int32_t>(t);
  DivideByOne<int64_t>(t);
  AddParts<std::complex<float>, float>(t);
  AddParts<std::complex<double>, double>(t);
  return t;
}

}  // namespace
}  // namespace elementwise

absl::Span<const NamedBlockOp> ArithmeticBlocks() {
  static const auto* const table = new elementwise::Table(elementwise::Make());
  return table->rows();
}

}  // namespace formwork
