// What the threads of a reduction do: compiled for GPUs at run time, from this text behind those of
// element_functions.h and element_access.h, and by the host's compiler for the op cases
// (tests/unit/reduce_functions_test.cc). No order of sums is left to chance: the same shapes on the
// same GPU give the same bits.
#ifndef __CUDACC_RTC__
#pragma once
#include <limits>

#include "gpu/element_access.h"
#include "gpu/element_functions.h"
#endif

namespace formwork_element {

// The largest and the lowest number of a type; of floats, infinity.
template <typename T>
FORMWORK_ELEMENT T Largest() {
  if constexpr (IsFloat<T>::value) {
#ifdef __CUDACC_RTC__
    return static_cast<T>(__longlong_as_double(0x7ff0000000000000));
#else
    return std::numeric_limits<T>::infinity();
#endif
  } else if constexpr (static_cast<T>(-1) < T(0)) {
    return static_cast<T>((uint64_t(1) << (sizeof(T) * 8 - 1)) - 1);
  } else {
    return static_cast<T>(-1);
  }
}
template <typename T>
FORMWORK_ELEMENT T Lowest() {
  if constexpr (IsFloat<T>::value) {
    return -Largest<T>();
  } else if constexpr (static_cast<T>(-1) < T(0)) {
    return static_cast<T>(-Largest<T>() - 1);
  } else {
    return T(0);
  }
}

// What is reduced, and how. A partial result is a `Partial`; `Load` makes one of the element that
// stands at `at`; `Result` is what becomes of `n` of them.
template <typename T>
struct SumReduction {
  typedef T Partial;
  static FORMWORK_ELEMENT T First() { return T(0); }
  static FORMWORK_ELEMENT T Load(T x, uint64_t) { return x; }
  static FORMWORK_ELEMENT T Join(T a, T b) { return Add(a, b); }
  static FORMWORK_ELEMENT T Result(T total, uint64_t) { return total; }
};
template <typename T>
struct ProdReduction : SumReduction<T> {
  static FORMWORK_ELEMENT T First() { return T(1); }
  static FORMWORK_ELEMENT T Join(T a, T b) { return Mul(a, b); }
};
// Of integers in 64 bits, so that bytes do not overflow; the division truncates.
template <typename T, bool kFloat = IsFloat<T>::value>
struct MeanReduction {
  typedef uint64_t Partial;
  static FORMWORK_ELEMENT Partial First() { return 0; }
  static FORMWORK_ELEMENT Partial Load(T x, uint64_t) { return static_cast<Partial>(x); }
  static FORMWORK_ELEMENT Partial Join(Partial a, Partial b) { return a + b; }
  static FORMWORK_ELEMENT T Result(Partial total, uint64_t n) {
    if (n == 0) return T(0);
    if constexpr (static_cast<T>(-1) < T(0)) {
      return static_cast<T>(static_cast<int64_t>(total) / static_cast<int64_t>(n));
    } else {
      return static_cast<T>(total / n);
    }
  }
};
template <typename T>
struct MeanReduction<T, true> : SumReduction<T> {
  static FORMWORK_ELEMENT T Result(T total, uint64_t n) { return total / static_cast<T>(n); }
};
template <typename T>
struct MaxReduction : SumReduction<T> {
  static FORMWORK_ELEMENT T First() { return Lowest<T>(); }
  static FORMWORK_ELEMENT T Join(T a, T b) { return Max(a, b); }
};
template <typename T>
struct MinReduction : SumReduction<T> {
  static FORMWORK_ELEMENT T First() { return Largest<T>(); }
  static FORMWORK_ELEMENT T Join(T a, T b) { return Min(a, b); }
};
// Of floats.
template <typename T>
struct EuclideanNormReduction : SumReduction<T> {
  static FORMWORK_ELEMENT T Load(T x, uint64_t) { return x * x; }
  static FORMWORK_ELEMENT T Result(T total, uint64_t) { return sqrt(total); }
};
template <typename T>
struct L2LossReduction : EuclideanNormReduction<T> {
  static FORMWORK_ELEMENT T Result(T total, uint64_t) { return total / T(2); }
};
// Of bools.
template <typename T>
struct AllReduction : SumReduction<T> {
  static FORMWORK_ELEMENT T First() { return true; }
  static FORMWORK_ELEMENT T Join(T a, T b) { return a && b; }
};
template <typename T>
struct AnyReduction : SumReduction<T> {
  static FORMWORK_ELEMENT T First() { return false; }
  static FORMWORK_ELEMENT T Join(T a, T b) { return a || b; }
};
// Where the largest, or smallest, stands first. NaN is never that, nor the lowest number or what is
// below it (the largest, or above): where there is no other, it is 0.
template <typename T, bool kMax>
struct ArgReduction {
  static constexpr uint64_t kNone = ~uint64_t(0);
  struct Partial {
    T value;
    uint64_t at;
  };
  static FORMWORK_ELEMENT T Limit() {
    if constexpr (IsFloat<T>::value) {
      constexpr double kMost = sizeof(T) == 4 ? 3.4028234663852886e38 : 1.7976931348623157e308;
      return static_cast<T>(kMax ? -kMost : kMost);
    } else {
      return kMax ? Lowest<T>() : Largest<T>();
    }
  }
  static FORMWORK_ELEMENT Partial First() { return Partial{Limit(), kNone}; }
  static FORMWORK_ELEMENT Partial Load(T x, uint64_t at) {
    return (kMax ? x > Limit() : x < Limit()) ? Partial{x, at} : First();
  }
  static FORMWORK_ELEMENT Partial Join(Partial a, Partial b) {
    const bool beats = kMax ? b.value > a.value : b.value < a.value;
    return beats || (b.value == a.value && b.at < a.at) ? b : a;
  }
  static FORMWORK_ELEMENT uint64_t Result(Partial best, uint64_t) {
    return best.at == kNone ? 0 : best.at;
  }
};
template <typename T>
struct ArgMaxReduction : ArgReduction<T, true> {};
template <typename T>
struct ArgMinReduction : ArgReduction<T, false> {};

// A dense value as [outer, reduced, inner], of which the middle is reduced in `parts`, each of
// `part` entries but the last: to [outer, parts, inner]. Of one part it is the result; else these
// are partial results, and are reduced once more.
struct ReduceSizes {
  uint64_t outer, reduced, inner, parts, part;
  uint64_t count;  // Of what is reduced, before it was parted.
};

// Which entries one output of `sizes` is made of.
struct ReduceRange {
  uint64_t outer, inner;  // Whose entries,
  uint64_t begin, end;    // and which of them.

