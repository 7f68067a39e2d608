#include "core/kernels/linalg/triangular.h"

#include <algorithm>
#include <complex>

#include "core/base/parallel.h"
#include "core/base/stop_flag.h"

namespace formwork {
namespace {

constexpr int64_t kLeaf = 32;       // Rows that are solved by substitution.
constexpr int64_t kTask = 1 << 18;  // Multiplications that are worth a task of their own.

// to -= by * from.
template <typename R>
FORMWORK_ISA_INLINE void SubtractRow(int64_t n, R by, const R* __restrict from, R* __restrict to) {
  for (int64_t j = 0; j < n; ++j) to[j] -= by * from[j];
}
template <typename R>
FORMWORK_ISA_INLINE void SubtractRow(int64_t n, std::complex<R> by, const std::complex<R>* from,
                                     std::complex<R>* to) {
  const R re = by.real(), im = by.imag();
  const R* __restrict f = reinterpret_cast<const R*>(from);
  R* __restrict t = reinterpret_cast<R*>(to);
  for (int64_t j = 0; j < n; ++j) {
    const R x = f[2 * j], y = f[2 * j + 1];
    t[2 * j] -= re * x - im * y;
    t[2 * j + 1] -= re * y + im * x;
  }
}

// Row by row, those before subtracted.
template <typename T>
struct Substitution {
  FORMWORK_ISA_INLINE static void Run(const Triangle* triangle, int64_t n, int64_t cols, const T* a,
                                      int64_t lda, T* b, int64_t ldb) {
    const bool adjoint = triangle->op == Op::kAdjoint;
    const bool forward = triangle->lower != adjoint;
    for (int64_t step = 0; step < n; ++step) {
      const int64_t i = forward ? step : n - 1 - step;
      T* const row = b + i * ldb;
      for (int64_t before = 0; before < step; ++before) {
        const int64_t p = forward ? before : n - 1 - before;
        SubtractRow(cols, adjoint ? Conjugate(a[p * lda + i]) : a[i * lda + p], b + p * ldb, row);
      }
      if (triangle->unit) continue;
      const T diagonal = adjoint ? Conjugate(a[i * lda + i]) : a[i * lda + i];
      for (int64_t j = 0; j < cols; ++j) row[j] /= diagonal;
    }
  }
};

}  // namespace

template <typename T>
void SolveTriangular(Triangle triangle, int64_t n, int64_t cols, const T* a, int64_t lda, T* b,
                     int64_t ldb) {
  if (n <= kLeaf) {
    ParallelFor(cols, std::max<int64_t>(kTask / (n * n + 1), 16), [&](int64_t begin, int64_t end) {
      ForHostIsa<Substitution<T>>(&triangle, n, end - begin, a, lda, b + begin, ldb);
    });
    return;
  }
  if (WorkIsCut()) return;
  const bool adjoint = triangle.op == Op::kAdjoint;
  const int64_t top = (n / 2 + kLeaf - 1) / kLeaf * kLeaf, bottom = n - top;
  const T* const last = a + top * lda + top;
  // What is stored beside the two triangles.
  const T* const side = triangle.lower ? a + top * lda : a + top;
  if (triangle.lower != adjoint) {
    SolveTriangular(triangle, top, cols, a, lda, b, ldb);
    SubtractProduct(triangle.op, Op::kPlain, bottom, cols, top, side, lda, b, ldb, b + top * ldb,
                    ldb);
    SolveTriangular(triangle, bottom, cols, last, lda, b + top * ldb, ldb);
  } else {
    SolveTriangular(triangle, bottom, cols, last, lda, b + top * ldb, ldb);
    SubtractProduct(triangle.op, Op::kPlain, top, cols, bottom, side, lda, b + top * ldb, ldb, b,
                    ldb);
    SolveTriangular(triangle, top, cols, a, lda, b, ldb);
  }
}

template void SolveTriangular<float>(Triangle, int64_t, int64_t, const float*, int64_t, float*,
                                     int64_t);
template void SolveTriangular<double>(Triangle, int64_t, int64_t, const double*, int64_t, double*,
                                      int64_t);
template void SolveTriangular<std::complex<float>>(Triangle, int64_t, int64_t,
                                                   const std::complex<float>*, int64_t,
                                                   std::complex<float>*, int64_t);
template void SolveTriangular<std::complex<double>>(Triangle, int64_t, int64_t,
                                                    const std::complex<double>*, int64_t,
                                                    std::complex<double>*, int64_t);

}  // namespace formwork
