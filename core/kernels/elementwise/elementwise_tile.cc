#include "core/kernels/elementwise/elementwise_tile.h"

#include <cmath>

#include "core/kernels/elementwise/elementwise_operand.h"
#include "core/kernels/isa.h"

namespace formwork {
namespace {

// The table's expressions (elementwise_*_blocks.cc) on vectors: `?:` chooses element by element.
#define FORMWORK_TILE_OP(Name, ...)                                                      \
  struct Name {                                                                          \
    template <typename V>                                                                \
    FORMWORK_ISA_INLINE static void F(const V& x, [[maybe_unused]] const V& y, V& out) { \
      out = __VA_ARGS__;                                                                 \
    }                                                                                    \
  }
FORMWORK_TILE_OP(Add, x + y);
FORMWORK_TILE_OP(Sub, x - y);
FORMWORK_TILE_OP(Mul, x* y);
FORMWORK_TILE_OP(Div, x / y);
FORMWORK_TILE_OP(SquaredDifference, (x - y) * (x - y));
// Where y is no NaN: one instruction.
FORMWORK_TILE_OP(MaximumOfNumber, x < y ? y : x);
FORMWORK_TILE_OP(MinimumOfNumber, y < x ? y : x);
template <typename OfNumber>
struct OrNan {
  template <typename V>
  FORMWORK_ISA_INLINE static void F(const V& x, const V& y, V& out) {
    V limited;
    OfNumber::F(x, y, limited);
    out = y != y ? y : limited;
  }
};
using Maximum = OrNan<MaximumOfNumber>;
using Minimum = OrNan<MinimumOfNumber>;
// Unary ones have one operand twice.
FORMWORK_TILE_OP(Neg, -x);
FORMWORK_TILE_OP(Abs, x < -x ? -x : (x == V{} ? V{} : x));
FORMWORK_TILE_OP(Square, x* x);
FORMWORK_TILE_OP(Reciprocal, (V{} + 1) / x);
FORMWORK_TILE_OP(Relu, x < V{} ? V{} : x);
FORMWORK_TILE_OP(Relu6, x < V{} ? V{} : (x > V{} + 6 ? V{} + 6 : x));
#undef FORMWORK_TILE_OP

// A tile is kVectors vectors of kBytes bytes: as many as leave registers for an operand and for
// what an op computes on the way.
template <typename T, int kBytes, int kVectors>
struct TileLoop {
  typedef T Vector __attribute__((vector_size(kBytes)));
  typedef T Unaligned __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));
  static constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
  static constexpr int64_t kElements = int64_t{kVectors} * kLanes;
  static_assert(kBlockElements % kElements == 0 && kTileScalarBytes % kBytes == 0);
  struct Tile {
    Vector v[kVectors];
  };

  FORMWORK_ISA_INLINE static void Load(const T* b, Tile& a) {
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) {
      a.v[j] = *reinterpret_cast<const Unaligned*>(b + j * kLanes);
    }
  }
  FORMWORK_ISA_INLINE static void Fill(const T* b, Tile& a) {
    const Vector y = *reinterpret_cast<const Unaligned*>(b);
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) a.v[j] = y;
  }
  FORMWORK_ISA_INLINE static void Store(const Tile& a, T* b) {
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) *reinterpret_cast<Unaligned*>(b + j * kLanes) = a.v[j];
  }
  template <typename Op>
  FORMWORK_ISA_INLINE static void Unary(Tile& a) {
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) Op::F(a.v[j], a.v[j], a.v[j]);
  }
  // By way of memory: gcc makes a vector instruction of a loop over it, not of one over a vector's
  // elements.
  FORMWORK_ISA_INLINE static void Sqrt(Tile& a) {
    alignas(kBytes) T values[kElements];
    Store(a, values);
    for (T& value : values) value = std::sqrt(value);
    Load(values, a);
  }
  template <typename Op>
  FORMWORK_ISA_INLINE static void Block(const T* b, Tile& a) {
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) {
      const Vector y = *reinterpret_cast<const Unaligned*>(b + j * kLanes);
      Op::F(a.v[j], y, a.v[j]);
    }
  }
  template <typename Op>
  FORMWORK_ISA_INLINE static void BlockFirst(const T* b, Tile& a) {
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) {
      const Vector x = *reinterpret_cast<const Unaligned*>(b + j * kLanes);
      Op::F(x, a.v[j], a.v[j]);
    }
  }
  template <typename Op>
  FORMWORK_ISA_INLINE static void Scalar(const T* b, Tile& a) {
    const Vector y = *reinterpret_cast<const Unaligned*>(b);
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) Op::F(a.v[j], y, a.v[j]);
  }
  template <typename Op>
  FORMWORK_ISA_INLINE static void ScalarFirst(const T* b, Tile& a) {
    const Vector x = *reinterpret_cast<const Unaligned*>(b);
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) Op::F(x, a.v[j], a.v[j]);
  }
  template <typename OpOfNumber>
  FORMWORK_ISA_INLINE static void Limit(const T* b, Tile& a) {
    if (*b != *b) {
      Fill(b, a);
    } else {
      Scalar<OpOfNumber>(b, a);
    }
  }

