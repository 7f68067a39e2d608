#pragma once

// The loops of the reductions, over a struct per reduction and element type:
//
//   struct SumFloat {
//     using Element = float;
//     using Partial = float;   // What a few thousand elements are reduced to ...
//     using Total = double;    // ... and what those are reduced to.
//     static Partial First();
//     static Partial Step(Partial sum, Element x);
//     static Partial Join(Partial a, Partial b);
//     static Total Begin();
//     static Total Add(Total total, Partial sum);
//     static Total Merge(Total a, Total b);
//     static Element Finish(Total total, int64_t count);
//     static constexpr bool kByIsa;  // Worth compiling for each vector instruction set.
//     // Step of several elements at once, where gcc makes no vectors of it. May be missing.
//     template <typename V>
//     static void StepVectors(V& partial, const V& x);
//   };
//
// Two levels, so that the error of a sum of millions of floats stays near that of one addition.
// half and bfloat16 have no loops of their own: Widened<SumFloat, half>.

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/stop_flag.h"
#include "core/kernels/isa.h"
#include "core/kernels/reduction/reduction.h"
#include "core/kernels/widen.h"

namespace formwork::reduce_loops {

constexpr int64_t kRowBlock = RowReduction::kBlock;
constexpr int64_t kColumnBlock = 128;                // Rows per Partial where columns are reduced.
constexpr int64_t kChunk = 128;                      // Columns at a time.
constexpr int64_t kTask = 64 * 1024;                 // Elements worth a task.
constexpr int64_t kLookElements = int64_t{1} << 20;  // Between two looks at the StopFlag.

/// Op, over floats, of elements that are floats with fewer bits: some thousand at a time are
/// widened, which the machine has instructions for, and reduced while they are in the first-level
/// cache.
template <typename Op, typename T>
struct Widened : Op {
  using Element = T;
  using Wide = Op;
  static T Finish(typename Op::Total total, int64_t count) { return T(Op::Finish(total, count)); }
};
template <typename Op>
concept IsWidened = requires {
  typename Op::Wide;
};
template <typename Op>
concept HasVectors = requires(typename Op::Partial partial, typename Op::Element element) {
  Op::StepVectors(partial, element);
};

template <typename Op>
struct Rows {
  using Element = typename Op::Element;
  using Partial = typename Op::Partial;
  using Total = typename Op::Total;

  /// Reduces whole groups of kLanes elements, side by side, and advances `i` past them.
  template <int kLanes>
  FORMWORK_ISA_INLINE static Partial Lanes(const Element* x, int64_t n, int64_t* i) {
    Partial lanes[kLanes];
    for (int l = 0; l < kLanes; ++l) lanes[l] = Op::First();
    for (; *i + kLanes <= n; *i += kLanes) {
      for (int l = 0; l < kLanes; ++l) lanes[l] = Op::Step(lanes[l], x[*i + l]);
    }
    for (int step = kLanes / 2; step > 0; step /= 2) {
      for (int l = 0; l < step; ++l) lanes[l] = Op::Join(lanes[l], lanes[l + step]);
    }
    return lanes[0];
  }

  // For ops that HasVectors; elsewhere Partial may be no element of a vector.
  static constexpr bool kHasVectors = HasVectors<Op> && !IsWidened<Op>;
  typedef std::conditional_t<kHasVectors, Partial, float> Lane;
  typedef Lane Vector __attribute__((vector_size(32)));
  typedef Lane Half __attribute__((vector_size(16)));

  /// Joins whole groups of kCount vectors of elements to `vector`.
  template <int kCount>
  FORMWORK_ISA_INLINE static void Vectors(const Element* x, int64_t n, int64_t* i, Vector& vector) {
    constexpr int64_t kLanes = sizeof(Vector) / sizeof(Element);
    Vector vectors[kCount];
    for (int k = 0; k < kCount; ++k) vectors[k] = vector;
    for (; *i + kCount * kLanes <= n; *i += kCount * kLanes) {
      for (int k = 0; k < kCount; ++k) {
        Vector next;
        std::memcpy(&next, x + *i + k * kLanes, sizeof(next));
        Op::StepVectors(vectors[k], next);
      }
    }
    vector = vectors[0];
    for (int k = 1; k < kCount; ++k) Op::StepVectors(vector, vectors[k]);
  }

