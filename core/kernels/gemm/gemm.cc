#include "core/kernels/gemm/gemm.h"

#include <dnnl.h>

#include <algorithm>

#include "core/base/parallel.h"
#include "core/base/stop_flag.h"
#include "core/kernels/gemm/blocked_gemm.h"
#include "core/kernels/gemm/onednn_setup.h"
#include "core/kernels/isa.h"

namespace formwork {
namespace {

// Multiplications up to which plain loops beat the way into a library (measured: between 4 x 4 x 4
// and 8 x 8 x 8).
constexpr int64_t kSmall = 256;
// Multiplications that are worth a task: 20 us at 100 Gflop/s.
constexpr int64_t kTask = 1 << 20;
// The same of a row, which takes as long as the matrix takes to be read: some 10 us from the
// second-level cache. Two parts cost 3 us more than one, so that a thread has to be free.
constexpr int64_t kRowTask = 1 << 17;
// Multiplications between two looks at the StopFlag: 10 to 50 ms.
constexpr double kPiece = 1 << 30;
// What a longer sum is split into where a product is that large.
constexpr int64_t kPieceDepth = 1 << 16;
constexpr int64_t kUnit = 48;  // Pieces end where tiles do.

template <typename T>
struct Operands {
  bool trans_a, trans_b;
  int64_t m, n, k;
  const T* a;
  int64_t lda;
  const T* b;
  int64_t ldb;
  bool accumulate;
  T* c;
  int64_t ldc;
};

// Several sums side by side: one alone waits for each addition.
template <typename T>
FORMWORK_ISA_INLINE T Dot(int64_t n, const T* a, const T* b) {
  constexpr int kSums = 16;
  T sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (int s = 0; s < kSums; ++s) sums[s] += a[i + s] * b[i + s];
  }
  T sum = T(0);
  for (; i < n; ++i) sum += a[i] * b[i];
  for (int s = 0; s < kSums; ++s) sum += sums[s];
  return sum;
}

// Plain loops: for small products, and for a row times a matrix, which is bound by memory.
template <typename T>
struct PlainProduct {
  FORMWORK_ISA_INLINE static void Run(const Operands<T>* operands) {
    const Operands<T>& g = *operands;
    if (g.k == 0) {  // The operands have no elements, nor addresses.
      for (int64_t i = 0; i < g.m && !g.accumulate; ++i) std::fill_n(g.c + i * g.ldc, g.n, T(0));
      return;
    }
    const int64_t a_row = g.trans_a ? 1 : g.lda;
    const int64_t a_column = g.trans_a ? g.lda : 1;
    for (int64_t i = 0; i < g.m; ++i) {
      const T* a = g.a + i * a_row;
      T* __restrict c = g.c + i * g.ldc;
      if (g.trans_b) {
        for (int64_t j = 0; j < g.n; ++j) {
          const T* b = g.b + j * g.ldb;
          T sum = g.accumulate ? c[j] : T(0);
          if (a_column == 1) {
            sum += Dot(g.k, a, b);
          } else {
            for (int64_t p = 0; p < g.k; ++p) sum += a[p * a_column] * b[p];
          }
          c[j] = sum;
        }
        continue;
      }
      if (!g.accumulate) {
        for (int64_t j = 0; j < g.n; ++j) c[j] = T(0);
      }
      int64_t p = 0;
      for (; p + kRows <= g.k; p += kRows) AddRows<kRows>(g, a + p * a_column, a_column, p, c);
      for (; p < g.k; ++p) AddRows<1>(g, a + p * a_column, a_column, p, c);
    }
  }

  static constexpr int kRows = 4;
  static constexpr int kLine = 64 / static_cast<int>(sizeof(T));

