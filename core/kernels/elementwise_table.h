#pragma once

// How the table's entries are written: an expression per op, a list of dtypes per entry. Included
// by the elementwise_*_blocks.cc files alone.

#include <vector>

#include "core/kernels/elementwise_blocks.h"
#include "core/kernels/elementwise_math.h"

namespace formwork::elementwise {

// The type that computes for a storage type.
template <typename T>
struct ComputeOf {
  using type = T;
};
template <>
struct ComputeOf<half> {
  using type = float;
};
template <>
struct ComputeOf<bfloat16> {
  using type = float;
};
template <typename T>
using Compute = typename ComputeOf<T>::type;

template <typename F, typename In, typename Out>
struct UnaryLoop {
  FORMWORK_ISA_INLINE static void Run(const void* const* in, void* out, int64_t n) {
    const In* a = static_cast<const In*>(in[0]);
    Out* o = static_cast<Out*>(out);
    for (int64_t i = 0; i < n; ++i) o[i] = static_cast<Out>(F::f(static_cast<Compute<In>>(a[i])));
  }
};
template <typename F, typename In, typename Out>
struct BinaryLoop {
  FORMWORK_ISA_INLINE static void Run(const void* const* in, void* out, int64_t n) {
    const In* a = static_cast<const In*>(in[0]);
    const In* b = static_cast<const In*>(in[1]);
    Out* o = static_cast<Out*>(out);
    using C = Compute<In>;
    for (int64_t i = 0; i < n; ++i) {
      o[i] = static_cast<Out>(F::f(static_cast<C>(a[i]), static_cast<C>(b[i])));
    }
  }
};
template <typename F, typename In, typename Out>
struct LeftScalarLoop {
  FORMWORK_ISA_INLINE static void Run(const void* const* in, void* out, int64_t n) {
    const Compute<In> a = static_cast<Compute<In>>(*static_cast<const In*>(in[0]));
    const In* b = static_cast<const In*>(in[1]);
    Out* o = static_cast<Out*>(out);
    for (int64_t i = 0; i < n; ++i) {
      o[i] = static_cast<Out>(F::f(a, static_cast<Compute<In>>(b[i])));
    }
  }
};
template <typename F, typename In, typename Out>
struct RightScalarLoop {
  FORMWORK_ISA_INLINE static void Run(const void* const* in, void* out, int64_t n) {
    const In* a = static_cast<const In*>(in[0]);
    const Compute<In> b = static_cast<Compute<In>>(*static_cast<const In*>(in[1]));
    Out* o = static_cast<Out*>(out);
    for (int64_t i = 0; i < n; ++i) {
      o[i] = static_cast<Out>(F::f(static_cast<Compute<In>>(a[i]), b));
    }
  }
};
template <typename F, typename In, typename Out>
struct TernaryLoop {
  FORMWORK_ISA_INLINE static void Run(const void* const* in, void* out, int64_t n) {
    const In* a = static_cast<const In*>(in[0]);
    const In* b = static_cast<const In*>(in[1]);
    const In* c = static_cast<const In*>(in[2]);
    Out* o = static_cast<Out*>(out);
    using C = Compute<In>;
    for (int64_t i = 0; i < n; ++i) {
      o[i] =
          static_cast<Out>(F::f(static_cast<C>(a[i]), static_cast<C>(b[i]), static_cast<C>(c[i])));
    }
  }
};

// The loop for this machine. Half and complex types and narrow integers gain nothing from wider
// vectors here, and each copy costs code: they have the baseline's alone.
template <typename Loop, typename In>
BlockFn ForThisMachine() {
  constexpr bool kWide = std::is_same_v<In, float> || std::is_same_v<In, double> ||
                         std::is_same_v<In, int32_t> || std::is_same_v<In, bfloat16> ||
                         std::is_same_v<In, half>;
  if constexpr (kWide) {
    if (HostIsa() == Isa::kAvx512) {
      return &isa_internal::RunAvx512<Loop, const void* const*, void*, int64_t>;
    }
    if (HostIsa() == Isa::kAvx2) {
      return &isa_internal::RunAvx2<Loop, const void* const*, void*, int64_t>;
    }
  }
  return &isa_internal::RunBaseline<Loop, const void* const*, void*, int64_t>;
}

class Table {
 public:
  template <typename F, typename... Ts>
  Table& Unary(absl::string_view name) {
    (Add<UnaryLoop<F, Ts, Ts>, Ts, Ts>(name, 1), ...);
    return *this;
  }
  template <typename F, typename Out, typename... Ts>
  Table& UnaryTo(absl::string_view name) {
    (Add<UnaryLoop<F, Ts, Out>, Ts, Out>(name, 1), ...);
    return *this;
  }
  template <typename F, typename... Ts>
  Table& Binary(absl::string_view name, Refusal refuses = Refusal::kNone) {
    (AddBinary<F, Ts, Ts>(name, refuses), ...);
    return *this;
  }
  template <typename F, typename... Ts>
  Table& Compare(absl::string_view name) {
    (AddBinary<F, Ts, bool>(name, Refusal::kNone), ...);
    return *this;
  }
  template <typename F, typename... Ts>
  Table& Ternary(absl::string_view name) {
    (Add<TernaryLoop<F, Ts, Ts>, Ts, Ts>(name, 3), ...);
    return *this;
  }
  template <typename Loop, typename In, typename Out>
  void Add(absl::string_view name, uint8_t arity, Refusal refuses = Refusal::kNone) {
    const DType in = DTypeOf<In>::value, out = DTypeOf<Out>::value;
    const TileOp tile = in == out ? FindTileOp(name, out) : TileOp::kNone;
    rows_.push_back({name, {ForThisMachine<Loop, In>(), arity, in, out, refuses, tile}});
  }
  absl::Span<const NamedBlockOp> rows() const { return rows_; }

 private:
  template <typename F, typename In, typename Out>
  void AddBinary(absl::string_view name, Refusal refuses) {
    Add<BinaryLoop<F, In, Out>, In, Out>(name, 2, refuses);
    // For the types that most is computed in; each copy costs code.
    if constexpr (std::is_same_v<In, float> || std::is_same_v<In, double>) {
      rows_.back().op.left_scalar = ForThisMachine<LeftScalarLoop<F, In, Out>, In>();
      rows_.back().op.right_scalar = ForThisMachine<RightScalarLoop<F, In, Out>, In>();
    }
  }

  std::vector<NamedBlockOp> rows_;
};

#define FORMWORK_UNARY_OP(Name, ...)         \
  struct Name {                              \
    template <typename U>                    \
    FORMWORK_ISA_INLINE static auto f(U a) { \
      return __VA_ARGS__;                    \
    }                                        \
  }
#define FORMWORK_BINARY_OP(Name, ...)             \
  struct Name {                                   \
    template <typename U>                         \
    FORMWORK_ISA_INLINE static auto f(U a, U b) { \
      return __VA_ARGS__;                         \
    }                                             \
  }

#define FORMWORK_FLOATS float, double, half, bfloat16
#define FORMWORK_INTS int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
#define FORMWORK_COMPLEXES std::complex<float>, std::complex<double>

}  // namespace formwork::elementwise
