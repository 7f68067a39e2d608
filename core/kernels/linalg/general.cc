#include <Eigen/Eigenvalues>
#include <algorithm>
#include <complex>
#include <type_traits>

#include "core/kernels/linalg/decompose.h"
#include "core/kernels/linalg/eigen.h"

namespace formwork {
namespace {

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;

// Real and complex ones differ in order and signs.
template <typename T>
using Solver = std::conditional_t<std::is_floating_point_v<T>, Eigen::EigenSolver<Matrix<T>>,
                                  Eigen::ComplexEigenSolver<Matrix<T>>>;

// What is computed in: single precision would take as long again to compile.
template <typename T>
using WideOf = std::conditional_t<std::is_floating_point_v<T>, double, std::complex<double>>;

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

}  // namespace formwork
