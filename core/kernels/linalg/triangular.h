#pragma once

// Systems of equations with triangular matrices.

#include <cstdint>

#include "core/kernels/linalg/product.h"

namespace formwork {

/// Which elements of a square matrix count, and how it is read.
struct Triangle {
  bool lower;
  Op op = Op::kPlain;
  bool unit = false;  ///< Its diagonal is of ones, whatever is stored.
};

/// b = op(a)^-1 b: a is n x n, b is n x cols, both row-major. Of float, double and complex numbers
/// of both. Where the diagonal has a 0 the result has infinities or NaNs. Large systems are split
/// over threads and can be stopped; b is then unfinished.
template <typename T>
void SolveTriangular(Triangle triangle, int64_t n, int64_t cols, const T* a, int64_t lda, T* b,
                     int64_t ldb);

}  // namespace formwork