#define FORMWORK_TILE_CASE(Form, Op, ...)          \
  case TileCode(TileForm::k##Form, TileOp::k##Op): \
    __VA_ARGS__;                                   \
    break
#define FORMWORK_TILE_ELEMENTS static_cast<T*>(step->data) + i
#define FORMWORK_TILE_SCALAR static_cast<const T*>(step->data)
#define FORMWORK_TILE_UNARY(Op) FORMWORK_TILE_CASE(Unary, Op, Unary<Op>(a))
#define FORMWORK_TILE_BINARY(Op)                                                 \
  FORMWORK_TILE_CASE(Block, Op, Block<Op>(FORMWORK_TILE_ELEMENTS, a));           \
  FORMWORK_TILE_CASE(BlockFirst, Op, BlockFirst<Op>(FORMWORK_TILE_ELEMENTS, a)); \
  FORMWORK_TILE_CASE(ScalarFirst, Op, ScalarFirst<Op>(FORMWORK_TILE_SCALAR, a))

  FORMWORK_ISA_INLINE static void Run(const TileStep* steps, int64_t n) {
    for (int64_t i = 0; i < n; i += kElements) {
      Tile a = {};
      bool more = true;
      for (const TileStep* step = steps; more; ++step) {
        switch (step->code) {
          FORMWORK_TILE_CASE(End, None, more = false);
          FORMWORK_TILE_CASE(Load, None, Load(FORMWORK_TILE_ELEMENTS, a));
          FORMWORK_TILE_CASE(LoadScalar, None, Fill(FORMWORK_TILE_SCALAR, a));
          FORMWORK_TILE_CASE(Store, None, Store(a, FORMWORK_TILE_ELEMENTS));
          FORMWORK_TILE_BINARY(Add);
          FORMWORK_TILE_BINARY(Sub);
          FORMWORK_TILE_BINARY(Mul);
          FORMWORK_TILE_BINARY(Div);
          FORMWORK_TILE_BINARY(Maximum);
          FORMWORK_TILE_BINARY(Minimum);
          FORMWORK_TILE_BINARY(SquaredDifference);
          FORMWORK_TILE_CASE(Scalar, Add, Scalar<Add>(FORMWORK_TILE_SCALAR, a));
          FORMWORK_TILE_CASE(Scalar, Sub, Scalar<Sub>(FORMWORK_TILE_SCALAR, a));
          FORMWORK_TILE_CASE(Scalar, Mul, Scalar<Mul>(FORMWORK_TILE_SCALAR, a));
          FORMWORK_TILE_CASE(Scalar, Div, Scalar<Div>(FORMWORK_TILE_SCALAR, a));
          FORMWORK_TILE_CASE(Scalar, SquaredDifference,
                             Scalar<SquaredDifference>(FORMWORK_TILE_SCALAR, a));
          FORMWORK_TILE_CASE(Scalar, Maximum, Limit<MaximumOfNumber>(FORMWORK_TILE_SCALAR, a));
          FORMWORK_TILE_CASE(Scalar, Minimum, Limit<MinimumOfNumber>(FORMWORK_TILE_SCALAR, a));
          FORMWORK_TILE_UNARY(Neg);
          FORMWORK_TILE_UNARY(Abs);
          FORMWORK_TILE_UNARY(Square);
          FORMWORK_TILE_UNARY(Reciprocal);
          FORMWORK_TILE_UNARY(Relu);
          FORMWORK_TILE_UNARY(Relu6);
          FORMWORK_TILE_CASE(Unary, Sqrt, Sqrt(a));
          FORMWORK_TILE_CASE(Unary, Rsqrt, Sqrt(a); Unary<Reciprocal>(a));
          default:
            __builtin_unreachable();
        }
      }
    }
  }
};
#undef FORMWORK_TILE_BINARY
#undef FORMWORK_TILE_UNARY
#undef FORMWORK_TILE_SCALAR
#undef FORMWORK_TILE_ELEMENTS
#undef FORMWORK_TILE_CASE

// AVX2's with AVX-512 too: gcc 12 takes comparisons of wider vectors apart, element by element, and
// 16 or 24 of 32 bytes were no faster than 12.
template <typename T>
TileFn ForThisMachine() {
  switch (HostIsa()) {
    case Isa::kAvx512:
    case Isa::kAvx2:
      return &isa_internal::RunAvx2<TileLoop<T, 32, 12>, const TileStep*, int64_t>;
    case Isa::kBaseline:
      break;
  }
  return &isa_internal::RunBaseline<TileLoop<T, 16, 12>, const TileStep*, int64_t>;
}

struct NamedTileOp {
  absl::string_view name;
  TileOp op;
};
constexpr NamedTileOp kTileOps[] = {
    {"AddV2", TileOp::kAdd},
    {"Add", TileOp::kAdd},
    {"Sub", TileOp::kSub},
    {"Mul", TileOp::kMul},
    {"RealDiv", TileOp::kDiv},
    {"Div", TileOp::kDiv},
    {"Maximum", TileOp::kMaximum},
    {"Minimum", TileOp::kMinimum},
    {"SquaredDifference", TileOp::kSquaredDifference},
    {"Neg", TileOp::kNeg},
    {"Abs", TileOp::kAbs},
    {"Square", TileOp::kSquare},
    {"Reciprocal", TileOp::kReciprocal},
    {"Sqrt", TileOp::kSqrt},
    {"Rsqrt", TileOp::kRsqrt},
    {"Relu", TileOp::kRelu},
    {"Relu6", TileOp::kRelu6},
};

}  // namespace

TileOp FindTileOp(absl::string_view name, DType dtype) {
  if (FindTileLoop(dtype) == nullptr) return TileOp::kNone;
  for (const NamedTileOp& row : kTileOps) {
    if (row.name == name) return row.op;
  }
  return TileOp::kNone;
}

TileFn FindTileLoop(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return ForThisMachine<float>();
    case DType::kDouble:
      return ForThisMachine<double>();
    default:
      return nullptr;
  }
}

}  // namespace formwork
