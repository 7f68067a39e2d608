// What follows from the Schur form of a general matrix: one file, for Eigen's form takes long to
// compile.

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>
#include <unsupported/Eigen/MatrixFunctions>

#include "core/kernels/linalg/decompose.h"
#include "core/kernels/linalg/eigen.h"
#include "core/kernels/linalg/matrix_function.h"

namespace formwork {
namespace {

using C = std::complex<double>;

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;

// Real and complex ones differ in order and signs.
template <typename T>
using Solver = std::conditional_t<std::is_floating_point_v<T>, Eigen::EigenSolver<Matrix<T>>,
                                  Eigen::ComplexEigenSolver<Matrix<T>>>;

// What is computed in: single precision would take as long again to compile.
template <typename T>
using WideOf = std::conditional_t<std::is_floating_point_v<T>, double, std::complex<double>>;

// The square root of a Schur form. False where it is not real, as a whole.
bool SquareRootOfForm(const Matrix<double>& form, Matrix<double>& root) {
  const int64_t n = form.rows();
  for (int64_t i = 0; i < n; ++i) {
    const bool alone = (i == 0 || form(i, i - 1) == 0) && (i + 1 == n || form(i + 1, i) == 0);
    if (alone && !(form(i, i) >= 0)) return false;
  }
  Eigen::matrix_sqrt_quasi_triangular(form, root);
  return true;
}
bool SquareRootOfForm(const Matrix<C>& form, Matrix<C>& root) {
  Eigen::matrix_sqrt_triangular(form, root);
  return true;
}

// log(i + x) of a small upper triangular x: the integral of x / (i + t x) over [0, 1], by Gauss's
// formula of seven points, which is its Pade approximant.
Matrix<C> LogarithmNearOne(const Matrix<C>& x) {
  constexpr double kPoints[] = {0.0254460438286207, 0.12923440720030277, 0.2970774243113014, 0.5,
                                0.7029225756886985, 0.8707655927996972,  0.9745539561713793};
  constexpr double kWeights[] = {0.06474248308443487, 0.13985269574463843, 0.19091502525255935,
                                 0.20897959183673465, 0.19091502525255935, 0.13985269574463843,
                                 0.06474248308443487};
  const Matrix<C> one = Matrix<C>::Identity(x.rows(), x.cols());
  Matrix<C> sum = Matrix<C>::Zero(x.rows(), x.cols());
  for (int i = 0; i < 7; ++i) {
    const Matrix<C> denominator = one + kPoints[i] * x;
    sum += kWeights[i] * denominator.triangularView<Eigen::Upper>().solve(x);
  }
  return sum;
}

}  // namespace

template <typename T>
bool DecomposeGeneral(int64_t n, const T* a, ComplexOf<T>* values, ComplexOf<T>* vectors) {
  const ConstRowMajorMap<T> matrix(a, n, n, Eigen::OuterStride<>(n));
  if (!matrix.allFinite()) return false;
  const Matrix<WideOf<T>> wide = matrix.template cast<WideOf<T>>();
  const Solver<WideOf<T>> solver(wide, vectors != nullptr);
  if (solver.info() != Eigen::Success) return false;
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<ComplexOf<T>>(solver.eigenvalues()(i));
  if (vectors == nullptr) return true;
  const auto wide_vectors = solver.eigenvectors();
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      vectors[i * n + j] = static_cast<ComplexOf<T>>(wide_vectors(i, j));
    }
  }
  return true;
}

template bool DecomposeGeneral<float>(int64_t, const float*, std::complex<float>*,
                                      std::complex<float>*);
template bool DecomposeGeneral<double>(int64_t, const double*, std::complex<double>*,
                                       std::complex<double>*);
template bool DecomposeGeneral<std::complex<float>>(int64_t, const std::complex<float>*,
                                                    std::complex<float>*, std::complex<float>*);
template bool DecomposeGeneral<std::complex<double>>(int64_t, const std::complex<double>*,
                                                     std::complex<double>*, std::complex<double>*);

template <typename T>
void SquareRootOfMatrix(int64_t n, const T* a, T* root) {
  using Form = std::conditional_t<std::is_floating_point_v<T>, Eigen::RealSchur<Matrix<T>>,
                                  Eigen::ComplexSchur<Matrix<T>>>;
  const ConstRowMajorMap<T> matrix(a, n, n, Eigen::OuterStride<>(n));
  if (matrix.allFinite()) {
    const Form form{Matrix<T>(matrix)};
    Matrix<T> of_form = Matrix<T>::Zero(n, n);
    if (form.info() == Eigen::Success && SquareRootOfForm(form.matrixT(), of_form)) {
      RowMajorMap<T>(root, n, n, Eigen::OuterStride<>(n)) =
          form.matrixU() * of_form * form.matrixU().adjoint();
      return;
    }
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::fill(root, root + n * n, T(nan));
}

template void SquareRootOfMatrix<double>(int64_t, const double*, double*);
template void SquareRootOfMatrix<C>(int64_t, const C*, C*);

// Eigen's own takes roots until they are near one, without end where they are not.
void LogarithmOfMatrix(int64_t n, const C* a, C* logarithm) {
  constexpr double kNear = 0.26;  // Where seven points are exact in double.
  constexpr int kMostRoots = 100;
  const ConstRowMajorMap<C> matrix(a, n, n, Eigen::OuterStride<>(n));
  const Matrix<C> one = Matrix<C>::Identity(n, n);
  if (matrix.allFinite()) {
    const Eigen::ComplexSchur<Matrix<C>> schur(matrix);
    Matrix<C> t = schur.matrixT(), root;
    double factor = 1;
    for (int roots = 0; roots < kMostRoots && schur.info() == Eigen::Success; ++roots) {
      const double distance = (t - one).cwiseAbs().colwise().sum().maxCoeff();
      if (!std::isfinite(distance)) break;
      if (distance < kNear) {
        const Matrix<C> result = LogarithmNearOne(t - one) * factor;
        RowMajorMap<C>(logarithm, n, n, Eigen::OuterStride<>(n)) =
            schur.matrixU() * result * schur.matrixU().adjoint();
        return;
      }
      root = Matrix<C>::Zero(n, n);
      Eigen::matrix_sqrt_triangular(t, root);
      t = root.triangularView<Eigen::Upper>();
      factor *= 2;
    }
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::fill(logarithm, logarithm + n * n, C(nan, nan));
}

}  // namespace formwork
