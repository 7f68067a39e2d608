#pragma once

// Factorisations of square row-major matrices in place. Of float, double and complex numbers of
// both. Large ones are split over threads and can be stopped; the matrix is then unfinished.

#include <cstdint>

namespace formwork {

/// The lower triangle of `a`, read as that of a self-adjoint matrix, becomes L with L L^H = a. What
/// is above the diagonal is neither read nor written. False where it is not positive definite, as
/// far as is seen; the triangle is then unfinished.
template <typename T>
bool FactorCholesky(int64_t n, T* a, int64_t lda);

/// `a`, with its rows in the order of `order` (n of them), becomes L, below the diagonal, where it
/// has ones, and U. True where the order is an odd permutation. A pivot of 0 is divided by nothing.
template <typename T>
bool FactorLu(int64_t n, T* a, int64_t lda, int64_t* order);

}  // namespace formwork