  FORMWORK_ISA_INLINE static Partial BlockByVectors(const Element* x, int64_t n) {
    constexpr int64_t kLanes = sizeof(Vector) / sizeof(Element);
    // Single elements too: of others gcc makes jumps that nobody can foresee.
    Half half = {Op::First()};
    int64_t i = 0;
    if (n >= kLanes) {
      Vector vector = Vector{} + Op::First();
      if (n >= 4 * kLanes) Vectors<4>(x, n, &i, vector);
      Vectors<1>(x, n, &i, vector);
      Half halves[2];
      std::memcpy(halves, &vector, sizeof(halves));
      half = halves[0];
      Op::StepVectors(half, halves[1]);
      if constexpr (kLanes == 8) {
        Op::StepVectors(half, __builtin_shufflevector(half, half, 2, 3, 0, 1));
        Op::StepVectors(half, __builtin_shufflevector(half, half, 1, 0, 3, 2));
      } else {
        Op::StepVectors(half, __builtin_shufflevector(half, half, 1, 0));
      }
    }
    for (; i < n; ++i) Op::StepVectors(half, Half{x[i]});
    return half[0];
  }

  FORMWORK_ISA_INLINE static Partial Block(const Element* x, int64_t n) {
    if constexpr (kHasVectors) return BlockByVectors(x, n);
    Partial partial = Op::First();
    int64_t i = 0;
    // So many lanes that the compiler keeps them a loop, which it vectorises whatever Step is.
    if (n >= 256) {
      partial = Lanes<64>(x, n, &i);
    } else if (n >= 32) {
      partial = Lanes<16>(x, n, &i);
    }
    for (; i < n; ++i) partial = Op::Step(partial, x[i]);
    return partial;
  }

  /// A partial of each block of each of `rows` rows of `n` elements, one after the other.
  FORMWORK_ISA_INLINE static void Run(const Element* x, int64_t rows, int64_t n,
                                      Partial* partials) {
    for (int64_t r = 0; r < rows; ++r, x += n) {
      for (int64_t i = 0; i < n; i += kRowBlock) {
        *partials++ = Block(x + i, std::min(kRowBlock, n - i));
      }
    }
  }
};

template <typename Op>
struct ColumnRows {
  using Element = typename Op::Element;
  using Partial = typename Op::Partial;

  /// The next `rows` rows of at most kChunk columns.
  FORMWORK_ISA_INLINE static void Run(const Element* x, int64_t rows, int64_t columns,
                                      int64_t stride, Partial* partials) {
    for (int64_t r = 0; r < rows; ++r) {
      const Element* __restrict row = x + r * stride;
      for (int64_t c = 0; c < columns; ++c) partials[c] = Op::Step(partials[c], row[c]);
    }
  }
};

template <typename Op>
struct Columns {
  using Element = typename Op::Element;
  using Partial = typename Op::Partial;
  using Total = typename Op::Total;

