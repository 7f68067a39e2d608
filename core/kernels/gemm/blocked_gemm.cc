#include "core/kernels/gemm/blocked_gemm.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/kernels/isa.h"

namespace formwork {
namespace {

// The scheme of Goto and van de Geijn ("Anatomy of high-performance matrix multiplication", 2008):
// blocks of a and b are packed into panels so that the innermost loop, which holds a tile of c in
// registers, reads both in order.
constexpr int64_t kBlockK = 256;
constexpr int64_t kBlockM = 96;
constexpr int64_t kBlockN = 384;  // A multiple of every tile's width.
constexpr int64_t kMostRows = 8;  // Of a tile.
constexpr int64_t kMostColumns = 48;

template <typename T, int kBytes>
struct VectorOf {
  typedef T type __attribute__((vector_size(kBytes)));
};

// Copies a block of rows x columns into panels of kWidth rows, panel[p][i], with zeros where the
// rows end. Packing the other operand swaps the strides.
template <int kWidth, typename T>
FORMWORK_ISA_INLINE void Pack(const T* x, int64_t row_stride, int64_t column_stride, int64_t rows,
                              int64_t columns, T* panel) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t first = 0; first < rows; first += kWidth) {
    const int64_t width = std::min<int64_t>(kWidth, rows - first);
    const T* source = x + first * row_stride;
    if (width == kWidth && row_stride == 1) {
      for (int64_t p = 0; p < columns; ++p) {
        std::memcpy(panel + p * kWidth, source + p * column_stride, sizeof(T) * kWidth);
      }
    } else {
      // A line of each row at a time: rows that lie a power of two apart share few cache sets.
      for (int64_t first_p = 0; first_p < columns; first_p += kLine) {
        const int64_t end_p = std::min(first_p + kLine, columns);
        for (int64_t i = 0; i < width; ++i) {
          for (int64_t p = first_p; p < end_p; ++p) {
            panel[p * kWidth + i] = source[i * row_stride + p * column_stride];
          }
        }
        for (int64_t p = first_p; p < end_p; ++p) {
          for (int64_t i = width; i < kWidth; ++i) panel[p * kWidth + i] = T(0);
        }
      }
    }
    panel += kWidth * columns;
  }
}

template <typename T, int kBytes, int kRows, int kVectors>
FORMWORK_ISA_INLINE void Tile(int64_t k, const T* a, const T* b, bool accumulate, int64_t rows,
                              int64_t columns, T* c, int64_t ldc) {
  using Vector = typename VectorOf<T, kBytes>::type;
  constexpr int kLanes = kBytes / sizeof(T);
  Vector sum[kRows][kVectors] = {};
  for (int64_t p = 0; p < k; ++p) {
    Vector row[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) std::memcpy(&row[j], b + j * kLanes, kBytes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) sum[i][j] += a[i] * row[j];
    }
    a += kRows;
    b += kVectors * kLanes;
  }
  if (rows == kRows && columns == kVectors * kLanes) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) {
        T* at = c + i * ldc + j * kLanes;
        if (accumulate) {
          Vector old;
          std::memcpy(&old, at, kBytes);
          sum[i][j] += old;
        }
        std::memcpy(at, &sum[i][j], kBytes);
      }
    }
    return;
  }
  alignas(64) T edge[kRows * kVectors * kLanes];
  std::memcpy(edge, sum, sizeof(edge));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const T value = edge[i * kVectors * kLanes + j];
      c[i * ldc + j] = accumulate ? c[i * ldc + j] + value : value;
    }
  }
}

template <typename T>
struct Problem {
  int64_t m, n, k;
  const T* a;
  int64_t a_row, a_column;  // Strides of op(a).
  const T* b;
  int64_t b_row, b_column;
  bool accumulate;
  T* c;
  int64_t ldc;
  T* packed_a;
  T* packed_b;
};

template <typename T, int kBytes, int kRows, int kVectors>
struct Blocks {
  FORMWORK_ISA_INLINE static void Run(const Problem<T>* problem) {
    const Problem<T>& g = *problem;
    constexpr int kColumns = kVectors * kBytes / static_cast<int>(sizeof(T));
    for (int64_t column = 0; column < g.n; column += kBlockN) {
      const int64_t columns = std::min(kBlockN, g.n - column);
      for (int64_t depth = 0; depth < g.k; depth += kBlockK) {
        const int64_t k = std::min(kBlockK, g.k - depth);
        const bool accumulate = g.accumulate || depth > 0;
        Pack<kColumns>(g.b + depth * g.b_row + column * g.b_column, g.b_column, g.b_row, columns, k,
                       g.packed_b);
        for (int64_t row = 0; row < g.m; row += kBlockM) {
          const int64_t rows = std::min(kBlockM, g.m - row);
          Pack<kRows>(g.a + row * g.a_row + depth * g.a_column, g.a_row, g.a_column, rows, k,
                      g.packed_a);
          for (int64_t j = 0; j < columns; j += kColumns) {
            for (int64_t i = 0; i < rows; i += kRows) {
              Tile<T, kBytes, kRows, kVectors>(k, g.packed_a + i * k, g.packed_b + j * k,
                                               accumulate, std::min<int64_t>(kRows, rows - i),
                                               std::min<int64_t>(kColumns, columns - j),
                                               g.c + (row + i) * g.ldc + column + j, g.ldc);
            }
          }
        }
      }
    }
  }
};

}  // namespace

template <typename T>
void BlockedGemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const T* a,
                 int64_t lda, const T* b, int64_t ldb, bool accumulate, T* c, int64_t ldc) {
  // Room for whole panels, whichever the tile. The second panel begins aligned.
  const int64_t depth = std::min(k, kBlockK);
  const int64_t a_elements = ((std::min(m, kBlockM) + kMostRows) * depth + 15) / 16 * 16;
  const int64_t b_elements = (std::min(n, kBlockN) + kMostColumns) * depth;
  auto* room = static_cast<T*>(::operator new(
      static_cast<size_t>(a_elements + b_elements) * sizeof(T), std::align_val_t(64)));
  const Problem<T> problem = {m,
                              n,
                              k,
                              a,
                              trans_a ? 1 : lda,
                              trans_a ? lda : 1,
                              b,
                              trans_b ? 1 : ldb,
                              trans_b ? ldb : 1,
                              accumulate,
                              c,
                              ldc,
                              room,
                              room + a_elements};
  switch (HostIsa()) {
    case Isa::kAvx512:
      isa_internal::RunAvx512<Blocks<T, 64, 8, 3>>(&problem);
      break;
    case Isa::kAvx2:
      isa_internal::RunAvx2<Blocks<T, 32, 4, 3>>(&problem);
      break;
    default:
      isa_internal::RunBaseline<Blocks<T, 16, 4, 2>>(&problem);
  }
  ::operator delete(room, std::align_val_t(64));
}

template void BlockedGemm<float>(bool, bool, int64_t, int64_t, int64_t, const float*, int64_t,
                                 const float*, int64_t, bool, float*, int64_t);
template void BlockedGemm<double>(bool, bool, int64_t, int64_t, int64_t, const double*, int64_t,
                                  const double*, int64_t, bool, double*, int64_t);
template void BlockedGemm<uint32_t>(bool, bool, int64_t, int64_t, int64_t, const uint32_t*, int64_t,
                                    const uint32_t*, int64_t, bool, uint32_t*, int64_t);
template void BlockedGemm<uint64_t>(bool, bool, int64_t, int64_t, int64_t, const uint64_t*, int64_t,
                                    const uint64_t*, int64_t, bool, uint64_t*, int64_t);

}  // namespace formwork
