// Householder's tridiagonal form, then implicit QR steps, each followed by a look at the stop flag:
// the algorithm of Eigen's SelfAdjointEigenSolver, so that signs are its own.

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "core/base/stop_flag.h"
#include "core/kernels/linalg/decompose.h"
#include "core/kernels/linalg/eigen.h"
#include "core/kernels/linalg/reflectors.h"
#include "core/kernels/linalg/rotations.h"

namespace formwork {
namespace {

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;

// The lower triangle becomes tridiagonal, with reflectors below; their factors go to `taus`.
template <typename T>
void MakeTridiagonal(Matrix<T>& a, Vector<T>& taus) {
  const int64_t n = a.rows();
  Vector<T> v(n), w(n);
  for (int64_t i = 0; i < n - 1 && !WorkIsCut(); ++i) {
    const int64_t left = n - i - 1;
    auto tail = v.head(left);
    auto change = w.head(left);
    tail = a.col(i).tail(left);
    RealOf<T> beta;
    tail.makeHouseholderInPlace(taus(i), beta);
    tail(0) = T(1);
    const T tau = Eigen::numext::conj(taus(i));
    auto rest = a.bottomRightCorner(left, left);
    change.noalias() = rest.template selfadjointView<Eigen::Lower>() * (tau * tail);
    change += (tau * RealOf<T>(-0.5) * change.dot(tail)) * tail;
    rest.template selfadjointView<Eigen::Lower>().rankUpdate(tail, change, T(-1));
    tail(0) = beta;
    a.col(i).tail(left) = tail;
  }
}

// One step of the block [start, end] of a tridiagonal matrix, with Wilkinson's shift.
template <typename R>
void StepTridiagonal(R* diagonal, R* beside, int64_t start, int64_t end, Rotations<R>* rotations) {
  const R half = (diagonal[end - 1] - diagonal[end]) * R(0.5);
  const R e = beside[end - 1];
  R shift = diagonal[end];
  if (half == 0) {
    shift -= std::abs(e);
  } else if (e != 0) {
    const R square = e * e;
    const R h = half + (half > 0 ? R(1) : R(-1)) * Eigen::numext::hypot(half, e);
    shift -= square == 0 ? e / (h / e) : square / h;
  }
  R x = diagonal[start] - shift;
  R bulge = beside[start];
  for (int64_t k = start; k < end && bulge != 0; ++k) {
    Eigen::JacobiRotation<R> rotation;
    rotation.makeGivens(x, bulge);
    const R c = rotation.c(), s = rotation.s();
    const R below = s * diagonal[k] + c * beside[k];
    const R next = s * beside[k] + c * diagonal[k + 1];
    diagonal[k] = c * (c * diagonal[k] - s * beside[k]) - s * (c * beside[k] - s * diagonal[k + 1]);
    diagonal[k + 1] = s * below + c * next;
    beside[k] = c * below - s * next;
    if (k > start) beside[k - 1] = c * beside[k - 1] - s * bulge;
    x = beside[k];
    if (k < end - 1) {
      bulge = -s * beside[k + 1];
      beside[k + 1] *= c;
    }
    if (rotations != nullptr) rotations->Add(k, c, s);
  }
}

// Of a tridiagonal matrix; q, if any, becomes q times its eigenvectors.
template <typename T>
bool Diagonalise(int64_t n, RealOf<T>* diagonal, RealOf<T>* beside, T* q) {
  using R = RealOf<T>;
  constexpr int64_t kStepsPerRow = 30;
  constexpr R kTiny = std::numeric_limits<R>::min();
  constexpr R kInverse = R(1) / std::numeric_limits<R>::epsilon();
  Rotations<R> rotations;
  int64_t start = 0, end = n - 1, steps = 0;
  while (end > 0) {
    for (int64_t i = start; i < end; ++i) {
      const R scaled = kInverse * beside[i];
      if (std::abs(beside[i]) < kTiny ||
          scaled * scaled <= std::abs(diagonal[i]) + std::abs(diagonal[i + 1])) {
        beside[i] = 0;
      }
    }
    while (end > 0 && beside[end - 1] == 0) --end;
    if (end == 0) break;
    if (++steps > kStepsPerRow * n) return false;
    if (WorkIsCut()) return true;
    start = end - 1;
    while (start > 0 && beside[start - 1] != 0) --start;
    StepTridiagonal(diagonal, beside, start, end, q == nullptr ? nullptr : &rotations);
    if (rotations.full()) rotations.Apply(n, n, q, n);
  }
  if (q != nullptr) rotations.Apply(n, n, q, n);
  return true;
}

// Exchanges as a selection sort does; NaNs stay where they are.
template <typename T>
void SortAscending(int64_t n, RealOf<T>* values, T* vectors) {
  std::vector<int64_t> from(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) from[i] = i;
  for (int64_t i = 0; i < n - 1 && !WorkIsCut(); ++i) {
    int64_t least = i;
    for (int64_t j = i + 1; j < n; ++j) {
      if (values[j] < values[least]) least = j;
    }
    std::swap(values[i], values[least]);
    std::swap(from[i], from[least]);
  }
  if (vectors == nullptr) return;
  std::vector<T> row(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    T* const to = vectors + i * n;
    std::copy(to, to + n, row.data());
    for (int64_t j = 0; j < n; ++j) to[j] = row[from[j]];
  }
}

}  // namespace

template <typename T>
bool DecomposeSelfAdjoint(int64_t n, const T* a, RealOf<T>* values, T* vectors) {
  using R = RealOf<T>;
  if (n == 1) {
    values[0] = std::real(a[0]);
    if (vectors != nullptr) vectors[0] = T(1);
    return true;
  }
  Matrix<T> form =
      ConstRowMajorMap<T>(a, n, n, Eigen::OuterStride<>(n)).template triangularView<Eigen::Lower>();
  R scale = form.cwiseAbs().maxCoeff();  // So that nothing overflows or underflows.
  if (scale == 0) scale = R(1);
  form.template triangularView<Eigen::Lower>() /= scale;
  Vector<T> taus = Vector<T>::Zero(n - 1);
  MakeTridiagonal(form, taus);
  std::vector<R> beside(static_cast<size_t>(n - 1));
  for (int64_t i = 0; i < n; ++i) {
    values[i] = std::real(form(i, i));
    if (i + 1 < n) beside[i] = std::real(form(i + 1, i));
  }
  if (vectors != nullptr) {
    std::fill(vectors, vectors + n * n, T(0));
    vectors[0] = T(1);
    FormQ(n - 1, n - 1, form.data() + n, n, taus.data(), n - 1, vectors + n + 1, n);
  }
  if (!Diagonalise(n, values, beside.data(), vectors)) return false;
  SortAscending(n, values, vectors);
  for (int64_t i = 0; i < n; ++i) values[i] *= scale;
  return true;
}

template bool DecomposeSelfAdjoint<float>(int64_t, const float*, float*, float*);
template bool DecomposeSelfAdjoint<double>(int64_t, const double*, double*, double*);
template bool DecomposeSelfAdjoint<std::complex<float>>(int64_t, const std::complex<float>*, float*,
                                                        std::complex<float>*);
template bool DecomposeSelfAdjoint<std::complex<double>>(int64_t, const std::complex<double>*,
                                                         double*, std::complex<double>*);

}  // namespace formwork