  /// totals[c] = the reduction of column c, of at most kChunk.
  FORMWORK_ISA_INLINE static void Run(const Element* x, int64_t rows, int64_t columns,
                                      int64_t stride, Total* totals) {
    for (int64_t c = 0; c < columns; ++c) totals[c] = Op::Begin();
    Partial partials[kChunk];
    for (int64_t first = 0; first < rows; first += kColumnBlock) {
      if ((first + kColumnBlock) % (kLookElements / kChunk) == 0 && WorkIsCut()) break;
      const int64_t some = std::min(kColumnBlock, rows - first);
      for (int64_t c = 0; c < columns; ++c) partials[c] = Op::First();
      ColumnRows<Op>::Run(x + first * stride, some, columns, stride, partials);
      for (int64_t c = 0; c < columns; ++c) totals[c] = Op::Add(totals[c], partials[c]);
    }
  }
};

/// A function of its own: the loops are long to compile, and called from where a row is split and
/// from where it is not.
template <typename Op, typename Loop, typename... Args>
__attribute__((noinline)) void RunLoop(Args... args) {
  if constexpr (Op::kByIsa) {
    ForHostIsa<Loop>(args...);
  } else {
    Loop::Run(args...);
  }
}

/// Rows::Run of any Op.
template <typename Op>
void RunRows(const typename Op::Element* x, int64_t rows, int64_t n,
             typename Op::Partial* partials) {
  if constexpr (!IsWidened<Op>) {
    RunLoop<Op, Rows<Op>>(x, rows, n, partials);
  } else {
    using Wide = typename Op::Wide;
    float wide[kRowBlock];
    const int64_t at_once = std::max<int64_t>(kRowBlock / std::max<int64_t>(n, 1), 1);
    for (int64_t r = 0; r < rows; r += at_once) {
      const int64_t some = std::min(at_once, rows - r);
      for (int64_t i = 0; i < n; i += kRowBlock) {
        const int64_t piece = std::min(kRowBlock, n - i);
        WidenRun(x + r * n + i, some * piece, wide);
        RunLoop<Wide, Rows<Wide>>(static_cast<const float*>(wide), some, piece, partials);
        partials += some;
      }
    }
  }
}

/// Columns::Run of any Op.
template <typename Op>
void RunColumns(const typename Op::Element* x, int64_t rows, int64_t columns, int64_t stride,
                typename Op::Total* totals) {
  if constexpr (!IsWidened<Op>) {
    RunLoop<Op, Columns<Op>>(x, rows, columns, stride, totals);
  } else {
    using Wide = typename Op::Wide;
    float wide[kRowBlock];
    static_assert(kChunk <= kRowBlock);
    const int64_t at_once = kRowBlock / columns;
    typename Op::Partial partials[kChunk];
    std::fill_n(totals, columns, Op::Begin());
    for (int64_t first = 0; first < rows; first += kColumnBlock) {
      if ((first + kColumnBlock) % (kLookElements / kChunk) == 0 && WorkIsCut()) break;
      const int64_t end = std::min(first + kColumnBlock, rows);
      std::fill_n(partials, columns, Op::First());
      for (int64_t r = first; r < end; r += at_once) {
        const int64_t some = std::min(at_once, end - r);
        if (columns == stride) {
          WidenRun(x + r * stride, some * columns, wide);
        } else {
          for (int64_t i = 0; i < some; ++i) {
            WidenRun(x + (r + i) * stride, columns, wide + i * columns);
          }
        }
        RunLoop<Wide, ColumnRows<Wide>>(static_cast<const float*>(wide), some, columns, columns,
                                        static_cast<typename Op::Partial*>(partials));
      }
      for (int64_t c = 0; c < columns; ++c) totals[c] = Op::Add(totals[c], partials[c]);
    }
  }
}

/// Whether rows are few and so long that they are reduced stripe by stripe, of kTask elements. What
/// the elements are decides, not the number of threads, so that the result is always the same.
inline bool HasStripes(const ReduceExtent& e) { return e.outer < 8 && e.reduced >= 2 * kTask; }

template <typename Op>
typename Op::Total Fold(typename Op::Total total, const typename Op::Partial* partials,
                        int64_t count) {
  for (int64_t i = 0; i < count; ++i) total = Op::Add(total, partials[i]);
  return total;
}

/// A RowReduction::FinishFn.
template <typename Op>
void FinishRows(const ReduceExtent& e, const void* from, void* to) {
  using Total = typename Op::Total;
  const auto* partials = static_cast<const typename Op::Partial*>(from);
  auto* out = static_cast<typename Op::Element*>(to);
  const int64_t blocks = RowReduction::BlocksOf(e.reduced);
  for (int64_t r = 0; r < e.outer; ++r, partials += blocks) {
    Total total = Op::Begin();
    if (!HasStripes(e)) {
      total = Fold<Op>(total, partials, blocks);
    } else {
      constexpr int64_t kStripe = kTask / kRowBlock;
      for (int64_t b = 0; b < blocks; b += kStripe) {
        const int64_t count = std::min(kStripe, blocks - b);
        total = Op::Merge(total, Fold<Op>(Op::Begin(), partials + b, count));
      }
    }
    out[r] = Op::Finish(total, e.reduced);
  }
}

/// A RowReduction::BlocksFn.
template <typename Op>
void RowBlocks(const void* x, int64_t rows, int64_t n, void* partials) {
  RunRows<Op>(static_cast<const typename Op::Element*>(x), rows, n,
              static_cast<typename Op::Partial*>(partials));
}

/// The whole of a reduction whose inner extent is 1.
template <typename Op>
void ReduceRows(const ReduceExtent& e, const typename Op::Element* x, typename Op::Element* out) {
  const int64_t n = e.reduced;
  const int64_t blocks = RowReduction::BlocksOf(n);
  if (HasStripes(e)) {
    const int64_t stripes = (n + kTask - 1) / kTask;
    std::vector<typename Op::Partial> partials(static_cast<size_t>(e.outer * blocks));
    ParallelFor(e.outer * stripes, 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t r = item / stripes, first = item % stripes * kTask;
        RowBlocks<Op>(x + r * n + first, 1, std::min(kTask, n - first),
                      &partials[static_cast<size_t>(r * blocks + first / kRowBlock)]);
      }
    });
    FinishRows<Op>(e, partials.data(), out);
    return;
  }
  ParallelFor(e.outer, std::max<int64_t>(kTask / std::max<int64_t>(n, 1), 1),
              [&](int64_t begin, int64_t end) {
                typename Op::Partial partials[kChunk];
                const int64_t at_once = kChunk / std::max<int64_t>(blocks, 1);
                if (at_once > 0) {
                  for (int64_t r = begin; r < end; r += at_once) {
                    const int64_t rows = std::min(at_once, end - r);
                    RowBlocks<Op>(x + r * n, rows, n, partials);
                    FinishRows<Op>({rows, n, 1}, partials, out + r);
                  }
                  return;
                }
                for (int64_t r = begin; r < end; ++r) {
                  typename Op::Total total = Op::Begin();
                  for (int64_t i = 0; i < n && !WorkIsCut(); i += kChunk * kRowBlock) {
                    const int64_t piece = std::min(kChunk * kRowBlock, n - i);
                    RowBlocks<Op>(x + r * n + i, 1, piece, partials);
                    total = Fold<Op>(total, partials, RowReduction::BlocksOf(piece));
                  }
                  out[r] = Op::Finish(total, n);
                }
              });
}

