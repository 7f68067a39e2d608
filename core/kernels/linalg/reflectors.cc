#include "core/kernels/linalg/reflectors.h"

#include <Eigen/Householder>
#include <algorithm>
#include <complex>
#include <memory>

#include "core/base/stop_flag.h"
#include "core/kernels/linalg/eigen.h"
#include "core/kernels/linalg/product.h"

namespace formwork {
namespace {

constexpr int64_t kPanel = 32;  // Reflectors that are applied together.

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using ColumnMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
template <typename T>
using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;

// Some reflectors as one: I - v t v^H is their inverse's product, I - v t^H v^H theirs.
template <typename T>
struct Block {
  Matrix<T> v, t;

  // Of those whose vectors are below the diagonal of `a`, rows x count.
  Block(int64_t rows, int64_t count, const T* a, int64_t lda, const T* taus)
      : v(Matrix<T>::Zero(rows, count)), t(Matrix<T>::Zero(count, count)) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < std::min(i, count); ++j) v(i, j) = a[i * lda + j];
      if (i < count) v(i, i) = T(1);
    }
    const Vector<T> factors = Eigen::Map<const Vector<T>>(taus, count).conjugate();
    Eigen::internal::make_block_householder_triangular_factor(t, v, factors);
  }

  // c, rows x cols, is multiplied by the product of the reflectors (adjoint), or by its inverse.
  void Apply(bool adjoint, int64_t cols, T* c, int64_t ldc) const {
    if (cols == 0) return;
    const int64_t rows = v.rows(), count = v.cols();
    const std::unique_ptr<T[]> w(new T[static_cast<size_t>(count * cols)]);
    const std::unique_ptr<T[]> tw(new T[static_cast<size_t>(count * cols)]);
    SetProduct(Op::kAdjoint, Op::kPlain, count, cols, rows, v.data(), count, c, ldc, w.get(), cols);
    SetProduct(adjoint ? Op::kAdjoint : Op::kPlain, Op::kPlain, count, cols, count, t.data(), count,
               w.get(), cols, tw.get(), cols);
    SubtractProduct(Op::kPlain, Op::kPlain, rows, cols, count, v.data(), count, tw.get(), cols, c,
                    ldc);
  }
};

// FactorQr of few columns.
template <typename T>
void FactorPanel(int64_t rows, int64_t cols, T* a, int64_t lda, T* taus) {
  RowMajorMap<T> stored(a, rows, cols, Eigen::OuterStride<>(lda));
  ColumnMatrix<T> panel = stored;
  Vector<T> work(cols);
  for (int64_t k = 0; k < std::min(rows, cols) && !WorkIsCut(); ++k) {
    typename Eigen::NumTraits<T>::Real beta;
    panel.col(k).tail(rows - k).makeHouseholderInPlace(taus[k], beta);
    panel(k, k) = beta;
    panel.bottomRightCorner(rows - k, cols - k - 1)
        .applyHouseholderOnTheLeft(panel.col(k).tail(rows - k - 1), taus[k], work.data());
  }
  stored = panel;
}

}  // namespace

template <typename T>
void FactorQr(int64_t m, int64_t n, T* a, int64_t lda, T* taus) {
  const int64_t count = std::min(m, n);
  std::fill(taus, taus + count, T(0));
  for (int64_t k = 0; k < count && !WorkIsCut(); k += kPanel) {
    const int64_t cols = std::min(kPanel, count - k), right = n - k - cols;
    T* const corner = a + k * lda + k;
    FactorPanel(m - k, cols, corner, lda, taus + k);
    if (right == 0) continue;
    Block<T>(m - k, cols, corner, lda, taus + k).Apply(true, right, corner + cols, lda);
  }
}

template <typename T>
void MultiplyByQ(bool adjoint, int64_t m, int64_t count, const T* a, int64_t lda, const T* taus,
                 int64_t cols, T* c, int64_t ldc) {
  const int64_t panels = (count + kPanel - 1) / kPanel;
  for (int64_t i = 0; i < panels && !WorkIsCut(); ++i) {
    const int64_t k = (adjoint ? i : panels - 1 - i) * kPanel;
    const Block<T> block(m - k, std::min(kPanel, count - k), a + k * lda + k, lda, taus + k);
    block.Apply(adjoint, cols, c + k * ldc, ldc);
  }
}

template <typename T>
void FormQ(int64_t m, int64_t count, const T* a, int64_t lda, const T* taus, int64_t cols, T* q,
           int64_t ldq) {
  for (int64_t i = 0; i < m; ++i) {
    std::fill(q + i * ldq, q + i * ldq + cols, T(0));
    if (i < cols) q[i * ldq + i] = T(1);
  }
  const int64_t panels = (count + kPanel - 1) / kPanel;
  for (int64_t i = panels - 1; i >= 0 && !WorkIsCut(); --i) {
    const int64_t k = i * kPanel;
    const Block<T> block(m - k, std::min(kPanel, count - k), a + k * lda + k, lda, taus + k);
    // Columns before k are still those of the identity, 0 in these rows.
    block.Apply(false, cols - k, q + k * ldq + k, ldq);
  }
}

#define FORMWORK_REFLECTORS(T)                                                                   \
  template void FactorQr<T>(int64_t, int64_t, T*, int64_t, T*);                                  \
  template void FormQ<T>(int64_t, int64_t, const T*, int64_t, const T*, int64_t, T*, int64_t);   \
  template void MultiplyByQ<T>(bool, int64_t, int64_t, const T*, int64_t, const T*, int64_t, T*, \
                               int64_t)
FORMWORK_REFLECTORS(float);
FORMWORK_REFLECTORS(double);
FORMWORK_REFLECTORS(std::complex<float>);
FORMWORK_REFLECTORS(std::complex<double>);
#undef FORMWORK_REFLECTORS

}  // namespace formwork