  FORMWORK_ELEMENT ReduceRange(const ReduceSizes& sizes, uint64_t output) {
    const uint64_t rest = output / sizes.inner;
    const uint64_t p = rest % sizes.parts;
    outer = rest / sizes.parts;
    inner = output % sizes.inner;
    begin = p * sizes.part;
    end = begin + sizes.part < sizes.reduced ? begin + sizes.part : sizes.reduced;
  }
};

// An input of a reduction: RowOf gives the entries of one output, and a row's [] reads entry r;
// kAtOnce of them, which do not wait for each other, before they are joined.
// This one is in memory, laid out as ReduceSizes says.
template <typename E>
struct DenseEntries {
  struct Row {
    const E* first;
    uint64_t stride;
    FORMWORK_ELEMENT E operator[](uint64_t r) const { return first[r * stride]; }
  };

  static constexpr int kAtOnce = 8;
  const E* in;

  FORMWORK_ELEMENT Row RowOf(const ReduceSizes& sizes, const ReduceRange& range) const {
    return Row{in + range.outer * sizes.reduced * sizes.inner + range.inner, sizes.inner};
  }
};

// An offset into each operand of the elementwise instructions that make entries
// (element_reductions.h).
template <int kInputs>
struct OperandOffsets {
  uint64_t of[kInputs];
};

// By which dimensions these are found. Those along the entries of a row come first, then those
// along rows; of each the innermost one first. An operand's stride is 0 where it is repeated.
constexpr int kMostReduceDims = 8;
template <int kInputs>
struct OperandDims {
  uint32_t of_entries, all;  // How many.
  uint64_t dims[kMostReduceDims];
  uint64_t strides[kInputs][kMostReduceDims];

