// What kernels that find elements by index do for one item of their work: compiled for GPUs at run
// time, from this text behind that of element_functions.h, and by the host's compiler, which fills
// in the same structs and runs them for the op cases (tests/unit/item_functions_test.cc). An item
// is an element of what is written, or an index; E is any type of an element's size, since what is
// moved is not looked at. Items of one kernel run in any order.
#ifdef __CUDACC_RTC__
struct FailureWord {  // core/device/failure_word.h
  uint64_t step;
  uint64_t where;
  FailureWord* twin;
};
#else
#pragma once
#include <algorithm>

#include "core/device/failure_word.h"
#include "gpu/element_functions.h"
#endif

namespace formwork_element {

#ifndef __CUDACC_RTC__
using formwork::FailureWord;
#endif

struct alignas(16) Bytes16 {
  uint64_t of[2];
};

// FailureWord::where of an index that is out of range: its position and, where both fit, its value.
constexpr uint64_t kMostTold = 0xffffffff;
FORMWORK_ELEMENT uint64_t WhereOf(uint64_t position, int64_t index) {
  if (position >= kMostTold) return kMostTold << 32;
  const bool fits = index > -(int64_t(1) << 31) && index < (int64_t(1) << 31);
  return position << 32 | (fits ? static_cast<uint64_t>(index + (int64_t(1) << 31)) : 0);
}

// A kernel that may fail, at its launch.
struct MayFailItem {
  FailureWord* word;
  uint64_t step;
};

#ifdef __CUDACC_RTC__
// Whether a step before `step` has failed: then the kernel does nothing. For all threads of a
// block, of which one looks. The word is in the GPU's memory: each look at the host's would take a
// microsecond, one block after the other. Null: none can have.
__device__ __forceinline__ bool FailedEarlier(const FailureWord* word, uint64_t step) {
  if (word == nullptr) return false;
  __shared__ uint64_t failed;
  if (threadIdx.x == 0) failed = *static_cast<const volatile uint64_t*>(&word->step);
  __syncthreads();
  return failed != 0 && failed != step;
}
#endif

FORMWORK_ELEMENT void Fail(const MayFailItem& may_fail, uint64_t where) {
#ifdef __CUDACC_RTC__
  // The first among the GPU's own threads; the host looks at its word when the kernel has ended.
  FailureWord* const of_host = may_fail.word->twin;
  atomicMin(&of_host->where, where);
  *static_cast<volatile uint64_t*>(&of_host->step) = may_fail.step;
  *static_cast<volatile uint64_t*>(&may_fail.word->step) = may_fail.step;
#else
  may_fail.word->Fail(may_fail.step, std::min(may_fail.word->where, where));
#endif
}

// Params as [batch, outer, dim, inner], indices as [batch, count], out as [batch, outer, count,
// inner]: an item is an element of out.
template <typename E, typename Index>
struct GatherItem {
  const E* params;
  const Index* indices;
  E* out;
  uint64_t outer, dim, inner, count;
  MayFailItem may_fail;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const uint64_t row = i / inner, slab = row / count;
    const uint64_t at = slab / outer * count + (row - slab * count);
    const int64_t index = static_cast<int64_t>(indices[at]);
    if (static_cast<uint64_t>(index) >= dim) {
      out[i] = E();
      return Fail(may_fail, WhereOf(at, index));
    }
    out[i] = params[(slab * dim + static_cast<uint64_t>(index)) * inner + (i - row * inner)];
  }
};

constexpr int kMostIndexed = 8;

// How rows of `depth` indices find slices.
struct IndexRows {
  int32_t depth;
  int64_t dims[kMostIndexed];     // Of what is indexed,
  int64_t strides[kMostIndexed];  // in slices.

  // -1 where it is out of range.
  template <typename Index>
  FORMWORK_ELEMENT int64_t SliceOf(const Index* row) const {
    int64_t slice = 0;
    for (int d = 0; d < depth; ++d) {
      const int64_t index = static_cast<int64_t>(row[d]);
      if (index < 0 || index >= dims[d]) return -1;
      slice += index * strides[d];
    }
    return slice;
  }
};

// An item is an element of out, [rows, inner]. Slices that are out of range are zeros, and fail the
// step unless `ignores`.
template <typename E, typename Index>
struct GatherNdItem {
  const E* params;
  const Index* indices;
  E* out;
  uint64_t inner;
  IndexRows rows;
  bool ignores;
  MayFailItem may_fail;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const uint64_t row = i / inner;
    const int64_t slice = rows.SliceOf(indices + row * rows.depth);
    if (slice < 0) {
      out[i] = E();
      if (!ignores) Fail(may_fail, WhereOf(row, 0));
      return;
    }
    out[i] = params[static_cast<uint64_t>(slice) * inner + (i - row * inner)];
  }
};

