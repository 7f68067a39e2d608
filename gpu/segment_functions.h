// What kernels do for one element of segments that ids name, and of counts: compiled for GPUs at
// run time, from this text behind those of item_functions.h and element_access.h, and by the host's
// compiler for the op cases. What several threads add to one element they add in any order.
#ifndef __CUDACC_RTC__
#pragma once
#include "gpu/element_access.h"
#include "gpu/item_functions.h"
#endif

namespace formwork_element {

// What a segment makes of what it is and another element. Half precision is rounded each time.
struct SegmentSum {
  template <typename T>
  static FORMWORK_ELEMENT T Of(T a, T b) {
    return AddRounded(a, b);
  }
};
struct SegmentProd {
  template <typename T>
  static FORMWORK_ELEMENT T Of(T a, T b) {
    return Narrow<T>::Of(Mul(Widen(a), Widen(b)));
  }
};
// A NaN stays until the next number.
struct SegmentMax {
  template <typename T>
  static FORMWORK_ELEMENT T Of(T a, T b) {
    return Widen(a) > Widen(b) ? a : b;
  }
};
struct SegmentMin {
  template <typename T>
  static FORMWORK_ELEMENT T Of(T a, T b) {
    return Widen(a) < Widen(b) ? a : b;
  }
};

// An item is an element of data, [rows, width], or a row where that is empty, whose ids are checked
// all the same. Rows with ids below 0 are left out. `out`, [count, width], has the op's first value
// everywhere.
template <typename T, typename Index, typename Op>
struct SegmentItem {
  const T* data;
  const Index* ids;
  T* out;
  uint64_t width;  // 0: data is empty.
  int64_t count;
  MayFailItem may_fail;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const uint64_t row = width == 0 ? i : i / width;
    const int64_t id = static_cast<int64_t>(ids[row]);
    if (id < 0) return;
    if (id >= count) return Fail(may_fail, WhereOf(row, id));
    if (width == 0) return;
    const T element = data[i];
    Exchange(out + static_cast<uint64_t>(id) * width + (i - row * width),
             [element](T before) { return Op::Of(before, element); });
  }
};

// DenseBincount. An item is a value, of rows of `width`; `bins`, [rows, size], is zeros.
template <typename T, typename Index>
struct CountItem {
  const Index* values;
  const T* weights;  // Null: 1.
  T* bins;
  uint64_t width;
  int64_t size;
  bool binary;
  MayFailItem may_fail;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const int64_t value = static_cast<int64_t>(values[i]);
    if (value < 0) return Fail(may_fail, WhereOf(i, value));
    if (value >= size) return;
    T* const bin = bins + i / width * static_cast<uint64_t>(size) + static_cast<uint64_t>(value);
    if (binary) {
      *bin = T(1);
      return;
    }
    const T weight = weights == nullptr ? T(1) : weights[i];
    Exchange(bin, [weight](T before) { return Add(before, weight); });
  }
};

}  // namespace formwork_element