  // Of the first entry of row i, and of entry r of a row whose first one is at `row`.
  FORMWORK_ELEMENT OperandOffsets<kInputs> OfRow(uint64_t i) const {
    return Advanced(OperandOffsets<kInputs>{}, i, of_entries, all);
  }
  FORMWORK_ELEMENT OperandOffsets<kInputs> OfEntry(const OperandOffsets<kInputs>& row,
                                                   uint64_t r) const {
    return Advanced(row, r, 0, of_entries);
  }

  // By index i into the dimensions [first, last).
  FORMWORK_ELEMENT OperandOffsets<kInputs> Advanced(OperandOffsets<kInputs> offsets, uint64_t i,
                                                    uint32_t first, uint32_t last) const {
    for (uint32_t d = first; d < last; ++d) {
      uint64_t k = i;
      if (d + 1 < last) {
        i = DividedBy(k, dims[d]);
        k -= i * dims[d];
      }
#ifdef __CUDACC_RTC__
#pragma unroll  // Offsets are in registers.
#endif
      for (int input = 0; input < kInputs; ++input) offsets.of[input] += k * strides[input][d];
    }
    return offsets;
  }
};

// What one of `lanes` threads makes of an output's entries: every lanes-th, in order. kFirst: they
// are elements; else partial results.
template <typename Reduction, bool kFirst, typename In>
FORMWORK_ELEMENT typename Reduction::Partial ReduceLane(const ReduceSizes& sizes, const In& in,
                                                        uint64_t output, unsigned lane,
                                                        unsigned lanes) {
  const ReduceRange range(sizes, output);
  const auto row = in.RowOf(sizes, range);
  typename Reduction::Partial total = Reduction::First();
#ifdef __CUDACC_RTC__
#pragma unroll In::kAtOnce
#endif
  for (uint64_t r = range.begin + lane; r < range.end; r += lanes) {
    if constexpr (kFirst) {
      total = Reduction::Join(total, Reduction::Load(Widen(row[r]), r));
    } else {
      total = Reduction::Join(total, row[r]);
    }
  }
  return total;
}

// How a block of 256 threads is divided among outputs: `lanes` threads each, which stand side by
// side (of entries that do, too), or as far apart as there are outputs in a block.
struct ReduceBlock {
  unsigned lanes;  // A power of 2.
  bool side_by_side;

