#pragma once

// Sums, differences and products of elements as TensorFlow has them: integers wrap around, half and
// bfloat16 are computed in float and rounded once. The operators of C++ do neither: signed integers
// may not overflow, and two uint16 are promoted to int, which their product overflows.

#include <cstdint>
#include <type_traits>

#include "core/kernels/isa.h"
#include "core/tensor/small_float.h"

namespace formwork::math {

template <typename T>
constexpr bool kIsSmallFloat = std::is_same_v<T, half> || std::is_same_v<T, bfloat16>;

template <typename T>
FORMWORK_ISA_INLINE constexpr T Add(T a, T b) {
  if constexpr (kIsSmallFloat<T>) {
    return T(static_cast<float>(a) + static_cast<float>(b));
  } else if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return a + b;
  }
}
template <typename T>
FORMWORK_ISA_INLINE constexpr T Sub(T a, T b) {
  if constexpr (kIsSmallFloat<T>) {
    return T(static_cast<float>(a) - static_cast<float>(b));
  } else if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) - static_cast<U>(b)));
  } else {
    return a - b;
  }
}
template <typename T>
FORMWORK_ISA_INLINE constexpr T Mul(T a, T b) {
  if constexpr (kIsSmallFloat<T>) {
    return T(static_cast<float>(a) * static_cast<float>(b));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}

}  // namespace formwork::math
