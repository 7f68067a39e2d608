#pragma once

// Square roots and logarithms of matrices, by Eigen, in double precision.

#include <complex>
#include <cstdint>

namespace formwork {

/// The largest n: what they call in Eigen cannot be stopped.
inline constexpr int64_t kLargestFunction = 256;

/// The principal square root of an n x n row-major matrix of double or complex<double>, and the
/// principal logarithm. NaN where there is none, or `a` is not finite.
template <typename T>
void SquareRootOfMatrix(int64_t n, const T* a, T* root);
void LogarithmOfMatrix(int64_t n, const std::complex<double>* a, std::complex<double>* logarithm);

}  // namespace formwork
