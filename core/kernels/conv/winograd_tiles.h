#pragma once

// What both ways of Winograd's algorithm share: tiles of 4x4 inputs, which belong to 2x2 outputs,
// and their transform, a register of channels at a time. Loops are compiled for AVX2 and AVX-512.

#include <cstdint>
#include <cstring>

#include "core/kernels/isa.h"
#include "core/ops/conv.h"

namespace formwork::winograd {

constexpr int kSide = 4;  // Of a tile of the input; it gives 2 x 2 outputs.
constexpr int kPoints = kSide * kSide;
// Between the points of a block: so that they do not all lie in one set of the cache.
constexpr int64_t kPadding = 16;
constexpr int64_t kTaskElements = 1 << 16;  // Transformed: 20 us.

struct Tiling {
  const ConvShape& shape;

  int64_t rows() const { return (shape.rows.output + 1) / 2; }
  int64_t cols() const { return (shape.cols.output + 1) / 2; }
  int64_t tiles() const { return shape.batch * rows() * cols(); }
};

// Where a tile's outputs begin.
struct Tile {
  int64_t image, row, col;
  Tile(const Tiling& tiling, int64_t tile)
      : image(tile / (tiling.rows() * tiling.cols())),
        row(tile / tiling.cols() % tiling.rows() * 2),
        col(tile % tiling.cols() * 2) {}
};

// A register of channels.
template <int kBytes>
struct Lanes {
  static constexpr int kLanes = kBytes / static_cast<int>(sizeof(float));
  typedef float Vector __attribute__((vector_size(kBytes)));
};

template <typename Vector>
FORMWORK_ISA_INLINE void Load(const float* from, Vector& v) {
  std::memcpy(&v, from, sizeof(Vector));
}
template <typename Vector>
FORMWORK_ISA_INLINE void Store(const Vector& v, float* to) {
  std::memcpy(to, &v, sizeof(Vector));
}

// Transform<64> where the machine and the channels are for it.
template <template <int> typename Transform, typename... Args>
void RunTransform(int64_t channels, Args... args) {
  if (HostIsa() == Isa::kAvx512 && channels % Lanes<64>::kLanes == 0) {
    isa_internal::RunAvx512<Transform<64>>(args...);
  } else {
    ForHostIsa<Transform<32>>(args...);
  }
}

// to[point * step + i * channels + c]: tile first + i of the input, transformed. `zeros`: a pixel
// of padding.
template <int kBytes>
struct TransformInput : Lanes<kBytes> {
  using Lanes<kBytes>::kLanes;
  using typename Lanes<kBytes>::Vector;
  FORMWORK_ISA_INLINE static void Run(const Tiling* tiling, const float* input, const float* zeros,
                                      int64_t first, int64_t count, float* to, int64_t step) {
    const ConvShape& s = tiling->shape;
    const int64_t channels = s.in_channels;
    for (int64_t i = 0; i < count; ++i, to += channels) {
      const Tile tile(*tiling, first + i);
      const float* from[kPoints];
      for (int y = 0; y < kSide; ++y) {
        const int64_t row = tile.row + y - s.rows.pad_before;
        for (int x = 0; x < kSide; ++x) {
          const int64_t col = tile.col + x - s.cols.pad_before;
          const bool inside = row >= 0 && row < s.rows.input && col >= 0 && col < s.cols.input;
          const int64_t line = tile.image * s.rows.input + row;
          from[y * kSide + x] = inside ? input + (line * s.cols.input + col) * channels : zeros;
        }
      }
      for (int64_t c = 0; c < channels; c += kLanes) {
        Vector t[kPoints];
#pragma GCC unroll 4
        for (int x = 0; x < kSide; ++x) {
          Vector d0, d1, d2, d3;
          Load(from[x] + c, d0);
          Load(from[4 + x] + c, d1);
          Load(from[8 + x] + c, d2);
          Load(from[12 + x] + c, d3);
          t[x] = d0 - d2;
          t[4 + x] = d1 + d2;
          t[8 + x] = d2 - d1;
          t[12 + x] = d1 - d3;
        }
#pragma GCC unroll 4
        for (int y = 0; y < kSide; ++y) {
          const Vector* r = t + y * kSide;
          float* at = to + y * kSide * step + c;
          Store(r[0] - r[2], at);
          Store(r[1] + r[2], at + step);
          Store(r[2] - r[1], at + 2 * step);
          Store(r[1] - r[3], at + 3 * step);
        }
      }
    }
  }
};

inline int64_t Grain(int64_t channels) {
  return std::max<int64_t>(1, kTaskElements / (kPoints * channels));
}

}  // namespace formwork::winograd
