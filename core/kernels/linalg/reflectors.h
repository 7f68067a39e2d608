#pragma once

// Householder reflectors: what QR, tridiagonal and bidiagonal forms are made by. Row-major matrices
// of float, double and complex numbers of both. Large ones are split over threads and can be
// stopped; results are then unfinished.

#include <cstdint>

namespace formwork {

/// `a`, m x n, becomes R on and above the diagonal, and below it the vectors of min(m, n)
/// reflectors without their leading 1; `taus` their factors: reflector i is I - taus[i] v v^H, and
/// R is the last of them times ... times the first times a.
template <typename T>
void FactorQr(int64_t m, int64_t n, T* a, int64_t lda, T* taus);

/// The first `cols` columns of Q, m x m, with Q^H the product of `count` reflectors as FactorQr
/// leaves them below the diagonal of `a`: count <= cols <= m.
template <typename T>
void FormQ(int64_t m, int64_t count, const T* a, int64_t lda, const T* taus, int64_t cols, T* q,
           int64_t ldq);

/// c = Q^H c, or Q c, c being m x cols.
template <typename T>
void MultiplyByQ(bool adjoint, int64_t m, int64_t count, const T* a, int64_t lda, const T* taus,
                 int64_t cols, T* c, int64_t ldc);

}  // namespace formwork
