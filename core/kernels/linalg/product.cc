#include "core/kernels/linalg/product.h"

#include <complex>
#include <memory>

#include "core/base/parallel.h"
#include "core/kernels/gemm/gemm.h"

namespace formwork {
namespace {

constexpr int64_t kCopied = 1 << 16;  // Elements that are worth a task of their own.

template <typename T>
std::unique_ptr<T[]> Uninitialised(int64_t n) {
  return std::unique_ptr<T[]>(new T[static_cast<size_t>(n)]);
}

// op(a), or its negative, as a dense matrix of rows x cols.
template <typename T>
std::unique_ptr<T[]> Copied(Op op, bool negated, int64_t rows, int64_t cols, const T* a,
                            int64_t lda) {
  std::unique_ptr<T[]> copy = Uninitialised<T>(rows * cols);
  T* const to = copy.get();
  ParallelFor(rows, kCopied / (cols + 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < cols; ++j) {
        const T x = op == Op::kPlain ? a[i * lda + j] : Conjugate(a[j * lda + i]);
        to[i * cols + j] = negated ? -x : x;
      }
    }
  });
  return copy;
}

// op(b), rows x cols, as real numbers [2 rows, 2 cols]: what (re, im) of a row of the other operand
// is multiplied by.
template <typename R>
std::unique_ptr<R[]> AsReal(Op op, int64_t rows, int64_t cols, const std::complex<R>* b,
                            int64_t ldb) {
  std::unique_ptr<R[]> real = Uninitialised<R>(4 * rows * cols);
  ParallelFor(rows, kCopied / (cols + 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      R* const by_re = real.get() + 2 * i * 2 * cols;
      R* const by_im = by_re + 2 * cols;
      for (int64_t j = 0; j < cols; ++j) {
        const std::complex<R> x = op == Op::kPlain ? b[i * ldb + j] : Conjugate(b[j * ldb + i]);
        by_re[2 * j] = x.real();
        by_re[2 * j + 1] = x.imag();
        by_im[2 * j] = -x.imag();
        by_im[2 * j + 1] = x.real();
      }
    }
  });
  return real;
}

template <typename R>
void Multiply(int sign, Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, const R* a, int64_t lda,
              const R* b, int64_t ldb, R* c, int64_t ldc) {
  const bool trans_a = op_a != Op::kPlain, trans_b = op_b != Op::kPlain;
  if (sign > 0) return Gemm(trans_a, trans_b, m, n, k, a, lda, b, ldb, R(0), c, ldc);
  if (m <= n) {
    const std::unique_ptr<R[]> minus_a = Copied(op_a, true, m, k, a, lda);
    Gemm(false, trans_b, m, n, k, minus_a.get(), k, b, ldb, R(1), c, ldc);
  } else {
    const std::unique_ptr<R[]> minus_b = Copied(op_b, true, k, n, b, ldb);
    Gemm(trans_a, false, m, n, k, a, lda, minus_b.get(), n, R(1), c, ldc);
  }
}

template <typename R>
void Multiply(int sign, Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, const std::complex<R>* a,
              int64_t lda, const std::complex<R>* b, int64_t ldb, std::complex<R>* c, int64_t ldc) {
  std::unique_ptr<std::complex<R>[]> copy;
  if (sign < 0 || op_a != Op::kPlain) {
    copy = Copied(op_a, sign < 0, m, k, a, lda);
    a = copy.get();
    lda = k;
  }
  const std::unique_ptr<R[]> real_b = AsReal(op_b, k, n, b, ldb);
  Gemm(false, false, m, 2 * n, 2 * k, reinterpret_cast<const R*>(a), 2 * lda, real_b.get(), 2 * n,
       sign > 0 ? R(0) : R(1), reinterpret_cast<R*>(c), 2 * ldc);
}

}  // namespace

template <typename T>
void SetProduct(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda,
                const T* b, int64_t ldb, T* c, int64_t ldc) {
  if (m > 0 && n > 0) Multiply(1, op_a, op_b, m, n, k, a, lda, b, ldb, c, ldc);
}

template <typename T>
void SubtractProduct(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda,
                     const T* b, int64_t ldb, T* c, int64_t ldc) {
  if (m > 0 && n > 0 && k > 0) Multiply(-1, op_a, op_b, m, n, k, a, lda, b, ldb, c, ldc);
}

#define FORMWORK_PRODUCT(T)                                                                        \
  template void SetProduct<T>(Op, Op, int64_t, int64_t, int64_t, const T*, int64_t, const T*,      \
                              int64_t, T*, int64_t);                                               \
  template void SubtractProduct<T>(Op, Op, int64_t, int64_t, int64_t, const T*, int64_t, const T*, \
                                   int64_t, T*, int64_t)
FORMWORK_PRODUCT(float);
FORMWORK_PRODUCT(double);
FORMWORK_PRODUCT(std::complex<float>);
FORMWORK_PRODUCT(std::complex<double>);
#undef FORMWORK_PRODUCT

}  // namespace formwork
