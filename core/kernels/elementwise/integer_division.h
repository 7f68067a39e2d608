#pragma once

// Division of many integers by one: a multiplication and a shift for each (Granlund and Montgomery,
// "Division by Invariant Integers using Multiplication", 1994).

#include <bit>
#include <cstdint>
#include <type_traits>

#include "core/kernels/arithmetic.h"
#include "core/kernels/isa.h"

namespace formwork::elementwise {

/// Quotients by a positive divisor, rounded down. T: int32_t or int64_t.
template <typename T>
class FloorDivisor {
  using U = std::make_unsigned_t<T>;
  using Wide = std::conditional_t<sizeof(T) == 4, uint64_t, unsigned __int128>;
  // Of a number that is not negative.
  static constexpr int kBits = 8 * sizeof(T) - 1;

 public:
  // 2^(shift - 1) < divisor <= 2^shift, and the factor is the least integer above
  // 2^(kBits + shift) / divisor: it fits in U, and is too large by so little that quotients of
  // kBits bits are exact.
  FORMWORK_ISA_INLINE explicit FloorDivisor(T divisor)
      : shift_(std::bit_width(static_cast<U>(divisor - 1))),
        factor_(static_cast<U>((Wide{1} << (kBits + shift_)) / static_cast<U>(divisor) + 1)) {}

  // Of x < 0 the quotient is -1 - q of -1 - x, which is ~q of ~x.
  FORMWORK_ISA_INLINE T Of(T x) const {
    const T sign = x >> kBits;
    const auto magnitude = static_cast<U>(x ^ sign);
    const auto q = static_cast<U>((static_cast<Wide>(factor_) * magnitude) >> (kBits + shift_));
    return static_cast<T>(q) ^ sign;
  }

 private:
  const int shift_;
  const U factor_;
};

/// As RightScalarLoop (elementwise_table.h): of the op F, which `kRemainder` says is FloorMod.
template <typename F, typename T, bool kRemainder>
struct DivideByOneLoop {
  FORMWORK_ISA_INLINE static void Run(const void* const* in, void* out, int64_t n) {
    const T* const a = static_cast<const T*>(in[0]);
    const T b = *static_cast<const T*>(in[1]);
    T* const o = static_cast<T*>(out);
    if (b <= 0) {  // Rare.
      for (int64_t i = 0; i < n; ++i) o[i] = F::f(a[i], b);
      return;
    }
    const FloorDivisor<T> divisor(b);
    for (int64_t i = 0; i < n; ++i) {
      const T q = divisor.Of(a[i]);
      o[i] = kRemainder ? math::Sub(a[i], math::Mul(q, b)) : q;
    }
  }
};

}  // namespace formwork::elementwise
