#include "core/kernels/linalg/factor.h"

#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <algorithm>
#include <complex>
#include <memory>
#include <utility>

#include "core/base/parallel.h"
#include "core/base/stop_flag.h"
#include "core/kernels/linalg/eigen.h"
#include "core/kernels/linalg/triangular.h"

namespace formwork {
namespace {

constexpr int64_t kLeaf = 32;  // Columns that Eigen factors.
constexpr int64_t kRows = 64;  // Rows that are solved at a time, and products of a triangle.

int64_t FirstHalf(int64_t n, int64_t leaf) { return (n / 2 + leaf - 1) / leaf * leaf; }

// b = b l^-H of a lower triangle l, n x n: its rows are solved as columns.
template <typename T>
void SolveFromRight(int64_t rows, int64_t n, const T* l, int64_t ldl, T* b, int64_t ldb) {
  const int64_t blocks = (rows + kRows - 1) / kRows;
  const int64_t work = kRows * n * n;
  ParallelFor(blocks, std::max<int64_t>((1 << 18) / (work + 1), 1),
              [&](int64_t begin, int64_t end) {
                const std::unique_ptr<T[]> columns(new T[static_cast<size_t>(n * kRows)]);
                for (int64_t block = begin; block < end; ++block) {
                  const int64_t first = block * kRows, count = std::min(kRows, rows - first);
                  T* const from = b + first * ldb;
                  for (int64_t i = 0; i < count; ++i) {
                    for (int64_t j = 0; j < n; ++j)
                      columns[j * count + i] = Conjugate(from[i * ldb + j]);
                  }
                  SolveTriangular({.lower = true}, n, count, l, ldl, columns.get(), count);
                  for (int64_t i = 0; i < count; ++i) {
                    for (int64_t j = 0; j < n; ++j)
                      from[i * ldb + j] = Conjugate(columns[j * count + i]);
                  }
                }
              });
}

// The same without a chain of small products where n is large.
template <typename T>
void SolveFromRightByHalves(int64_t rows, int64_t n, const T* l, int64_t ldl, T* b, int64_t ldb) {
  if (n <= 2 * kLeaf) return SolveFromRight(rows, n, l, ldl, b, ldb);
  if (WorkIsCut()) return;
  const int64_t left = FirstHalf(n, kLeaf), right = n - left;
  SolveFromRightByHalves(rows, left, l, ldl, b, ldb);
  SubtractProduct(Op::kPlain, Op::kAdjoint, rows, right, left, b, ldb, l + left * ldl, ldl,
                  b + left, ldb);
  SolveFromRightByHalves(rows, right, l + left * ldl + left, ldl, b + left, ldb);
}

// The lower triangle of c, n x n, less that of a a^H, a being n x k. Of the squares on the diagonal
// what is above it is spared.
template <typename T>
void SubtractSquare(int64_t n, int64_t k, const T* a, int64_t lda, T* c, int64_t ldc) {
  if (n <= kLeaf) {
    const std::unique_ptr<T[]> square(new T[static_cast<size_t>(n * n)]);
    SetProduct(Op::kPlain, Op::kAdjoint, n, n, k, a, lda, a, lda, square.get(), n);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j <= i; ++j) c[i * ldc + j] -= square[i * n + j];
    }
    return;
  }
  if (WorkIsCut()) return;
  const int64_t top = FirstHalf(n, kLeaf), bottom = n - top;
  SubtractSquare(top, k, a, lda, c, ldc);
  SubtractProduct(Op::kPlain, Op::kAdjoint, bottom, top, k, a + top * lda, lda, a, lda,
                  c + top * ldc, ldc);
  SubtractSquare(bottom, k, a + top * lda, lda, c + top * ldc + top, ldc);
}

template <typename T>
void SwapRows(T* a, int64_t lda, int64_t cols, int64_t count, const int64_t* with) {
  for (int64_t i = 0; i < count; ++i) {
    if (with[i] != i) std::swap_ranges(a + i * lda, a + i * lda + cols, a + with[i] * lda);
  }
}

// Of rows x cols, rows >= cols. with[i] is the row that row i was exchanged with at step i. Returns
// how many were.
template <typename T>
int64_t FactorPanel(int64_t rows, int64_t cols, T* a, int64_t lda, int64_t* with) {
  if (cols <= kLeaf / 2) {
    Eigen::Ref<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> panel =
        RowMajorMap<T>(a, rows, cols, Eigen::OuterStride<>(lda));
    int64_t exchanged = 0;
    Eigen::internal::partial_lu_impl<T, Eigen::RowMajor, int64_t>::unblocked_lu(panel, with,
                                                                                exchanged);
    return exchanged;
  }
  for (int64_t i = 0; i < cols; ++i) with[i] = i;
  if (WorkIsCut()) return 0;
  const int64_t left = FirstHalf(cols, kLeaf / 2), right = cols - left;
  int64_t exchanged = FactorPanel(rows, left, a, lda, with);
  SwapRows(a + left, lda, right, left, with);
  T* const corner = a + left * lda + left;
  SolveTriangular({.lower = true, .unit = true}, left, right, a, lda, a + left, lda);
  SubtractProduct(Op::kPlain, Op::kPlain, rows - left, right, left, a + left * lda, lda, a + left,
                  lda, corner, lda);
  exchanged += FactorPanel(rows - left, right, corner, lda, with + left);
  SwapRows(a + left * lda, lda, left, right, with + left);
  for (int64_t i = left; i < cols; ++i) with[i] += left;
  return exchanged;
}

}  // namespace

template <typename T>
bool FactorCholesky(int64_t n, T* a, int64_t lda) {
  if (n <= kLeaf) {
    RowMajorMap<T> matrix(a, n, n, Eigen::OuterStride<>(lda));
    return Eigen::internal::llt_inplace<T, Eigen::Lower>::unblocked(matrix) < 0;
  }
  if (WorkIsCut()) return true;
  const int64_t top = FirstHalf(n, kLeaf), bottom = n - top;
  T* const side = a + top * lda;
  if (!FactorCholesky(top, a, lda)) return false;
  SolveFromRightByHalves(bottom, top, a, lda, side, lda);
  SubtractSquare(bottom, top, side, lda, side + top, lda);
  return FactorCholesky(bottom, side + top, lda);
}

template <typename T>
bool FactorLu(int64_t n, T* a, int64_t lda, int64_t* order) {
  if (n == 0) return false;
  const std::unique_ptr<int64_t[]> with(new int64_t[static_cast<size_t>(n)]);
  const bool odd = FactorPanel(n, n, a, lda, with.get()) % 2 != 0;
  for (int64_t i = 0; i < n; ++i) order[i] = i;
  for (int64_t i = 0; i < n; ++i) std::swap(order[i], order[with[i]]);
  return odd;
}

template bool FactorCholesky<float>(int64_t, float*, int64_t);
template bool FactorCholesky<double>(int64_t, double*, int64_t);
template bool FactorCholesky<std::complex<float>>(int64_t, std::complex<float>*, int64_t);
template bool FactorCholesky<std::complex<double>>(int64_t, std::complex<double>*, int64_t);
template bool FactorLu<float>(int64_t, float*, int64_t, int64_t*);
template bool FactorLu<double>(int64_t, double*, int64_t, int64_t*);
template bool FactorLu<std::complex<float>>(int64_t, std::complex<float>*, int64_t, int64_t*);
template bool FactorLu<std::complex<double>>(int64_t, std::complex<double>*, int64_t, int64_t*);

}  // namespace formwork
