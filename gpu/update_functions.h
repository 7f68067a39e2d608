// What is done to one element of variables, and how one becomes of another dtype: compiled for GPUs
// at run time, from this text behind those of item_functions.h, element_access.h and the
// optimizers' rules, and by the host's compiler for the op cases.
#ifndef __CUDACC_RTC__
#pragma once
#include "core/kernels/training/training_rules.h"
#include "gpu/element_access.h"
#include "gpu/item_functions.h"
#endif

namespace formwork_element {

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
template <typename In, typename Out>
struct CastItem {
  const In* from;
  Out* to;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    typedef decltype(Widen(Out())) C;
    const auto x = Widen(from[i]);
    if constexpr (IsBool<Out>::value) {
      to[i] = x != decltype(x)(0);
    } else {
      to[i] = Narrow<Out>::Of(ConvertTo<C>(x));
    }
  }
};

struct AddTo {
  template <typename T>
  static FORMWORK_ELEMENT T Of(T value, T by) {
    return Add(value, by);
  }
};
struct SubFrom {
  template <typename T>
  static FORMWORK_ELEMENT T Of(T value, T by) {
    return Sub(value, by);
  }
};

// AssignAdd and AssignSub.
template <typename E, typename Op>
struct UpdateItem {
  E* value;
  const E* by;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    value[i] = Narrow<E>::Of(Op::Of(Widen(value[i]), Widen(by[i])));
  }
};

constexpr int kMostOptimized = 4;  // Variables of one optimizer,
constexpr int kMostScalars = 6;    // and its scalars.

// Rule: of formwork::training, of the type that computes.
template <typename E, typename Rule>
struct OptimizerItem {
  E* variables[kMostOptimized];
  const E* scalars[kMostScalars];
  const E* grad;
  bool update_slots;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    typedef decltype(Widen(E())) C;
    C given[kMostScalars] = {};
    for (int k = 0; k < Rule::kScalars; ++k) given[k] = Widen(*scalars[k]);
    const Rule rule(given, formwork::training::Options{update_slots});
    C values[kMostOptimized] = {};
    for (int k = 0; k < Rule::kVariables; ++k) values[k] = Widen(variables[k][i]);
    rule(values[0], values[1], values[2], values[3], Widen(grad[i]));
    for (int k = 0; k < Rule::kVariables; ++k) variables[k][i] = Narrow<E>::Of(values[k]);
  }
};

}  // namespace formwork_element