  FORMWORK_ELEMENT unsigned outputs() const { return 256 / lanes; }
  FORMWORK_ELEMENT unsigned OutputOf(unsigned thread) const {
    return side_by_side ? thread / lanes : thread % outputs();
  }
  FORMWORK_ELEMENT unsigned LaneOf(unsigned thread) const {
    return side_by_side ? thread % lanes : thread / outputs();
  }
  FORMWORK_ELEMENT unsigned ThreadOf(unsigned output, unsigned lane) const {
    return side_by_side ? output * lanes + lane : lane * outputs() + output;
  }
};

// Softmax of a row of `n` elements E, computed as T: what one of `lanes` threads does of it, once
// for the largest, once for the sum, and once to write.
template <typename T, bool kLog>
struct SoftmaxRow {
  template <typename E>
  static FORMWORK_ELEMENT T Largest(const E* row, uint64_t n, unsigned lane, unsigned lanes) {
    T largest = Lowest<T>();
    for (uint64_t i = lane; i < n; i += lanes)
      largest = Max(largest, static_cast<T>(Widen(row[i])));
    return largest;
  }
  template <typename E>
  static FORMWORK_ELEMENT T Sum(const E* row, uint64_t n, T largest, unsigned lane,
                                unsigned lanes) {
    T sum = T(0);
    for (uint64_t i = lane; i < n; i += lanes) sum += exp(static_cast<T>(Widen(row[i])) - largest);
    return sum;
  }
  template <typename E>
  static FORMWORK_ELEMENT void Write(const E* row, E* out, uint64_t n, T largest, T sum,
                                     unsigned lane, unsigned lanes) {
    const T log_sum = kLog ? log(sum) : T(0);
    for (uint64_t i = lane; i < n; i += lanes) {
      const T x = static_cast<T>(Widen(row[i])) - largest;
      out[i] = Narrow<E>::Of(kLog ? x - log_sum : exp(x) / sum);
    }
  }
};

#ifdef __CUDACC_RTC__
// The total of the lanes of one output, for all of them.
template <typename T, typename Join>
__device__ T JoinLanes(T mine, T* shared, const ReduceBlock& block, Join join) {
  if (block.side_by_side && block.lanes <= 32) {  // Of a warp, which needs no memory for it.
    for (unsigned half = block.lanes / 2; half > 0; half /= 2) {
      mine = join(mine, __shfl_xor_sync(0xffffffff, mine, half));
    }
    return mine;
  }
  const unsigned output = block.OutputOf(threadIdx.x), lane = block.LaneOf(threadIdx.x);
  shared[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = block.lanes / 2; half > 0; half /= 2) {
    if (lane < half) {
      shared[threadIdx.x] = join(shared[threadIdx.x], shared[block.ThreadOf(output, lane + half)]);
    }
    __syncthreads();
  }
  const T total = shared[block.ThreadOf(output, 0)];
  __syncthreads();
  return total;
}

template <typename T, bool kLog, typename E>
__device__ void SoftmaxAll(const E* in, E* out, uint64_t rows, uint64_t n,
                           const ReduceBlock& block) {
  typedef SoftmaxRow<T, kLog> Row;
  __shared__ T shared[256];
  const unsigned lane = block.LaneOf(threadIdx.x), lanes = block.lanes;
  for (uint64_t base = 1ull * blockIdx.x * block.outputs(); base < rows;
       base += 1ull * gridDim.x * block.outputs()) {
    const uint64_t at = base + block.OutputOf(threadIdx.x);
    const bool is_row = at < rows;
    const E* const row = in + (is_row ? at * n : 0);
    const T largest = JoinLanes(is_row ? Row::Largest(row, n, lane, lanes) : Lowest<T>(), shared,
                                block, [](T a, T b) { return Max(a, b); });
    const T sum = JoinLanes(is_row ? Row::Sum(row, n, largest, lane, lanes) : T(0), shared, block,
                            [](T a, T b) { return a + b; });
    if (is_row) Row::Write(row, out + at * n, n, largest, sum, lane, lanes);
  }
}

template <typename Reduction, bool kFirst, bool kLast, typename In, typename Out>
__device__ void ReduceAll(const In& in, Out* out, const ReduceSizes& sizes,
                          const ReduceBlock& block) {
  typedef typename Reduction::Partial Partial;
  __shared__ alignas(16) unsigned char memory[256 * sizeof(Partial)];
  Partial* const shared = reinterpret_cast<Partial*>(memory);
  const uint64_t n = sizes.outer * sizes.parts * sizes.inner;
  const unsigned mine = block.OutputOf(threadIdx.x), lane = block.LaneOf(threadIdx.x);
  for (uint64_t base = 1ull * blockIdx.x * block.outputs(); base < n;
       base += 1ull * gridDim.x * block.outputs()) {
    const uint64_t output = base + mine;
    shared[threadIdx.x] = output < n
                              ? ReduceLane<Reduction, kFirst>(sizes, in, output, lane, block.lanes)
                              : Reduction::First();
    __syncthreads();
    for (unsigned half = block.lanes / 2; half > 0; half /= 2) {
      if (lane < half) {
        shared[threadIdx.x] =
            Reduction::Join(shared[threadIdx.x], shared[block.ThreadOf(mine, lane + half)]);
      }
      __syncthreads();
    }
    if (lane == 0 && output < n) {
      if constexpr (kLast) {
        out[output] = Narrow<Out>::Of(Reduction::Result(shared[threadIdx.x], sizes.count));
      } else {
        out[output] = shared[threadIdx.x];
      }
    }
    __syncthreads();
  }
}
#endif

}  // namespace formwork_element
