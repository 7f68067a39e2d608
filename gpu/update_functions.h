// What is done to one element of variables: compiled for GPUs at run time, from this text behind
// those of item_functions.h, element_access.h and the optimizers' rules, and by the host's compiler
// for the op cases.
#ifndef __CUDACC_RTC__
#pragma once
#include "core/kernels/training/training_rules.h"
#include "gpu/element_access.h"
#include "gpu/item_functions.h"
#endif

namespace formwork_element {

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