/// The whole of a reduction with an inner extent.
template <typename Op>
void ReduceColumns(const ReduceExtent& e, const typename Op::Element* x,
                   typename Op::Element* out) {
  using Total = typename Op::Total;
  const int64_t chunks = (e.inner + kChunk - 1) / kChunk;
  const int64_t chunk_elements = std::min(kChunk, e.inner) * std::max<int64_t>(e.reduced, 1);
  if (e.outer * chunks < 8 && chunk_elements >= 2 * kTask) {
    // Few and long: rows are split.
    const int64_t stripe_rows = std::max<int64_t>(kTask / e.inner, kColumnBlock);
    const int64_t stripes = (e.reduced + stripe_rows - 1) / stripe_rows;
    std::vector<Total> totals(static_cast<size_t>(stripes * e.inner));
    for (int64_t o = 0; o < e.outer; ++o) {
      const auto* block = x + o * e.reduced * e.inner;
      ParallelFor(stripes, 1, [&](int64_t begin, int64_t end) {
        for (int64_t s = begin; s < end; ++s) {
          const int64_t rows = std::min(stripe_rows, e.reduced - s * stripe_rows);
          for (int64_t c = 0; c < e.inner; c += kChunk) {
            RunColumns<Op>(block + s * stripe_rows * e.inner + c, rows,
                           std::min(kChunk, e.inner - c), e.inner, &totals[s * e.inner + c]);
          }
        }
      });
      for (int64_t c = 0; c < e.inner; ++c) {
        Total total = Op::Begin();
        for (int64_t s = 0; s < stripes; ++s) total = Op::Merge(total, totals[s * e.inner + c]);
        out[o * e.inner + c] = Op::Finish(total, e.reduced);
      }
    }
    return;
  }
  ParallelFor(e.outer * chunks, std::max<int64_t>(kTask / chunk_elements, 1),
              [&](int64_t begin, int64_t end) {
                Total totals[kChunk];
                for (int64_t item = begin; item < end; ++item) {
                  const int64_t o = item / chunks;
                  const int64_t c = item % chunks * kChunk;
                  const int64_t columns = std::min(kChunk, e.inner - c);
                  RunColumns<Op>(x + o * e.reduced * e.inner + c, e.reduced, columns, e.inner,
                                 totals);
                  auto* to = out + o * e.inner + c;
                  for (int64_t i = 0; i < columns; ++i) to[i] = Op::Finish(totals[i], e.reduced);
                }
              });
}

/// A ReduceFn.
template <typename Op>
void ReduceAll(const ReduceExtent& e, const void* x, void* out) {
  const auto* from = static_cast<const typename Op::Element*>(x);
  auto* to = static_cast<typename Op::Element*>(out);
  if (e.inner == 1) {
    ReduceRows<Op>(e, from, to);
  } else {
    ReduceColumns<Op>(e, from, to);
  }
}

/// Every way to do it.
template <typename Op>
inline constexpr ReductionLoops kLoops = {
    ReduceAll<Op>, {RowBlocks<Op>, FinishRows<Op>, sizeof(typename Op::Partial)}};

}  // namespace formwork::reduce_loops
