// What kernels do for a chunk of running sums and the like: compiled for GPUs at run time, from
// this text behind those of item_functions.h and element_access.h, and by the host's compiler for
// the op cases.
#ifndef __CUDACC_RTC__
#pragma once
#include "gpu/element_access.h"
#include "gpu/item_functions.h"
#endif

namespace formwork_element {

// Each step is rounded to E, as TensorFlow does.
struct ScanSum {
  template <typename E>
  static FORMWORK_ELEMENT E Of(E a, E b) {
    return AddRounded(a, b);
  }
};
struct ScanProduct {
  template <typename E>
  static FORMWORK_ELEMENT E Of(E a, E b) {
    return Narrow<E>::Of(Mul(Widen(a), Widen(b)));
  }
};
// log(exp(a) + exp(b)).
struct ScanLogSumExp {
  template <typename E>
  static FORMWORK_ELEMENT E Of(E a, E b) {
    const auto x = Widen(a), y = Widen(b);
    const auto less = y < x ? y : x, more = x < y ? y : x;
    return Narrow<E>::Of(isinf(less) && less < 0 ? more : more + log1p(exp(less - more)));
  }
};

// Of values [outer, length, inner], whose dimension in the middle falls into `chunks` chunks of
// `chunk` entries, counted from the end where `reverse`: an item is a chunk of one column, and goes
// through it in order. Nobody else sees its elements, so that `to` may be `from`.
template <typename E, typename Op>
struct ScanItem {
  const E* from;
  E* to;            // Null: only the totals are wanted.
  const E* before;  // [outer, chunks, inner]: what each chunk begins with. Null: `first`.
  E* totals;        // The same: what it comes to. Null: is not wanted.
  E first;
  uint64_t length, inner, chunk, chunks;
  bool exclusive, reverse;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const uint64_t row = i / inner, outer = row / chunks;
    const uint64_t begin = (row - outer * chunks) * chunk;
    const uint64_t end = length - begin < chunk ? length : begin + chunk;
    const uint64_t column = outer * length * inner + (i - row * inner);
    E running = before == nullptr ? first : before[i];
    for (uint64_t step = begin; step < end; ++step) {
      const uint64_t at = column + (reverse ? length - 1 - step : step) * inner;
      const E was = running;
      running = Op::Of(was, from[at]);
      if (to != nullptr) to[at] = exclusive ? was : running;
    }
    if (totals != nullptr) totals[i] = running;
  }
};

}  // namespace formwork_element