  // c += a's elements times the rows of b from p on, while as many further ones are on their way.
  template <int kCount>
  FORMWORK_ISA_INLINE static void AddRows(const Operands<T>& g, const T* a, int64_t a_column,
                                          int64_t p, T* __restrict c) {
    T by[kCount];
    const T* b[kCount];
    for (int r = 0; r < kCount; ++r) {
      by[r] = a[r * a_column];
      b[r] = g.b + (p + r) * g.ldb;
    }
    int64_t j = 0;
    for (; j + kLine <= g.n; j += kLine) {
      for (int r = 0; r < kCount; ++r) __builtin_prefetch(b[r] + j + kCount * g.ldb);
      for (int i = 0; i < kLine; ++i) {
        T sum = c[j + i];
        for (int r = 0; r < kCount; ++r) sum += by[r] * b[r][j + i];
        c[j + i] = sum;
      }
    }
    for (; j < g.n; ++j) {
      for (int r = 0; r < kCount; ++r) c[j] += by[r] * b[r][j];
    }
  }
};

// Whether plain loops multiply a row by a matrix that they read row after row: each element is the
// same sum then, wherever the columns are split.
template <typename T>
bool IsPlainRow(const Operands<T>& g) {
  return g.m == 1 && !g.trans_b && HostIsa() != Isa::kBaseline;
}

template <typename T>
void OneThread(const Operands<T>& g) {
  if (g.n == 1 && g.ldc == 1) {
    // A matrix times a column is the column as a row times the matrix transposed.
    const Operands<T> row = {!g.trans_b, !g.trans_a, 1,     g.m,          g.k, g.b,
                             g.ldb,      g.a,        g.lda, g.accumulate, g.c, g.m};
    ForHostIsa<PlainProduct<T>>(&row);
    return;
  }
  if (g.m == 1) {
    ForHostIsa<PlainProduct<T>>(&g);
    return;
  }
  BlockedGemm<T>(g.trans_a, g.trans_b, g.m, g.n, g.k, g.a, g.lda, g.b, g.ldb, g.accumulate, g.c,
                 g.ldc);
}

template <>
void OneThread(const Operands<float>& g) {
  if (IsPlainRow(g)) {
    ForHostIsa<PlainProduct<float>>(&g);
    return;
  }
  SetUpOnednn();
  const dnnl_status_t status =
      dnnl_sgemm(g.trans_a ? 'T' : 'N', g.trans_b ? 'T' : 'N', g.m, g.n, g.k, 1.0f, g.a, g.lda, g.b,
                 g.ldb, g.accumulate ? 1.0f : 0.0f, g.c, g.ldc);
  if (status == dnnl_success) return;
  // Out of scratch memory, or a size that it does not take. It has not begun then.
  BlockedGemm<float>(g.trans_a, g.trans_b, g.m, g.n, g.k, g.a, g.lda, g.b, g.ldb, g.accumulate, g.c,
                     g.ldc);
}

template <typename T>
double Work(const Operands<T>& g) {
  // As double: m n k may overflow, and nothing but the order of magnitude matters.
  return static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
}

// The part that makes rows, or columns, [begin, end) of c.
template <typename T>
Operands<T> Part(Operands<T> g, bool by_rows, int64_t begin, int64_t end) {
  if (by_rows) {
    g.m = end - begin;
    g.a += begin * (g.trans_a ? 1 : g.lda);
    g.c += begin * g.ldc;
  } else {
    g.n = end - begin;
    g.b += begin * (g.trans_b ? g.ldb : 1);
    g.c += begin;
  }
  return g;
}

// On one thread, in pieces that are short enough to be stopped between.
template <typename T>
void InPieces(const Operands<T>& g) {
  if (WorkIsCut()) return;
  const bool by_rows = g.m > g.n;
  const int64_t extent = by_rows ? g.m : g.n;
  if (Work(g) <= kPiece || extent < 2 * kUnit) return OneThread(g);
  const int64_t middle = extent / 2 / kUnit * kUnit;
  InPieces(Part(g, by_rows, 0, middle));
  InPieces(Part(g, by_rows, middle, extent));
}

// Splits c into stripes of rows or columns, whichever there are more of.
template <typename T>
void Product(const Operands<T>& g) {
  if (g.m == 0 || g.n == 0) return;
  const double work = Work(g);
  if (g.k == 0) {
    ParallelFor(g.m, std::max<int64_t>(kTask / g.n, 1), [&](int64_t begin, int64_t end) {
      const Operands<T> rows = Part(g, true, begin, end);
      ForHostIsa<PlainProduct<T>>(&rows);
    });
    return;
  }
  if (work <= kSmall) {
    ForHostIsa<PlainProduct<T>>(&g);
    return;
  }
  if (work > kPiece && g.k > kPieceDepth) {
    // Whatever the number of threads: where a sum is split decides its last bits.
    for (int64_t p = 0; p < g.k && !WorkIsCut(); p += kPieceDepth) {
      Operands<T> part = g;
      part.k = std::min(kPieceDepth, g.k - p);
      part.a += p * (g.trans_a ? g.lda : 1);
      part.b += p * (g.trans_b ? 1 : g.ldb);
      part.accumulate = g.accumulate || p > 0;
      Product(part);
    }
    return;
  }
  const bool row = IsPlainRow(g) && work < 2 * kTask;
  const int64_t task = row ? kRowTask : kTask;
  const bool splits = work >= 2 * task && (!row || ThreadsAreFree());
  const int threads = splits ? ParallelThreads() : 1;
  if (threads == 1) return work > kPiece ? InPieces(g) : OneThread(g);
  const bool by_rows = g.m > g.n;
  const int64_t extent = by_rows ? g.m : g.n;
  const int64_t units = (extent + kUnit - 1) / kUnit;
  const auto most = static_cast<int64_t>(std::min(work / task, 1e6));
  const int64_t stripes = std::clamp<int64_t>(std::min<int64_t>(most, threads), 1, units);
  ParallelFor(stripes, 1, [&](int64_t first, int64_t last) {
    const int64_t begin = units * first / stripes * kUnit;
    const int64_t end = std::min(units * last / stripes * kUnit, extent);
    if (begin < end) InPieces(Part(g, by_rows, begin, end));
  });
}

}  // namespace

void Gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda,
          const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  Product<float>({trans_a, trans_b, m, n, k, a, lda, b, ldb, beta != 0, c, ldc});
}
void Gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const double* a, int64_t lda,
          const double* b, int64_t ldb, double beta, double* c, int64_t ldc) {
  Product<double>({trans_a, trans_b, m, n, k, a, lda, b, ldb, beta != 0, c, ldc});
}
void Gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const uint32_t* a,
          int64_t lda, const uint32_t* b, int64_t ldb, uint32_t beta, uint32_t* c, int64_t ldc) {
  Product<uint32_t>({trans_a, trans_b, m, n, k, a, lda, b, ldb, beta != 0, c, ldc});
}
void Gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const uint64_t* a,
          int64_t lda, const uint64_t* b, int64_t ldb, uint64_t beta, uint64_t* c, int64_t ldc) {
  Product<uint64_t>({trans_a, trans_b, m, n, k, a, lda, b, ldb, beta != 0, c, ldc});
}

}  // namespace formwork