// Before a scatter, which writes nothing where one fails: an item is a row of indices.
// `tells_index`: of rows of one.
template <typename Index>
struct CheckIndicesItem {
  const Index* indices;
  IndexRows rows;
  bool tells_index;
  MayFailItem may_fail;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const Index* row = indices + i * rows.depth;
    if (rows.SliceOf(row) < 0) {
      Fail(may_fail, WhereOf(i, tells_index ? static_cast<int64_t>(row[0]) : 0));
    }
  }
};

#ifdef __CUDACC_RTC__
// Word: as wide as T.
template <typename Word, typename T, typename Change>
__device__ __forceinline__ void ExchangeWord(T* to, Change change) {
  static_assert(sizeof(T) == sizeof(Word));
  Word* const word = reinterpret_cast<Word*>(to);
  Word seen = *word, before;
  do {
    before = seen;
    T value = change(*reinterpret_cast<T*>(&before));
    seen = atomicCAS(word, before, *reinterpret_cast<Word*>(&value));
  } while (seen != before);
}
// Of elements of 2, 4 and 8 bytes: what another thread writes meanwhile is not lost.
template <typename T, typename Change>
__device__ __forceinline__ void Exchange(T* to, Change change) {
  if constexpr (sizeof(T) == 2) {
    ExchangeWord<uint16_t>(to, change);
  } else if constexpr (sizeof(T) == 4) {
    ExchangeWord<unsigned>(to, change);
  } else {
    ExchangeWord<uint64_t>(to, change);
  }
}
#else
template <typename T, typename Change>
void Exchange(T* to, Change change) {
  *to = change(*to);
}
#endif

// Where one is NaN, what was there stays.
template <typename T>
FORMWORK_ELEMENT T Lower(T before, T update) {
  return update < before ? update : before;
}
template <typename T>
FORMWORK_ELEMENT T Higher(T before, T update) {
  return before < update ? update : before;
}

// What a scatter makes of an element and an update of it. Of several updates of one the order is
// open.
struct ScatterUpdate {
  template <typename T>
  static FORMWORK_ELEMENT void Do(T* to, T update) {
    *to = update;
  }
};
#define FORMWORK_SCATTER(name, function)                                     \
  struct Scatter##name {                                                     \
    template <typename T>                                                    \
    static FORMWORK_ELEMENT void Do(T* to, T update) {                       \
      Exchange(to, [update](T before) { return function(before, update); }); \
    }                                                                        \
  };
FORMWORK_SCATTER(Add, Add)
FORMWORK_SCATTER(Sub, Sub)
FORMWORK_SCATTER(Mul, Mul)
FORMWORK_SCATTER(Min, Lower)
FORMWORK_SCATTER(Max, Higher)
#undef FORMWORK_SCATTER

// An item is an element of updates, [rows, inner], or of what one update goes to (`one`). Rows that
// are out of range are left out.
template <typename T, typename Index, typename Op>
struct ScatterItem {
  T* target;
  const Index* indices;
  const T* updates;
  uint64_t inner;
  IndexRows rows;
  bool one;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const uint64_t row = i / inner;
    const int64_t slice = rows.SliceOf(indices + row * rows.depth);
    if (slice < 0) return;
    Op::Do(target + static_cast<uint64_t>(slice) * inner + (i - row * inner), updates[one ? 0 : i]);
  }
};

constexpr int kMostCopyDims = 8;

// An item is an index of the copy, counted with the last dimension first
// (core/kernels/strided_copy.h).
template <typename E>
struct CopyItem {
  const E* from;
  E* to;
  int32_t rank;
  uint64_t sizes[kMostCopyDims];  // The last dimension first.
  int64_t from_strides[kMostCopyDims];
  int64_t to_strides[kMostCopyDims];

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    int64_t from_at = 0, to_at = 0;
    for (int d = 0; d < rank; ++d) {
      const uint64_t rest = i / sizes[d];
      const int64_t k = static_cast<int64_t>(i - rest * sizes[d]);
      i = rest;
      from_at += k * from_strides[d];
      to_at += k * to_strides[d];
    }
    to[to_at] = from[from_at];
  }
};

// An item is an element of `to`.
template <typename E>
struct FillItem {
  const E* value;
  E* to;

  FORMWORK_ELEMENT void operator()(uint64_t i) const { to[i] = *value; }
};
// The same of a value that the host knows.
template <typename E>
struct SetItem {
  E value;
  E* to;

  FORMWORK_ELEMENT void operator()(uint64_t i) const { to[i] = value; }
};

}  // namespace formwork_element
