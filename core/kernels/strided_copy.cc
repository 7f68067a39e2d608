#include "core/kernels/strided_copy.h"

#include <emmintrin.h>

#include <algorithm>
#include <cstdlib>
#include <type_traits>

#include "core/base/parallel.h"
#include "core/kernels/elements.h"

namespace formwork {
namespace {

// Drops dimensions of size 1 and joins neighbours that are evenly spaced on both sides.
// False where there is nothing to copy.
bool Collapse(absl::Span<const CopyDim> dims, CopyDims& out) {
  for (const CopyDim& dim : dims) {
    if (dim.size == 0) return false;
    if (dim.size == 1) continue;
    if (!out.empty() && out.back().src == dim.src * dim.size &&
        out.back().dst == dim.dst * dim.size) {
      out.back() = {out.back().size * dim.size, dim.src, dim.dst};
    } else {
      out.push_back(dim);
    }
  }
  return true;
}

// dst[0..n) = from[n - 1], ..., from[0]. By words, where elements are such, so that compilers see
// that vectors can be turned around.
template <typename E>
inline void CopyBackwards(const E* __restrict from, int64_t n, E* __restrict dst) {
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_trivially_copyable_v<E> && sizeof(E) <= sizeof(Word8)) {
      dst[i].bits = from[n - 1 - i].bits;
    } else {
      dst[i] = from[n - 1 - i];
    }
  }
}

template <typename E>
inline void CopyRow(const E* src, int64_t src_stride, E* dst, int64_t dst_stride, int64_t n) {
  if (dst_stride == 1) {
    if (src_stride == 1) {
      CopyElements(src, n, dst);
    } else if (src_stride == 0) {
      const E value = *src;
      for (int64_t i = 0; i < n; ++i) dst[i] = value;
    } else if (src_stride == -1) {
      CopyBackwards(src - (n - 1), n, dst);
    } else {
      for (int64_t i = 0; i < n; ++i) dst[i] = src[i * src_stride];
    }
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i * dst_stride] = src[i * src_stride];
  }
}

// A plane of `rows` rows. Rows of a few elements are the usual case of narrow channels; a loop of
// fixed length costs less than a call for each.
template <typename E, int kWidth>
inline void CopyNarrow(const E* src, E* dst, const CopyDim& rows) {
  for (int64_t r = 0; r < rows.size; ++r) {
    for (int i = 0; i < kWidth; ++i) dst[i] = src[i];
    src += rows.src;
    dst += rows.dst;
  }
}

template <typename E>
void CopyPlane(const E* src, E* dst, const CopyDim& rows, const CopyDim& row) {
  if (row.src == 1 && row.dst == 1) {
    switch (row.size) {
      case 1:
        return CopyRow(src, rows.src, dst, rows.dst, rows.size);
      case 2:
        return CopyNarrow<E, 2>(src, dst, rows);
      case 3:
        return CopyNarrow<E, 3>(src, dst, rows);
      case 4:
        return CopyNarrow<E, 4>(src, dst, rows);
      case 8:
        return CopyNarrow<E, 8>(src, dst, rows);
      default:
        break;
    }
  }
  for (int64_t r = 0; r < rows.size; ++r) {
    CopyRow(src + r * rows.src, row.src, dst + r * rows.dst, row.dst, row.size);
  }
}

// Tiles that keep both sides within the first-level cache.
constexpr int64_t kTile = 32;

// One tile of a transpose: dst[a * dst_stride + b] = src[a + b * src_stride]. Every cache line is
// read and written as a whole: in images and square matrices the rows lie so many bytes apart that
// a few of them fill a set of the cache.
template <typename E>
void TransposeTile(const E* src, int64_t src_stride, E* dst, int64_t dst_stride, int64_t na,
                   int64_t nb) {
  E tile[kTile][kTile + 1];
  for (int64_t b = 0; b < nb; ++b) {
    const E* row = src + b * src_stride;
    for (int64_t a = 0; a < na; ++a) tile[a][b] = row[a];
  }
  for (int64_t a = 0; a < na; ++a) {
    E* row = dst + a * dst_stride;
    for (int64_t b = 0; b < nb; ++b) row[b] = tile[a][b];
  }
}

template <typename E>
inline __m128i Load(const E* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
template <typename E>
inline void Store(E* to, __m128i value) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), value);
}

// The parts of a tile that the blocks of kBlock do not cover.
template <int64_t kBlock, typename E>
inline void TransposeEdges(const E* src, int64_t src_stride, E* dst, int64_t dst_stride, int64_t na,
                           int64_t nb) {
  const int64_t whole_a = na / kBlock * kBlock, whole_b = nb / kBlock * kBlock;
  for (int64_t a = 0; a < na; ++a) {
    for (int64_t b = a < whole_a ? whole_b : 0; b < nb; ++b) {
      dst[a * dst_stride + b] = src[a + b * src_stride];
    }
  }
}

