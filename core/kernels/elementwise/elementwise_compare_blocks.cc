#include <utility>

#include "core/kernels/elementwise/elementwise_table.h"

namespace formwork {
namespace elementwise {
namespace {

FORMWORK_BINARY_OP(LessOp, a < b);
FORMWORK_BINARY_OP(LessEqualOp, a <= b);
FORMWORK_BINARY_OP(GreaterOp, a > b);
FORMWORK_BINARY_OP(GreaterEqualOp, a >= b);
FORMWORK_BINARY_OP(EqualOp, a == b);
FORMWORK_BINARY_OP(NotEqualOp, a != b);
FORMWORK_BINARY_OP(AndOp, static_cast<bool>(a& b));
FORMWORK_BINARY_OP(OrOp, static_cast<bool>(a | b));
FORMWORK_UNARY_OP(NotOp, !a);
FORMWORK_UNARY_OP(IsFiniteOp, (a - a) == U(0));
FORMWORK_UNARY_OP(IsNanOp, a != a);
FORMWORK_UNARY_OP(IsInfOp, a == a && (a - a) != U(0));

// By width: a select moves bits and never looks at them. A branch for each element would be
// foreseen wrongly half of the time: 30 times as long as this.
template <typename T, int kWords = 1>
struct SelectLoop {
  using Bits __attribute__((may_alias)) = T;
  FORMWORK_ISA_INLINE static void Run(const void* const* in, void* out, int64_t n) {
    const auto* c = static_cast<const uint8_t*>(in[0]);
    const auto* a = static_cast<const Bits*>(in[1]);
    const auto* b = static_cast<const Bits*>(in[2]);
    auto* o = static_cast<Bits*>(out);
    for (int64_t i = 0; i < n; ++i) {
      const auto chosen = static_cast<T>(-static_cast<T>(c[i] != 0));
      for (int w = 0; w < kWords; ++w) {
        const T x = a[i * kWords + w], y = b[i * kWords + w];
        o[i * kWords + w] = static_cast<T>(y ^ ((x ^ y) & chosen));
      }
    }
  }
};

BlockFn SelectOfWidth(size_t width) {
  switch (width) {
    case 1:
      return ForThisMachine<SelectLoop<uint8_t>, uint8_t, uint8_t>();
    case 2:
      return ForThisMachine<SelectLoop<uint16_t>, uint16_t, uint16_t>();
    case 4:
      return ForThisMachine<SelectLoop<uint32_t>, float, float>();
    case 8:
      return ForThisMachine<SelectLoop<uint64_t>, double, double>();
    default:
      return ForThisMachine<SelectLoop<uint64_t, 2>, double, double>();
  }
}

Table MakeCompare() {
  Table t;
  t.Compare<LessOp, FORMWORK_FLOATS, FORMWORK_INTS>("Less")
      .Compare<LessEqualOp, FORMWORK_FLOATS, FORMWORK_INTS>("LessEqual")
      .Compare<GreaterOp, FORMWORK_FLOATS, FORMWORK_INTS>("Greater")
      .Compare<GreaterEqualOp, FORMWORK_FLOATS, FORMWORK_INTS>("GreaterEqual")
      .Compare<EqualOp, FORMWORK_FLOATS, FORMWORK_INTS, FORMWORK_COMPLEXES, bool>("Equal")
      .Compare<NotEqualOp, FORMWORK_FLOATS, FORMWORK_INTS, FORMWORK_COMPLEXES, bool>("NotEqual")
      .Compare<AndOp, bool>("LogicalAnd")
      .Compare<OrOp, bool>("LogicalOr")
      .UnaryTo<NotOp, bool, bool>("LogicalNot")
      .UnaryTo<IsFiniteOp, bool, FORMWORK_FLOATS>("IsFinite")
      .UnaryTo<IsNanOp, bool, FORMWORK_FLOATS>("IsNan")
      .UnaryTo<IsInfOp, bool, FORMWORK_FLOATS>("IsInf");
  return t;
}

std::vector<NamedBlockOp> Make() {
  static const auto* const compare = new Table(MakeCompare());
  std::vector<NamedBlockOp> rows(compare->rows().begin(), compare->rows().end());
  // Quantized values are equal where the integers that they are stored as are.
  constexpr std::pair<DType, DType> kStoredAs[] = {{DType::kQint8, DType::kInt8},
                                                   {DType::kQuint8, DType::kUint8},
                                                   {DType::kQint16, DType::kInt16},
                                                   {DType::kQuint16, DType::kUint16},
                                                   {DType::kQint32, DType::kInt32}};
  for (const NamedBlockOp& row : compare->rows()) {
    if (row.name != "Equal" && row.name != "NotEqual") continue;
    for (const auto& [quantized, stored] : kStoredAs) {
      if (row.op.in != stored) continue;
      rows.push_back(row);
      rows.back().op.in = quantized;
    }
  }
  for (int i = 1; i < 64; ++i) {
    const DType dtype = static_cast<DType>(i);
    if (!IsKnown(dtype) || !IsPlainData(dtype)) continue;
    for (absl::string_view name : {"SelectV2", "Select"}) {
      rows.push_back({name, {SelectOfWidth(DTypeSize(dtype)), 3, dtype, dtype, Refusal::kNone}});
    }
  }
  return rows;
}

}  // namespace
}  // namespace elementwise

absl::Span<const NamedBlockOp> CompareBlocks() {
  static const auto* const rows = new std::vector<NamedBlockOp>(elementwise::Make());
  return *rows;
}

}  // namespace formwork
