// What elementwise ops compute of elements: compiled for GPUs at run time, from this text
// (element_source.h), and by the host's compiler for the op cases (tests/unit/element_ops_test.cc).
// So nothing is included for the GPU, whose compiler knows the functions of <cmath>. The semantics
// are TensorFlow's, as core/kernels/elementwise has them; half and bfloat16 are computed in float.
#ifdef __CUDACC_RTC__
#define FORMWORK_ELEMENT __device__ __forceinline__
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
struct half {
  uint16_t bits;
};
struct bfloat16 {
  uint16_t bits;
};
#else
#pragma once
#include <cmath>
#include <cstdint>

#define FORMWORK_ELEMENT inline
#endif

namespace formwork_element {

#ifndef __CUDACC_RTC__
using std::abs, std::fmod, std::trunc, std::floor, std::ceil, std::rint, std::sqrt, std::exp,
    std::expm1, std::log, std::log1p, std::sin, std::cos, std::tan, std::asin, std::acos, std::atan,
    std::sinh, std::cosh, std::tanh, std::asinh, std::acosh, std::atanh, std::erf, std::erfc,
    std::lgamma, std::pow, std::atan2, std::isnan, std::isinf, std::isfinite;
#endif

// 32 bits where they are enough: dividing by more takes several times as long.
FORMWORK_ELEMENT uint64_t DividedBy(uint64_t a, uint64_t b) {
  if (((a | b) >> 32) != 0) return a / b;
  return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
}

template <typename T>
struct UnsignedOf {
  typedef T type;
};
template <>
struct UnsignedOf<int8_t> {
  typedef uint8_t type;
};
template <>
struct UnsignedOf<int16_t> {
  typedef uint16_t type;
};
template <>
struct UnsignedOf<int32_t> {
  typedef uint32_t type;
};
template <>
struct UnsignedOf<int64_t> {
  typedef uint64_t type;
};
template <typename T>
struct IsFloat {
  static constexpr bool value = false;
};
template <>
struct IsFloat<float> {
  static constexpr bool value = true;
};
template <>
struct IsFloat<double> {
  static constexpr bool value = true;
};

// Integers wrap around; the operators of C++ may not.
template <typename T>
FORMWORK_ELEMENT T Add(T a, T b) {
  typedef typename UnsignedOf<T>::type U;
  return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
}
template <typename T>
FORMWORK_ELEMENT T Sub(T a, T b) {
  typedef typename UnsignedOf<T>::type U;
  return static_cast<T>(static_cast<U>(a) - static_cast<U>(b));
}
template <typename T>
FORMWORK_ELEMENT T Mul(T a, T b) {
  if constexpr (IsFloat<T>::value) {
    return a * b;
  } else {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
}

// NaN wins on either side; of equal operands the first.
template <typename T>
FORMWORK_ELEMENT T Max(T a, T b) {
  return b != b ? b : a < b ? b : a;
}
template <typename T>
FORMWORK_ELEMENT T Min(T a, T b) {
  return b != b ? b : b < a ? b : a;
}
// A NaN among the limits limits nothing; where they contradict each other the lower one holds.
template <typename T>
FORMWORK_ELEMENT T Clip(T a, T low, T high) {
  const T below = high < a ? high : a;
  return below < low ? low : below;
}
template <typename T>
FORMWORK_ELEMENT T Abs(T a) {
  if constexpr (IsFloat<T>::value) {
    return abs(a);
  } else {
    return a < T(0) ? Sub(T(0), a) : a;
  }
}
template <typename T>
FORMWORK_ELEMENT T Neg(T a) {
  if constexpr (IsFloat<T>::value) {
    return -a;  // Of 0 as well.
  } else {
    return Sub(T(0), a);
  }
}
template <typename T>
FORMWORK_ELEMENT T Sign(T a) {
  return a != a ? a : static_cast<T>((a > T(0)) - (a < T(0)));
}
// Of integers: toward 0; by 0 it is anything, and the kernel tells. The lowest one by -1 wraps.
template <typename T>
FORMWORK_ELEMENT T Div(T a, T b) {
  if constexpr (IsFloat<T>::value) {
    return a / b;
  } else {
    if (b == T(0)) return T(0);
    return b == static_cast<T>(-1) && T(-1) < T(0) ? Sub(T(0), a) : static_cast<T>(a / b);
  }
}
template <typename T>
FORMWORK_ELEMENT T TruncateDiv(T a, T b) {
  if constexpr (IsFloat<T>::value) {
    return trunc(a / b);
  } else {
    return Div(a, b);
  }
}
template <typename T>
FORMWORK_ELEMENT T TruncateMod(T a, T b) {
  if constexpr (IsFloat<T>::value) {
    return fmod(a, b);
  } else {
    return Sub(a, Mul(Div(a, b), b));
  }
}
template <typename T>
FORMWORK_ELEMENT T FloorMod(T a, T b) {
  const T r = TruncateMod(a, b);
  return r != T(0) && (r < T(0)) != (b < T(0)) ? Add(r, b) : r;
}
template <typename T>
FORMWORK_ELEMENT T FloorDiv(T a, T b) {
  if constexpr (IsFloat<T>::value) {
    return floor(a / b);
  } else {
    const T q = Div(a, b), r = TruncateMod(a, b);
    return r != T(0) && (r < T(0)) != (b < T(0)) ? Sub(q, T(1)) : q;
  }
}
template <typename T>
FORMWORK_ELEMENT T Sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}
template <typename T>
FORMWORK_ELEMENT T Softplus(T x) {
  return (x < T(0) ? T(0) : x) + log1p(exp(-abs(x)));
}
template <typename T>
FORMWORK_ELEMENT T Elu(T x) {
  return x < T(0) ? expm1(x) : x;
}
template <typename T>
FORMWORK_ELEMENT T Selu(T x) {
  constexpr double kScale = 1.0507009873554804934, kAlpha = 1.6732632423543772848;
  return x < T(0) ? T(kScale * kAlpha) * expm1(x) : T(kScale) * x;
}
template <typename T>
FORMWORK_ELEMENT T SeluGrad(T dy, T y) {
  constexpr double kScale = 1.0507009873554804934, kAlpha = 1.6732632423543772848;
  return y < T(0) ? dy * (y + T(kScale * kAlpha)) : dy * T(kScale);
}
// NaN stays: where it is compared, the value itself is what is left.
template <typename T>
FORMWORK_ELEMENT T Relu(T x) {
  return x < T(0) ? T(0) : x;
}
template <typename T>
FORMWORK_ELEMENT T Relu6(T x) {
  return x < T(0) ? T(0) : x > T(6) ? T(6) : x;
}

// Shifts by no or too many places: by the nearest that is neither.
template <typename T>
FORMWORK_ELEMENT T PlacesOf(T b) {
  return Clip(b, T(0), static_cast<T>(sizeof(T) * 8 - 1));
}
template <typename T>
FORMWORK_ELEMENT T LeftShift(T a, T b) {
  typedef typename UnsignedOf<T>::type U;
  return static_cast<T>(static_cast<U>(a) << PlacesOf(b));
}
template <typename T>
FORMWORK_ELEMENT T RightShift(T a, T b) {
  return static_cast<T>(a >> PlacesOf(b));
}

}  // namespace formwork_element
