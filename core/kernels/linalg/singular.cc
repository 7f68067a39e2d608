// Small matrices by Eigen's Jacobi rotations, as TensorFlow has them, whose signs these are. Others
// by a QR factorisation, the bidiagonal form of R and implicit QR steps: each is followed by a look
// at the stop flag, which Eigen's divide and conquer does not allow.

#include <Eigen/Householder>
#include <Eigen/Jacobi>
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "core/base/stop_flag.h"
#include "core/kernels/linalg/decompose.h"
#include "core/kernels/linalg/eigen.h"
#include "core/kernels/linalg/jacobi.h"
#include "core/kernels/linalg/reflectors.h"
#include "core/kernels/linalg/rotations.h"

namespace formwork {
namespace {

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;

// A square matrix as left b right^H: b has `diagonal`, and `above` it, right of each but the last.
template <typename T>
struct Bidiagonal {
  Matrix<T> left, right;  // Reflectors, as FactorQr leaves them; those of `right` begin at row 1.
  Vector<T> left_taus, right_taus;
  std::vector<RealOf<T>> diagonal, above;
};

template <typename T>
Bidiagonal<T> MakeBidiagonal(Matrix<T> a) {
  const int64_t n = a.rows();
  Bidiagonal<T> result;
  result.right = Matrix<T>::Zero(n, n);
  result.left_taus = Vector<T>::Zero(n);
  result.right_taus = Vector<T>::Zero(n);
  result.diagonal.resize(static_cast<size_t>(n), 0);
  result.above.resize(static_cast<size_t>(n), 0);
  Vector<T> v(n), work(n);
  for (int64_t k = 0; k < n && !WorkIsCut(); ++k) {
    auto column = v.head(n - k);
    column = a.col(k).tail(n - k);
    column.makeHouseholderInPlace(result.left_taus(k), result.diagonal[k]);
    a.col(k).tail(n - k) = column;
    const int64_t right = n - k - 1;
    if (right == 0) break;
    a.bottomRightCorner(n - k, right)
        .applyHouseholderOnTheLeft(column.tail(right), result.left_taus(k), work.data());
    auto row = v.head(right);
    row = a.row(k).tail(right).adjoint();
    row.makeHouseholderInPlace(result.right_taus(k), result.above[k]);
    result.right.col(k).tail(right) = row;
    a.bottomRightCorner(right, right)
        .applyHouseholderOnTheRight(row.tail(right - 1), Eigen::numext::conj(result.right_taus(k)),
                                    work.data());
  }
  result.left = std::move(a);
  return result;
}

// One step of the block [start, end], with the shift nearest to its last element unless a diagonal
// one is 0: without a shift that is found at once.
template <typename R>
void StepBidiagonal(R* diagonal, R* above, int64_t start, int64_t end, R zero, Rotations<R>* u,
                    Rotations<R>* v) {
  R x = diagonal[start];
  R bulge = above[start];
  if (std::none_of(diagonal + start, diagonal + end + 1,
                   [zero](R d) { return std::abs(d) <= zero; })) {
    // Of the last two rows and columns of the square of the block.
    const R before = end - 1 > start ? above[end - 2] : R(0);
    const R first = diagonal[end - 1] * diagonal[end - 1] + before * before;
    const R last = diagonal[end] * diagonal[end] + above[end - 1] * above[end - 1];
    const R side = diagonal[end - 1] * above[end - 1];
    const R half = (first - last) / 2;
    const R sum = half + (half < 0 ? R(-1) : R(1)) * std::hypot(half, side);
    const R shift = sum == 0 ? last : last - side * side / sum;
    x -= shift / diagonal[start];
  }
  Eigen::JacobiRotation<R> rotation;
  for (int64_t k = start; k < end; ++k) {
    rotation.makeGivens(x, bulge);
    R c = rotation.c(), s = rotation.s();
    if (v != nullptr) v->Add(k, c, s);
    if (k > start) above[k - 1] = c * x - s * bulge;
    const R corner = c * diagonal[k] - s * above[k];
    above[k] = s * diagonal[k] + c * above[k];
    bulge = -s * diagonal[k + 1];
    diagonal[k + 1] *= c;
    rotation.makeGivens(corner, bulge);
    c = rotation.c(), s = rotation.s();
    if (u != nullptr) u->Add(k, c, s);
    diagonal[k] = c * corner - s * bulge;
    const R side = above[k];
    above[k] = c * side - s * diagonal[k + 1];
    diagonal[k + 1] = s * side + c * diagonal[k + 1];
    x = above[k];
    if (k + 1 < end) {
      bulge = -s * above[k + 1];
      above[k + 1] *= c;
    }
  }
}

// The diagonal becomes singular values, of any sign and order; u and v, if any, are multiplied by
// its vectors. False where the iteration does not converge.
template <typename T>
bool Diagonalise(int64_t n, RealOf<T>* diagonal, RealOf<T>* above, T* u, T* v) {
  using R = RealOf<T>;
  constexpr int64_t kStepsPerRow = 60;
  R largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    largest = std::max({largest, std::abs(diagonal[i]), std::abs(above[i])});
  }
  const R zero = std::numeric_limits<R>::epsilon() * largest;
  Rotations<R> u_rotations, v_rotations;
  int64_t end = n - 1;
  for (int64_t steps = 0; end > 0; ++steps) {
    if (steps > kStepsPerRow * n) return false;
    if (WorkIsCut()) return true;
    for (int64_t i = 0; i < end; ++i) {
      if (std::abs(above[i]) <= zero) above[i] = 0;
    }
    while (end > 0 && above[end - 1] == 0) --end;
    if (end == 0) break;
    int64_t start = end - 1;
    while (start > 0 && above[start - 1] != 0) --start;
    StepBidiagonal(diagonal, above, start, end, zero, u == nullptr ? nullptr : &u_rotations,
                   v == nullptr ? nullptr : &v_rotations);
    if (u_rotations.full()) u_rotations.Apply(n, n, u, n);
    if (v_rotations.full()) v_rotations.Apply(n, n, v, n);
  }
  if (u != nullptr) u_rotations.Apply(n, n, u, n);
  if (v != nullptr) v_rotations.Apply(n, n, v, n);
  return true;
}

// m >= n. u is m x u_cols, n <= u_cols <= m.
template <typename T>
bool DecomposeTall(int64_t m, int64_t n, Matrix<T> a, int64_t u_cols, RealOf<T>* values, T* u,
                   T* v) {
  using R = RealOf<T>;
  R scale = a.cwiseAbs().maxCoeff();  // So that nothing overflows or underflows.
  if (scale == 0) scale = R(1);
  a /= scale;
  Vector<T> taus(n);
  FactorQr(m, n, a.data(), n, taus.data());
  Bidiagonal<T> form =
      MakeBidiagonal<T>(Matrix<T>(a.topRows(n).template triangularView<Eigen::Upper>()));
  Matrix<T> left, right;
  if (u != nullptr) {
    left.resize(n, n);
    FormQ(n, n, form.left.data(), n, form.left_taus.data(), n, left.data(), n);
    right = Matrix<T>::Identity(n, n);
    // Vector k, in column k, has its leading 1 in row k + 1.
    FormQ(n - 1, n - 1, form.right.data() + n, n, form.right_taus.data(), n - 1,
          right.data() + n + 1, n);
  }
  if (!Diagonalise(n, form.diagonal.data(), form.above.data(), left.size() ? left.data() : nullptr,
                   right.size() ? right.data() : nullptr)) {
    return false;
  }
  if (WorkIsCut()) return true;
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    return std::abs(form.diagonal[i]) > std::abs(form.diagonal[j]);
  });
  for (int64_t j = 0; j < n; ++j) values[j] = std::abs(form.diagonal[order[j]]) * scale;
  if (u == nullptr) return true;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < u_cols; ++j) {
      u[i * u_cols + j] = i < n && j < n ? left(i, order[j]) : T(i == j ? 1 : 0);
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const T x = right(i, order[j]);
      v[i * n + j] = form.diagonal[order[j]] < 0 ? -x : x;
    }
  }
  MultiplyByQ(false, m, n, a.data(), n, taus.data(), u_cols, u, u_cols);
  return true;
}

}  // namespace

