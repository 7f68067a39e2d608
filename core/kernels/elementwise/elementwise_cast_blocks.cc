#include "core/kernels/elementwise/elementwise_table.h"

namespace formwork {
namespace elementwise {
namespace {

// Float to integer out of range gives what x86's conversion gives, as TensorFlow's kernels do: the
// smallest value, then cut to width.
template <typename From, typename To>
FORMWORK_ISA_INLINE To Convert(From a) {
  if constexpr (math::kIsComplex<From>) {
    if constexpr (math::kIsComplex<To>) {
      return To(a.real(), a.imag());
    } else {
      return Convert<typename From::value_type, To>(a.real());
    }
  } else if constexpr (math::kIsComplex<To>) {
    return To(static_cast<typename To::value_type>(a));
  } else if constexpr (std::is_same_v<To, bool>) {
    return a != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if constexpr (sizeof(To) <= 4 && std::is_signed_v<To>) {
      const bool fits = a > From(-2147483649.0) && a < From(2147483648.0);
      return static_cast<To>(fits ? static_cast<int32_t>(a) : std::numeric_limits<int32_t>::min());
    } else if constexpr (sizeof(To) == 8 && std::is_unsigned_v<To>) {
      const bool fits = a > From(-1) && a < From(18446744073709551616.0);
      if (fits) return static_cast<To>(a);
      const bool negative = a >= From(-9223372036854775808.0) && a < From(0);
      return static_cast<To>(negative ? static_cast<int64_t>(a)
                                      : std::numeric_limits<int64_t>::min());
    } else {
      const bool fits = a >= From(-9223372036854775808.0) && a < From(9223372036854775808.0);
      return static_cast<To>(fits ? static_cast<int64_t>(a) : std::numeric_limits<int64_t>::min());
    }
  } else {
    return static_cast<To>(a);
  }
}

template <typename From, typename To>
struct CastLoop {
  static constexpr uint8_t kArity = 1;
  FORMWORK_ISA_INLINE static void Run(const void* const* in, void* out, int64_t n) {
    const From* a = static_cast<const From*>(in[0]);
    To* o = static_cast<To*>(out);
    using C = Compute<From>;
    using R = Compute<To>;
    for (int64_t i = 0; i < n; ++i) {
      o[i] = static_cast<To>(Convert<C, R>(static_cast<C>(a[i])));
    }
  }
};

template <typename From, typename... Tos>
void AddFrom(Table& t) {
  (t.Add<CastLoop<From, Tos>, From, Tos>("Cast"), ...);
}
template <typename... Froms>
void AddAll(Table& t) {
  (AddFrom<Froms, FORMWORK_FLOATS, FORMWORK_INTS, FORMWORK_COMPLEXES, bool>(t), ...);
}

Table Make() {
  Table t;
  AddAll<FORMWORK_FLOATS, FORMWORK_INTS, FORMWORK_COMPLEXES, bool>(t);
  return t;
}

}  // namespace
}  // namespace elementwise

absl::Span<const NamedBlockOp> CastBlocks() {
  static const auto* const table = new elementwise::Table(elementwise::Make());
  return table->rows();
}

}  // namespace formwork
