// What kernels do for one element of a choice, a one-hot value, a band of matrices, a range or a
// sum of several values: compiled for GPUs at run time, from this text behind those of
// item_functions.h and element_access.h, and by the host's compiler for the op cases. E is any type
// of an element's size where nothing is computed.
#ifndef __CUDACC_RTC__
#pragma once
#include "gpu/element_access.h"
#include "gpu/item_functions.h"
#endif

namespace formwork_element {

constexpr int kMostChosenDims = 8;

// SelectV2 and Select.
template <typename E>
struct SelectItem {
  const bool* condition;
  const E* values[2];  // Where it is true, and where it is false.
  E* to;
  int32_t rank;
  uint64_t sizes[kMostChosenDims];  // Of the output, the last dimension first.
  // By how many elements the condition and the values go on there; 0 where they are repeated.
  uint64_t strides[3][kMostChosenDims];

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    uint64_t at[3] = {};
    uint64_t left = i;
    for (int d = 0; d < rank; ++d) {
      // The first dimension has what is left.
      const uint64_t rest = d + 1 < rank ? left / sizes[d] : 0;
      const uint64_t k = left - rest * sizes[d];
      left = rest;
      for (int operand = 0; operand < 3; ++operand) at[operand] += k * strides[operand][d];
    }
    to[i] = condition[at[0]] ? values[0][at[1]] : values[1][at[2]];
  }
};

// OneHot, of indices [prefix, suffix] as [prefix, depth, suffix].
template <typename E, typename Index>
struct OneHotItem {
  const Index* indices;
  const E* on;
  const E* off;
  E* to;
  uint64_t depth, suffix;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const uint64_t row = i / suffix, prefix = row / depth;
    const int64_t index = static_cast<int64_t>(indices[prefix * suffix + (i - row * suffix)]);
    to[i] = static_cast<uint64_t>(index) == row - prefix * depth ? *on : *off;
  }
};

// MatrixBandPart, of matrices [rows, cols]. A negative number of diagonals: all.
template <typename E>
struct BandItem {
  const E* from;
  E* to;
  uint64_t rows, cols;
  int64_t lower, upper;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const uint64_t line = i / cols;
    const int64_t above = static_cast<int64_t>(i - line * cols) - static_cast<int64_t>(line % rows);
    const bool kept = (lower < 0 || -above <= lower) && (upper < 0 || above <= upper);
    to[i] = kept ? from[i] : E();
  }
};

// A product that is rounded before anything is added to it.
template <typename T>
FORMWORK_ELEMENT T RoundedProduct(T a, T b) {
  return Mul(a, b);
}
#ifdef __CUDACC_RTC__
FORMWORK_ELEMENT float RoundedProduct(float a, float b) { return __fmul_rn(a, b); }
FORMWORK_ELEMENT double RoundedProduct(double a, double b) { return __dmul_rn(a, b); }
#endif

// Range. Numbers of 16 bits are rounded after each step, as is the index.
template <typename E>
struct RangeItem {
  E start, delta;
  E* to;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    typedef decltype(Widen(E())) C;
    const C index = Widen(Narrow<E>::Of(static_cast<C>(i)));
    const C product = Widen(Narrow<E>::Of(RoundedProduct(index, Widen(delta))));
    to[i] = Narrow<E>::Of(Add(Widen(start), product));
  }
};

constexpr int kMostTerms = 8;

// AddN, in order and rounded after each step.
template <typename E>
struct SumItem {
  const E* terms[kMostTerms];
  int32_t count;
  E* to;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    E sum = terms[0][i];
    for (int k = 1; k < count; ++k) sum = Narrow<E>::Of(Add(Widen(sum), Widen(terms[k][i])));
    to[i] = sum;
  }
};

}  // namespace formwork_element
