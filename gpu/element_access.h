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
template <typename T, int kWidth>
struct alignas(sizeof(T) * kWidth) Several {
  T of[kWidth];
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

template <typename T>
FORMWORK_ELEMENT T Widen(T x) {
  return x;
}

}  // namespace formwork_element
