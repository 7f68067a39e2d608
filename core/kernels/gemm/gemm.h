#pragma once

// Matrix products of row-major matrices: c = op(a) op(b) + beta c, where op transposes or not,
// op(a) is m x k, op(b) is k x n, and ld is the distance between rows as they are stored.
// README.md says which library is behind and why.

#include <cstdint>

namespace formwork {

/// Large products are split over the compute threads (ParallelFor). beta is 0 (c need not be
/// initialised) or 1. Sizes may be 0. The matrices do not overlap c.
void Gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda,
          const float* b, int64_t ldb, float beta, float* c, int64_t ldc);
void Gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const double* a, int64_t lda,
          const double* b, int64_t ldb, double beta, double* c, int64_t ldc);
/// Integers wrap around; signed ones may be passed as unsigned.
void Gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const uint32_t* a,
          int64_t lda, const uint32_t* b, int64_t ldb, uint32_t beta, uint32_t* c, int64_t ldc);
void Gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const uint64_t* a,
          int64_t lda, const uint64_t* b, int64_t ldb, uint64_t beta, uint64_t* c, int64_t ldc);

}  // namespace formwork