template <>
void TransposeTile(const Word4* src, int64_t src_stride, Word4* dst, int64_t dst_stride, int64_t na,
                   int64_t nb) {
  for (int64_t b = 0; b + 4 <= nb; b += 4) {
    for (int64_t a = 0; a + 4 <= na; a += 4) {
      const Word4* s = src + a + b * src_stride;
      Word4* d = dst + a * dst_stride + b;
      const __m128i r0 = Load(s), r1 = Load(s + src_stride), r2 = Load(s + 2 * src_stride),
                    r3 = Load(s + 3 * src_stride);
      const __m128i t0 = _mm_unpacklo_epi32(r0, r1), t1 = _mm_unpackhi_epi32(r0, r1);
      const __m128i t2 = _mm_unpacklo_epi32(r2, r3), t3 = _mm_unpackhi_epi32(r2, r3);
      Store(d, _mm_unpacklo_epi64(t0, t2));
      Store(d + dst_stride, _mm_unpackhi_epi64(t0, t2));
      Store(d + 2 * dst_stride, _mm_unpacklo_epi64(t1, t3));
      Store(d + 3 * dst_stride, _mm_unpackhi_epi64(t1, t3));
    }
  }
  TransposeEdges<4>(src, src_stride, dst, dst_stride, na, nb);
}

template <>
void TransposeTile(const Word2* src, int64_t src_stride, Word2* dst, int64_t dst_stride, int64_t na,
                   int64_t nb) {
  for (int64_t b = 0; b + 8 <= nb; b += 8) {
    for (int64_t a = 0; a + 8 <= na; a += 8) {
      const Word2* s = src + a + b * src_stride;
      Word2* d = dst + a * dst_stride + b;
      __m128i r[8], t[8];
      for (int i = 0; i < 8; ++i) r[i] = Load(s + i * src_stride);
      for (int i = 0; i < 4; ++i) {
        t[2 * i] = _mm_unpacklo_epi16(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm_unpackhi_epi16(r[2 * i], r[2 * i + 1]);
      }
      for (int i = 0; i < 2; ++i) {
        r[4 * i] = _mm_unpacklo_epi32(t[4 * i], t[4 * i + 2]);
        r[4 * i + 1] = _mm_unpackhi_epi32(t[4 * i], t[4 * i + 2]);
        r[4 * i + 2] = _mm_unpacklo_epi32(t[4 * i + 1], t[4 * i + 3]);
        r[4 * i + 3] = _mm_unpackhi_epi32(t[4 * i + 1], t[4 * i + 3]);
      }
      for (int i = 0; i < 4; ++i) {
        Store(d + 2 * i * dst_stride, _mm_unpacklo_epi64(r[i], r[i + 4]));
        Store(d + (2 * i + 1) * dst_stride, _mm_unpackhi_epi64(r[i], r[i + 4]));
      }
    }
  }
  TransposeEdges<8>(src, src_stride, dst, dst_stride, na, nb);
}

// A copy that is too small to be split or ordered.
template <typename E>
void CopySmall(const E* src, E* dst, const CopyDim* dims, size_t count) {
  if (count == 1) return CopyRow(src, dims->src, dst, dims->dst, dims->size);
  for (int64_t i = 0; i < dims->size; ++i) {
    CopySmall(src + i * dims->src, dst + i * dims->dst, dims + 1, count - 1);
  }
}

// `outer` loops around one plane: (a, b) is transposed in tiles, or (rows, row) copied.
template <typename E>
class Nest {
 public:
  Nest(const E* src, E* dst, CopyDims dims) : src_(src), dst_(dst), outer_(std::move(dims)) {
    inner_ = outer_.back();
    outer_.pop_back();
    if (inner_.dst == 1 && inner_.src != 1 && inner_.src != 0) {
      for (size_t d = 0; d < outer_.size(); ++d) {
        if (outer_[d].src != 1) continue;
        rows_ = outer_[d];
        outer_.erase(outer_.begin() + static_cast<int64_t>(d));
        transpose_ = true;
        break;
      }
    }
    if (!transpose_ && !outer_.empty()) {
      rows_ = outer_.back();
      outer_.pop_back();
    }
    for (const CopyDim& dim : outer_) outer_size_ *= dim.size;
  }

  void Run() {
    // Units of work: (outer index, block of rows, block of the inner dimension).
    const int64_t grain = MoveGrain<E>();
    const int64_t plane = rows_.size * inner_.size;
    row_block_ = rows_.size;
    inner_block_ = inner_.size;
    if (plane > grain) {
      inner_block_ = std::min(inner_.size, std::max<int64_t>(grain, 1));
      row_block_ = std::clamp<int64_t>(grain / inner_block_, 1, rows_.size);
      if (transpose_) {
        // Wide tiles of rows: each is a strip of whole cache lines on both sides.
        row_block_ = std::clamp<int64_t>((row_block_ + kTile - 1) / kTile * kTile, 1, rows_.size);
        inner_block_ =
            std::clamp<int64_t>((grain / row_block_ + kTile - 1) / kTile * kTile, 1, inner_.size);
      }
    }
    row_blocks_ = (rows_.size + row_block_ - 1) / row_block_;
    inner_blocks_ = (inner_.size + inner_block_ - 1) / inner_block_;
    const int64_t units = outer_size_ * row_blocks_ * inner_blocks_;
    const int64_t unit_size = std::max<int64_t>(row_block_ * inner_block_, 1);
    ParallelFor(units, std::max<int64_t>(grain / unit_size, 1),
                [this](int64_t begin, int64_t end) { RunUnits(begin, end); });
  }

 private:
  void RunUnits(int64_t begin, int64_t end) const {
    const int64_t per_plane = row_blocks_ * inner_blocks_;
    int64_t index = begin / per_plane;
    int64_t block = begin % per_plane;
    // The odometer over the outer dimensions.
    Dims position(outer_.size());
    int64_t src = 0, dst = 0;
    for (size_t d = outer_.size(); d-- > 0;) {
      position[d] = index % outer_[d].size;
      index /= outer_[d].size;
      src += position[d] * outer_[d].src;
      dst += position[d] * outer_[d].dst;
    }
    for (int64_t unit = begin; unit < end; ++unit) {
      RunBlock(src_ + src, dst_ + dst, block / inner_blocks_, block % inner_blocks_);
      if (++block < per_plane) continue;
      block = 0;
      for (size_t d = outer_.size(); d-- > 0;) {
        src += outer_[d].src;
        dst += outer_[d].dst;
        if (++position[d] < outer_[d].size) break;
        src -= outer_[d].src * outer_[d].size;
        dst -= outer_[d].dst * outer_[d].size;
        position[d] = 0;
      }
    }
  }

  void RunBlock(const E* src, E* dst, int64_t row_block, int64_t inner_block) const {
    const int64_t row = row_block * row_block_;
    const int64_t col = inner_block * inner_block_;
    CopyDim rows = rows_;
    CopyDim inner = inner_;
    rows.size = std::min(row_block_, rows_.size - row);
    inner.size = std::min(inner_block_, inner_.size - col);
    src += row * rows.src + col * inner.src;
    dst += row * rows.dst + col * inner.dst;
    if (!transpose_) {
      CopyPlane(src, dst, rows, inner);
      return;
    }
    for (int64_t a = 0; a < rows.size; a += kTile) {
      const int64_t na = std::min(kTile, rows.size - a);
      for (int64_t b = 0; b < inner.size; b += kTile) {
        TransposeTile(src + a + b * inner.src, inner.src, dst + a * rows.dst + b, rows.dst, na,
                      std::min(kTile, inner.size - b));
      }
    }
  }

  const E* src_;
  E* dst_;
  CopyDims outer_;
  CopyDim rows_{1, 0, 0};
  CopyDim inner_{1, 0, 0};
  bool transpose_ = false;
  int64_t outer_size_ = 1;
  int64_t row_block_ = 1, inner_block_ = 1;
  int64_t row_blocks_ = 1, inner_blocks_ = 1;
};

}  // namespace

