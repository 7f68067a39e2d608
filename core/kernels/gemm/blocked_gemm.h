#pragma once

// Matrix products without a library: for element types that oneDNN does not multiply (double and
// integers), and for where it refuses.

#include <cstdint>

namespace formwork {

/// c = op(a) op(b), or c += op(a) op(b) with `accumulate`; row-major, op(a) m x k, op(b) k x n.
/// Integers wrap around. Runs on the calling thread. T: float, double, uint32_t, uint64_t.
template <typename T>
void BlockedGemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const T* a,
                 int64_t lda, const T* b, int64_t ldb, bool accumulate, T* c, int64_t ldc);

}  // namespace formwork
