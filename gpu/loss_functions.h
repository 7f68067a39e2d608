// What the threads of a cross entropy do: compiled for GPUs at run time, from this text behind
// those of item_functions.h and reduce_functions.h, and by the host's compiler for the op cases.
#ifndef __CUDACC_RTC__
#pragma once
#include "gpu/item_functions.h"
#include "gpu/reduce_functions.h"
#endif

namespace formwork_element {

// A probability of each class, of rows that may be repeated and in which one may stand for all.
template <typename E>
struct DenseLabels {
  const E* data;
  uint64_t row_stride, stride;

  FORMWORK_ELEMENT auto At(uint64_t row, uint64_t i) const {
    return Widen(data[row * row_stride + i * stride]);
  }
  template <typename T>
  FORMWORK_ELEMENT T Times(uint64_t row, uint64_t i, T x) const {
    return static_cast<T>(At(row, i)) * x;
  }
  FORMWORK_ELEMENT void Check(uint64_t /*row*/, uint64_t /*classes*/,
                              const MayFailItem& /*may_fail*/) const {}
};

// The class of each row. One that is out of range is none, and fails the step.
template <typename Index>
struct SparseLabels {
  const Index* data;

  FORMWORK_ELEMENT int At(uint64_t row, uint64_t i) const {
    return static_cast<uint64_t>(static_cast<int64_t>(data[row])) == i;
  }
  // Of a logit that is -inf nothing, unless it is the label's.
  template <typename T>
  FORMWORK_ELEMENT T Times(uint64_t row, uint64_t i, T x) const {
    return At(row, i) != 0 ? x : T(0);
  }
  FORMWORK_ELEMENT void Check(uint64_t row, uint64_t classes, const MayFailItem& may_fail) const {
    const int64_t index = static_cast<int64_t>(data[row]);
    if (static_cast<uint64_t>(index) >= classes) Fail(may_fail, WhereOf(row, index));
  }
};

// Logits [rows, classes], as DenseLabels has them, and what they come to.
template <typename E, typename Labels>
struct LossRows {
  DenseLabels<E> logits;
  Labels labels;
  E* loss;
  E* backprop;
  uint64_t rows, classes;
  MayFailItem may_fail;
};

// What one of `lanes` threads does of a row: once for the largest logit, once for the sums, and
// once to write. They are computed as T.
template <typename T>
struct LossRow {
  struct Sums {
    T exponentials;  // Of the logits less the largest;
    T logits;        // of those, times their labels;
    T labels;        // of the labels.
  };

  template <typename E, typename Labels>
  static FORMWORK_ELEMENT T Highest(const LossRows<E, Labels>& call, uint64_t row, unsigned lane,
                                    unsigned lanes) {
    T highest = Lowest<T>();
    for (uint64_t i = lane; i < call.classes; i += lanes) {
      highest = Max(highest, static_cast<T>(call.logits.At(row, i)));
    }
    return highest;
  }
  template <typename E, typename Labels>
  static FORMWORK_ELEMENT Sums Sum(const LossRows<E, Labels>& call, uint64_t row, T highest,
                                   unsigned lane, unsigned lanes) {
    Sums sums = {T(0), T(0), T(0)};
    for (uint64_t i = lane; i < call.classes; i += lanes) {
      const T x = static_cast<T>(call.logits.At(row, i)) - highest;
      sums.exponentials += exp(x);
      sums.logits += call.labels.Times(row, i, x);
      sums.labels += static_cast<T>(call.labels.At(row, i));
    }
    return sums;
  }
  template <typename E, typename Labels>
  static FORMWORK_ELEMENT void Write(const LossRows<E, Labels>& call, uint64_t row, T highest,
                                     const Sums& sums, unsigned lane, unsigned lanes) {
    for (uint64_t i = lane; i < call.classes; i += lanes) {
      const T x = static_cast<T>(call.logits.At(row, i)) - highest;
      call.backprop[row * call.classes + i] =
          Narrow<E>::Of(exp(x) / sums.exponentials - static_cast<T>(call.labels.At(row, i)));
    }
    if (lane != 0) return;
    const bool any = call.classes > 0;
    call.loss[row] = Narrow<E>::Of(any ? sums.labels * log(sums.exponentials) - sums.logits : T(0));
    call.labels.Check(row, call.classes, call.may_fail);
  }
};

#ifdef __CUDACC_RTC__
template <typename T, typename E, typename Labels>
__device__ void LossAll(const LossRows<E, Labels>& call, const ReduceBlock& block) {
  typedef LossRow<T> Row;
  __shared__ T shared[256];
  const unsigned lane = block.LaneOf(threadIdx.x), lanes = block.lanes;
  const auto add = [](T a, T b) { return a + b; };
  for (uint64_t base = 1ull * blockIdx.x * block.outputs(); base < call.rows;
       base += 1ull * gridDim.x * block.outputs()) {
    const uint64_t row = base + block.OutputOf(threadIdx.x);
    const bool is_row = row < call.rows;
    const T highest = JoinLanes(is_row ? Row::Highest(call, row, lane, lanes) : Lowest<T>(), shared,
                                block, [](T a, T b) { return Max(a, b); });
    typename Row::Sums sums = {T(0), T(0), T(0)};
    if (is_row) sums = Row::Sum(call, row, highest, lane, lanes);
    sums.exponentials = JoinLanes(sums.exponentials, shared, block, add);
    sums.logits = JoinLanes(sums.logits, shared, block, add);
    sums.labels = JoinLanes(sums.labels, shared, block, add);
    if (is_row) Row::Write(call, row, highest, sums, lane, lanes);
  }
}
#endif

}  // namespace formwork_element
