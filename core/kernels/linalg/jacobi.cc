#include "core/kernels/linalg/jacobi.h"

#include <Eigen/SVD>
#include <algorithm>
#include <complex>
#include <type_traits>

#include "core/kernels/linalg/eigen.h"

namespace formwork {
namespace {

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <typename T>
struct Singular {
  Eigen::Matrix<RealOf<T>, Eigen::Dynamic, 1> values;
  Matrix<T> u, v;
};

template <typename T>
Singular<T> ByJacobi(const Matrix<T>& a, bool vectors, bool full) {
  unsigned options = 0;
  if (vectors) {
    options = full ? Eigen::ComputeFullU | Eigen::ComputeFullV
                   : Eigen::ComputeThinU | Eigen::ComputeThinV;
  }
  const Eigen::JacobiSVD<Matrix<T>> svd(a, options);
  Singular<T> result;
  result.values = svd.singularValues();
  if (vectors) {
    result.u = svd.matrixU();
    result.v = svd.matrixV();
  }
  return result;
}

}  // namespace

template <typename T>
bool DecomposeByJacobi(int64_t m, int64_t n, const T* a, bool full, RealOf<T>* values, T* u, T* v) {
  using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::complex<double>>;
  const ConstRowMajorMap<T> matrix(a, m, n, Eigen::OuterStride<>(n));
  const Singular<Wide> result = ByJacobi<Wide>(matrix.template cast<Wide>(), u != nullptr, full);
  for (int64_t i = 0; i < std::min(m, n); ++i) values[i] = static_cast<RealOf<T>>(result.values(i));
  if (u == nullptr) return true;
  for (int64_t i = 0; i < result.u.size(); ++i) u[i] = static_cast<T>(result.u.data()[i]);
  for (int64_t i = 0; i < result.v.size(); ++i) v[i] = static_cast<T>(result.v.data()[i]);
  return true;
}

template bool DecomposeByJacobi<float>(int64_t, int64_t, const float*, bool, float*, float*,
                                       float*);
template bool DecomposeByJacobi<double>(int64_t, int64_t, const double*, bool, double*, double*,
                                        double*);
template bool DecomposeByJacobi<std::complex<float>>(int64_t, int64_t, const std::complex<float>*,
                                                     bool, float*, std::complex<float>*,
                                                     std::complex<float>*);
template bool DecomposeByJacobi<std::complex<double>>(int64_t, int64_t, const std::complex<double>*,
                                                      bool, double*, std::complex<double>*,
                                                      std::complex<double>*);

}  // namespace formwork