void CopyStrided(DType dtype, const void* src, void* dst, absl::Span<const CopyDim> dims) {
  CopyDims collapsed;
  if (!Collapse(dims, collapsed)) return;
  ByElement(dtype, [&](auto tag) {
    using E = typename decltype(tag)::type;
    const E* from = static_cast<const E*>(src);
    E* to = static_cast<E*>(dst);
    int64_t size = 1;
    for (const CopyDim& dim : collapsed) size *= dim.size;
    if (collapsed.empty()) {
      *to = *from;
    } else if (collapsed.size() == 1 ? size <= 4096 : size <= 64) {
      CopySmall(from, to, collapsed.data(), collapsed.size());
    } else {
      Nest<E>(from, to, std::move(collapsed)).Run();
    }
  });
}

void FillElements(DType dtype, const void* value, int64_t n, void* dst) {
  ByElement(dtype, [&](auto tag) {
    using E = typename decltype(tag)::type;
    const E element = *static_cast<const E*>(value);
    E* to = static_cast<E*>(dst);
    ParallelFor(n, MoveGrain<E>(), [&](int64_t begin, int64_t end) {
      const E value = element;  // On the stack it cannot change under the loop.
      E* const at = to;
      for (int64_t i = begin; i < end; ++i) at[i] = value;
    });
  });
}

void ZeroElements(Tensor& tensor) {
  char* const bytes = static_cast<char*>(tensor.mutable_raw());
  ParallelFor(static_cast<int64_t>(tensor.bytes()), MoveGrain<Word1>(),
              [bytes](int64_t begin, int64_t end) {
                std::memset(bytes + begin, 0, static_cast<size_t>(end - begin));
              });
}

int64_t ProductOf(absl::Span<const int64_t> dims) {
  int64_t product = 1;
  for (int64_t dim : dims) {
    if (__builtin_mul_overflow(product, dim, &product)) return 0;
  }
  return product;
}

}  // namespace formwork
