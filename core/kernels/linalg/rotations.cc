#include "core/kernels/linalg/rotations.h"

#include <algorithm>
#include <complex>
#include <memory>

#include "core/base/parallel.h"
#include "core/kernels/isa.h"

namespace formwork {
namespace {

constexpr int64_t kLanes = 16;  // Real numbers of a column that are rotated at a time.

// Columns of kLanes real numbers each.
template <typename R>
struct RotateColumns {
  FORMWORK_ISA_INLINE static void Run(const typename Rotations<R>::Rotation* list, int64_t n,
                                      R* columns) {
    for (int64_t i = 0; i < n; ++i) {
      const R c = list[i].c, s = list[i].s;
      R* __restrict x = columns + list[i].k * kLanes;
      R* __restrict y = x + kLanes;
      for (int64_t j = 0; j < kLanes; ++j) {
        const R a = x[j], b = y[j];
        x[j] = c * a - s * b;
        y[j] = s * a + c * b;
      }
    }
  }
};

}  // namespace

template <typename R>
template <typename T>
void Rotations<R>::Apply(int64_t rows, int64_t cols, T* a, int64_t lda) {
  constexpr int64_t kParts = sizeof(T) / sizeof(R);  // 2 where numbers are complex.
  constexpr int64_t kRows = kLanes / kParts;
  if (list_.empty()) return;
  const int64_t blocks = (rows + kRows - 1) / kRows;
  const int64_t work = static_cast<int64_t>(list_.size()) * kLanes;
  ParallelFor(blocks, std::max<int64_t>((1 << 18) / work, 1), [&](int64_t begin, int64_t end) {
    const std::unique_ptr<R[]> columns(new R[static_cast<size_t>(cols * kLanes)]());
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kRows, count = std::min(kRows, rows - first);
      for (int64_t i = 0; i < count; ++i) {
        const R* const row = reinterpret_cast<const R*>(a + (first + i) * lda);
        for (int64_t j = 0; j < cols; ++j) {
          for (int64_t p = 0; p < kParts; ++p) {
            columns[j * kLanes + i * kParts + p] = row[j * kParts + p];
          }
        }
      }
      ForHostIsa<RotateColumns<R>>(list_.data(), static_cast<int64_t>(list_.size()), columns.get());
      for (int64_t i = 0; i < count; ++i) {
        R* const row = reinterpret_cast<R*>(a + (first + i) * lda);
        for (int64_t j = 0; j < cols; ++j) {
          for (int64_t p = 0; p < kParts; ++p) {
            row[j * kParts + p] = columns[j * kLanes + i * kParts + p];
          }
        }
      }
    }
  });
  list_.clear();
}

template void Rotations<float>::Apply(int64_t, int64_t, float*, int64_t);
template void Rotations<double>::Apply(int64_t, int64_t, double*, int64_t);
template void Rotations<float>::Apply(int64_t, int64_t, std::complex<float>*, int64_t);
template void Rotations<double>::Apply(int64_t, int64_t, std::complex<double>*, int64_t);

}  // namespace formwork
