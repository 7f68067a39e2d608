// How elements are read and written: T that computes, and what is in memory. Behind the text of
// element_functions.h.
#ifdef __CUDACC_RTC__
FORMWORK_ELEMENT float Widen(half x) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
  return wide;
}
FORMWORK_ELEMENT float Widen(bfloat16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}
template <typename To>
struct Narrow {
  template <typename T>
  static FORMWORK_ELEMENT To Of(T x) {
    return static_cast<To>(x);
  }
};
template <>
struct Narrow<half> {
  static FORMWORK_ELEMENT half Of(float x) {
    half narrow;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(x));
    return narrow;
  }
};
template <>
struct Narrow<bfloat16> {
  static FORMWORK_ELEMENT bfloat16 Of(float x) {
    bfloat16 narrow;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(x));
    return narrow;
  }
};
#else
#pragma once
#include "core/tensor/small_float.h"
#include "gpu/element_functions.h"

namespace formwork_element {

using formwork::half, formwork::bfloat16;
FORMWORK_ELEMENT float Widen(half x) { return static_cast<float>(x); }
FORMWORK_ELEMENT float Widen(bfloat16 x) { return static_cast<float>(x); }
template <typename To>
struct Narrow {
  template <typename T>
  static FORMWORK_ELEMENT To Of(T x) {
    return static_cast<To>(x);
  }
};

}  // namespace formwork_element
#endif

namespace formwork_element {

// After so many additions in float a sum goes on in double.
constexpr int64_t kFloatRun = 64;

template <typename T>
FORMWORK_ELEMENT T Widen(T x) {
  return x;
}

// A sum of what is in memory, rounded as that is.
template <typename E>
FORMWORK_ELEMENT E AddRounded(E a, E b) {
  return Narrow<E>::Of(Add(Widen(a), Widen(b)));
}

// So many elements that lie together are read and written at once.
template <typename E, int kWidth>
struct alignas(sizeof(E) * kWidth) Several {
  E of[kWidth];
};
// `several`: the next ones; else the same element for all. Null: nobody needs them.
template <int kWidth, typename E>
FORMWORK_ELEMENT Several<E, kWidth> Load(const E* from, bool several) {
  if (several) return *reinterpret_cast<const Several<E, kWidth>*>(from);
  const E one = from == nullptr ? E() : *from;
  Several<E, kWidth> all;
  for (int k = 0; k < kWidth; ++k) all.of[k] = one;
  return all;
}

// A number that an integer cannot hold becomes what x86's conversions make of it, as on the CPU:
// the lowest one of 32 bits or 64, cut to size.
template <typename To, typename From>
FORMWORK_ELEMENT To ConvertTo(From x) {
  constexpr int64_t kLowest = -9223372036854775807ll - 1;
  constexpr bool kSigned = static_cast<To>(-1) < To(0);
  if constexpr (IsFloat<To>::value || !IsFloat<From>::value) {
    return static_cast<To>(x);
  } else if constexpr (sizeof(To) <= 4 && kSigned) {
    const bool fits = x > From(-2147483649.0) && x < From(2147483648.0);
    return static_cast<To>(fits ? static_cast<int32_t>(x) : static_cast<int32_t>(kLowest >> 32));
  } else {
    if constexpr (sizeof(To) == 8 && !kSigned) {
      if (x > From(-1) && x < From(18446744073709551616.0)) return static_cast<To>(x);
    }
    const bool fits = x >= From(-9223372036854775808.0) && x < From(9223372036854775808.0);
    return static_cast<To>(fits ? static_cast<int64_t>(x) : kLowest);
  }
}
template <typename T>
struct IsBool {
  static constexpr bool value = false;
};
template <>
struct IsBool<bool> {
  static constexpr bool value = true;
};

// Cast.
template <typename To, typename From>
FORMWORK_ELEMENT To CastTo(From from) {
  typedef decltype(Widen(To())) C;
  const auto x = Widen(from);
  if constexpr (IsBool<To>::value) {
    return x != decltype(x)(0);
  } else {
    return Narrow<To>::Of(ConvertTo<C>(x));
  }
}

}  // namespace formwork_element
