// What kernels do for one element of segments of rows that indices choose, and of their gradients:
// compiled for GPUs at run time, from this text behind those of item_functions.h and
// element_access.h, and by the host's compiler for the op cases.
#ifndef __CUDACC_RTC__
#pragma once
#include "gpu/element_access.h"
#include "gpu/item_functions.h"
#endif

namespace formwork_element {

// What sums of rows are multiplied by.
enum RowScale { kSumOfRows, kMeanOfRows, kSqrtNOfRows };
FORMWORK_ELEMENT double ScaleOfRows(RowScale by, uint64_t count) {
  const double rows = static_cast<double>(count);
  return by == kSumOfRows ? 1 : 1 / (by == kMeanOfRows ? rows : sqrt(rows));
}

// FailureWord::where of ids, which come first, and of indices: where they stand, and what they are,
// as WhereOf tells it, or what is wrong with them.
constexpr uint64_t kMostRowsTold = 0x7fffffff;
FORMWORK_ELEMENT uint64_t WhereOfRow(bool is_index, uint64_t position, uint64_t told) {
  return static_cast<uint64_t>(is_index) << 63 |
         (position < kMostRowsTold ? position : kMostRowsTold) << 32 | told;
}
constexpr uint64_t kNegativeId = 1;
constexpr uint64_t kIdBeforeLast = 2;
constexpr uint64_t kIdTooLarge = 3;

// Before all else: an item is an index, and the id beside it. `is_sorted`: ids have to be, and what
// is wrong with one is told, not its value.
template <typename Index, typename Id>
struct CheckRowsItem {
  const Index* indices;
  const Id* ids;
  int64_t rows, segments;
  bool is_sorted;
  MayFailItem may_fail;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const int64_t id = static_cast<int64_t>(ids[i]), index = static_cast<int64_t>(indices[i]);
    uint64_t wrong = 0;
    if (id < 0) {
      wrong = kNegativeId;
    } else if (is_sorted && i > 0 && id < static_cast<int64_t>(ids[i - 1])) {
      wrong = kIdBeforeLast;
    } else if (id >= segments) {
      wrong = kIdTooLarge;
    }
    if (wrong != 0) Fail(may_fail, WhereOfRow(false, i, is_sorted ? wrong : WhereOf(0, id)));
    if (index < 0 || index >= rows) Fail(may_fail, WhereOfRow(true, i, WhereOf(0, index)));
  }
};

// An item is an element of out, [segments, width], and adds up what is its own, in order. Indices
// and ids, which are sorted, have been checked.
template <typename T, typename Index, typename Id>
struct SparseSegmentItem {
  const T* data;
  const Index* indices;
  const Id* ids;
  T* out;
  uint64_t width, n;
  RowScale scale;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const uint64_t segment = i / width, column = i - segment * width;
    uint64_t begin = 0;
    for (uint64_t end = n; begin < end;) {
      const uint64_t middle = begin + (end - begin) / 2;
      if (static_cast<uint64_t>(ids[middle]) < segment) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    typedef decltype(Widen(T())) Total;
    Total total = Total(0);
    uint64_t at = begin;
    for (; at < n && static_cast<uint64_t>(ids[at]) == segment; ++at) {
      total = Add(total, Widen(data[static_cast<uint64_t>(indices[at]) * width + column]));
    }
    if constexpr (IsFloat<Total>::value) {
      if (scale != kSumOfRows && at != begin) {
        total *= static_cast<Total>(ScaleOfRows(scale, at - begin));
      }
    }
    out[i] = Narrow<T>::Of(total);
  }
};

// Of the gradient: an item is an id. `counts`, of all segments, is zeros.
template <typename Id>
struct CountIdsItem {
  const Id* ids;
  uint64_t* counts;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    Exchange(counts + ids[i], [](uint64_t before) { return before + 1; });
  }
};
// An item is an element of the rows that were chosen, [n, width], and adds the gradient of its
// segment to its row. What several threads add to one element they add in any order. `out` is
// zeros.
template <typename T, typename Index, typename Id>
struct SparseSegmentGradItem {
  const T* grads;
  const Index* indices;
  const Id* ids;
  const uint64_t* counts;  // Null: of sums.
  T* out;
  uint64_t width;
  RowScale scale;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const uint64_t row = i / width, column = i - row * width;
    const uint64_t id = static_cast<uint64_t>(ids[row]);
    const T times = counts == nullptr ? T(1) : static_cast<T>(ScaleOfRows(scale, counts[id]));
    const T share = grads[id * width + column] * times;
    Exchange(out + static_cast<uint64_t>(indices[row]) * width + column,
             [share](T before) { return before + share; });
  }
};

}  // namespace formwork_element
