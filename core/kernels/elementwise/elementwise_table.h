#pragma once

// How the table's entries are written: an expression per op, a list of dtypes per entry. Included
// by the elementwise_*_blocks.cc files alone.

#include <vector>

#include "core/kernels/elementwise/elementwise_blocks.h"
#include "core/kernels/elementwise/elementwise_math.h"
#include "core/kernels/widen.h"

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
  static constexpr uint8_t kArity = 1;
  FORMWORK_ISA_INLINE static void Run(const void* const* in, void* out, int64_t n) {
    const In* a = static_cast<const In*>(in[0]);
    Out* o = static_cast<Out*>(out);
    for (int64_t i = 0; i < n; ++i) o[i] = static_cast<Out>(F::f(static_cast<Compute<In>>(a[i])));
  }
};
template <typename F, typename In, typename Out>
struct BinaryLoop {
  static constexpr uint8_t kArity = 2;
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
  static constexpr uint8_t kArity = 3;
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

// A loop over half or bfloat16, as one over float; other loops as they are.
template <typename Loop>
struct OverFloat {
  using type = Loop;
};
template <template <typename, typename, typename> typename Loop, typename F, typename In,
          typename Out>
struct OverFloat<Loop<F, In, Out>> {
  using type = Loop<F, Compute<In>, Compute<Out>>;
};
template <template <typename, typename> typename Loop, typename In, typename Out>
struct OverFloat<Loop<In, Out>> {
  using type = Loop<Compute<In>, Compute<Out>>;
};

// The loop over float, some elements at a time, for one over half or bfloat16: conversions take the
// machine's instructions, and each function is compiled once.
template <typename Loop, BlockFn kFloatLoop, typename In, typename Out>
void RunInFloat(const void* const* in, void* out, int64_t n) {
  constexpr int64_t kRun = 768;
  alignas(64) Compute<In> operands[Loop::kArity][kRun];
  alignas(64) Compute<Out> results[kRun];
  for (int64_t begin = 0; begin < n; begin += kRun) {
    const int64_t count = n - begin < kRun ? n - begin : kRun;
    const void* runs[Loop::kArity];
    for (int k = 0; k < Loop::kArity; ++k) {
      const In* const run = static_cast<const In*>(in[k]) + begin;
      if constexpr (std::is_same_v<In, Compute<In>>) {
        runs[k] = run;
      } else {
        WidenRun(run, count, operands[k]);
        runs[k] = operands[k];
      }
    }
    Out* const result = static_cast<Out*>(out) + begin;
    if constexpr (std::is_same_v<Out, Compute<Out>>) {
      kFloatLoop(runs, result, count);
    } else {
      kFloatLoop(runs, results, count);
      NarrowRun(results, count, result);
    }
  }
}

// The loop for this machine. Complex types and narrow integers gain nothing from wider vectors
// here, and each copy costs code: they have the baseline's alone.
template <typename Loop, typename In, typename Out>
BlockFn ForThisMachine() {
  using Wide = typename OverFloat<Loop>::type;
  constexpr bool kInFloat = !std::is_same_v<Wide, Loop>;
  constexpr bool kVectors = std::is_same_v<Compute<In>, float> || std::is_same_v<In, double> ||
                            std::is_same_v<In, int32_t>;
  if constexpr (kVectors) {
    if (HostIsa() == Isa::kAvx512) {
      constexpr BlockFn kFn = &isa_internal::RunAvx512<Wide, const void* const*, void*, int64_t>;
      if constexpr (kInFloat) return &RunInFloat<Loop, kFn, In, Out>;
      return kFn;
    }
    if (HostIsa() == Isa::kAvx2) {
      constexpr BlockFn kFn = &isa_internal::RunAvx2<Wide, const void* const*, void*, int64_t>;
      if constexpr (kInFloat) return &RunInFloat<Loop, kFn, In, Out>;
      return kFn;
    }
  }
  constexpr BlockFn kFn = &isa_internal::RunBaseline<Wide, const void* const*, void*, int64_t>;
  if constexpr (kInFloat) return &RunInFloat<Loop, kFn, In, Out>;
  return kFn;
}

class Table {
 public:
  template <typename F, typename... Ts>
  Table& Unary(absl::string_view name) {
    (Add<UnaryLoop<F, Ts, Ts>, Ts, Ts>(name), ...);
    return *this;
  }
  template <typename F, typename Out, typename... Ts>
  Table& UnaryTo(absl::string_view name) {
    (Add<UnaryLoop<F, Ts, Out>, Ts, Out>(name), ...);
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
    (Add<TernaryLoop<F, Ts, Ts>, Ts, Ts>(name), ...);
    return *this;
  }
  template <typename Loop, typename In, typename Out>
  void Add(absl::string_view name, Refusal refuses = Refusal::kNone) {
    const DType in = DTypeOf<In>::value, out = DTypeOf<Out>::value;
    const TileOp tile = in == out ? FindTileOp(name, out) : TileOp::kNone;
    rows_.push_back(
        {name, {ForThisMachine<Loop, In, Out>(), Loop::kArity, in, out, refuses, tile}});
  }
  /// For what has been added, of one dtype.
  void SetRightScalar(absl::string_view name, DType dtype, BlockFn loop) {
    for (NamedBlockOp& row : rows_) {
      if (row.name == name && row.op.in == dtype) row.op.right_scalar = loop;
    }
  }
  absl::Span<const NamedBlockOp> rows() const { return rows_; }

 private:
  template <typename F, typename In, typename Out>
  void AddBinary(absl::string_view name, Refusal refuses) {
    Add<BinaryLoop<F, In, Out>, In, Out>(name, refuses);
    // For the types that most is computed in; each copy costs code.
    if constexpr (std::is_same_v<In, float> || std::is_same_v<In, double>) {
      rows_.back().op.left_scalar = ForThisMachine<LeftScalarLoop<F, In, Out>, In, Out>();
      rows_.back().op.right_scalar = ForThisMachine<RightScalarLoop<F, In, Out>, In, Out>();
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
