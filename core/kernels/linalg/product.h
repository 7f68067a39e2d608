#pragma once

// Products of matrices of any of the dtypes that linear algebra computes in, by Gemm.

#include <complex>
#include <cstdint>

#include "core/kernels/isa.h"

namespace formwork {

template <typename R>
FORMWORK_ISA_INLINE R Conjugate(R x) {
  return x;
}
template <typename R>
FORMWORK_ISA_INLINE std::complex<R> Conjugate(std::complex<R> x) {
  return {x.real(), -x.imag()};
}

/// How a row-major matrix is read.
enum class Op : uint8_t { kPlain, kAdjoint };

/// c = op_a(a) op_b(b) and c -= op_a(a) op_b(b), where op_a(a) is m x k, op_b(b) k x n, and ld is
/// the distance between rows as they are stored. Of float, double and complex numbers of both.
/// Large products are split over threads and can be stopped; c is then unfinished. Takes memory for
/// a copy of one operand, and of both where they are complex.
template <typename T>
void SetProduct(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda,
                const T* b, int64_t ldb, T* c, int64_t ldc);
template <typename T>
void SubtractProduct(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda,
                     const T* b, int64_t ldb, T* c, int64_t ldc);

}  // namespace formwork