template <typename T>
bool DecomposeSingular(int64_t m, int64_t n, const T* a, bool full, RealOf<T>* values, T* u, T* v) {
  constexpr int64_t kJacobi = 16;               // From here on TensorFlow divides and conquers.
  constexpr int64_t kJacobiElements = 1 << 16;  // Of which Eigen takes some milliseconds.
  const ConstRowMajorMap<T> matrix(a, m, n, Eigen::OuterStride<>(n));
  if (!matrix.allFinite()) return false;
  if (std::min(m, n) < kJacobi && m * n <= kJacobiElements) {
    return DecomposeByJacobi(m, n, a, full, values, u, v);
  }
  if (m >= n) return DecomposeTall<T>(m, n, matrix, full ? m : n, values, u, v);
  return DecomposeTall<T>(n, m, matrix.adjoint(), full ? n : m, values, v, u);
}

template bool DecomposeSingular<float>(int64_t, int64_t, const float*, bool, float*, float*,
                                       float*);
template bool DecomposeSingular<double>(int64_t, int64_t, const double*, bool, double*, double*,
                                        double*);
template bool DecomposeSingular<std::complex<float>>(int64_t, int64_t, const std::complex<float>*,
                                                     bool, float*, std::complex<float>*,
                                                     std::complex<float>*);
template bool DecomposeSingular<std::complex<double>>(int64_t, int64_t, const std::complex<double>*,
                                                      bool, double*, std::complex<double>*,
                                                      std::complex<double>*);

}  // namespace formwork
