#pragma once

// What both ways of Winograd's algorithm share: how images are cut into tiles, and the transforms
// of a line of a tile, a register of channels at a time. Loops are compiled for AVX2 and AVX-512.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/kernels/isa.h"
#include "core/ops/conv.h"

namespace formwork::winograd {

// Between the points of a block: so that they do not all lie in one set of the cache.
constexpr int64_t kPadding = 16;
constexpr int64_t kTaskElements = 1 << 16;  // Transformed: 20 us.

/// F(n x n, 3 x 3), where n is 2 or 4: the algorithm by which n x n outputs follow from as many
/// products as their tile has inputs, kSide x kSide. A line is transformed as Toom and Cook
/// multiply polynomials, by their values at kSide points, of which the last is infinity.
template <int n>
struct Lines;

/// Points 0, 1, -1.
template <>
struct Lines<2> {
  static constexpr int kSide = 4;

  /// Of a tile's inputs.
  template <typename V>
  FORMWORK_ISA_INLINE static void Transform(const V (&d)[4], V (&to)[4]) {
    to[0] = d[0] - d[2];
    to[1] = d[1] + d[2];
    to[2] = d[2] - d[1];
    to[3] = d[1] - d[3];
  }
  template <typename V>
  FORMWORK_ISA_INLINE static void Output(const V (&m)[4], V (&to)[2]) {
    to[0] = m[0] + m[1] + m[2];
    to[1] = m[1] - m[2] - m[3];
  }
  template <typename V>
  FORMWORK_ISA_INLINE static void Filter(const V (&g)[3], V (&to)[4]) {
    to[0] = g[0];
    to[1] = 0.5f * (g[0] + g[1] + g[2]);
    to[2] = 0.5f * (g[0] - g[1] + g[2]);
    to[3] = g[2];
  }
  /// Of the gradient of a tile's outputs; Sums follow from its products with the input's.
  template <typename V>
  FORMWORK_ISA_INLINE static void Transform(const V (&y)[2], V (&to)[4]) {
    to[0] = y[0];
    to[1] = y[0] + y[1];
    to[2] = y[0] - y[1];
    to[3] = -y[1];
  }
  template <typename V>
  FORMWORK_ISA_INLINE static void Sums(const V (&m)[4], V (&to)[3]) {
    const V half = 0.5f * (m[1] + m[2]);
    to[0] = m[0] + half;
    to[1] = 0.5f * (m[1] - m[2]);
    to[2] = half + m[3];
  }
};

/// Points 0, a, -a, b, -b: with 3/4 and 3/2 results are half as far from exact ones as with the
/// usual 1 and 2.
template <>
struct Lines<4> {
  static constexpr int kSide = 6;
  static constexpr float a = 0.75f, b = 1.5f;
  static constexpr float a2 = a * a, b2 = b * b;
  // What the values at 0, +-a and +-b are divided by.
  static constexpr float f0 = a2 * b2, fa = 2 * a2 * (a2 - b2), fb = 2 * b2 * (b2 - a2);

  /// As those of Lines<2>.
  template <typename V>
  FORMWORK_ISA_INLINE static void Transform(const V (&d)[6], V (&to)[6]) {
    to[0] = f0 * d[0] - (a2 + b2) * d[2] + d[4];
    to[5] = f0 * d[1] - (a2 + b2) * d[3] + d[5];
    Both(d[4] - b2 * d[2], a * (d[3] - b2 * d[1]), to[1], to[2]);
    Both(d[4] - a2 * d[2], b * (d[3] - a2 * d[1]), to[3], to[4]);
  }
  template <typename V>
  FORMWORK_ISA_INLINE static void Output(const V (&m)[6], V (&to)[4]) {
    const V even_a = m[1] + m[2], odd_a = m[1] - m[2];
    const V even_b = m[3] + m[4], odd_b = m[3] - m[4];
    to[0] = m[0] + even_a + even_b;
    to[1] = a * odd_a + b * odd_b;
    to[2] = a2 * even_a + b2 * even_b;
    to[3] = a2 * a * odd_a + b2 * b * odd_b + m[5];
  }
  template <typename V>
  FORMWORK_ISA_INLINE static void Filter(const V (&g)[3], V (&to)[6]) {
    to[0] = (1 / f0) * g[0];
    Both((1 / fa) * g[0] + (a2 / fa) * g[2], (a / fa) * g[1], to[1], to[2]);
    Both((1 / fb) * g[0] + (b2 / fb) * g[2], (b / fb) * g[1], to[3], to[4]);
    to[5] = g[2];
  }
  template <typename V>
  FORMWORK_ISA_INLINE static void Transform(const V (&y)[4], V (&to)[6]) {
    to[0] = y[0];
    Both(y[0] + a2 * y[2], a * y[1] + a2 * a * y[3], to[1], to[2]);
    Both(y[0] + b2 * y[2], b * y[1] + b2 * b * y[3], to[3], to[4]);
    to[5] = y[3];
  }
  template <typename V>
  FORMWORK_ISA_INLINE static void Sums(const V (&m)[6], V (&to)[3]) {
    const V even_a = (1 / fa) * (m[1] + m[2]), odd_a = (a / fa) * (m[1] - m[2]);
    const V even_b = (1 / fb) * (m[3] + m[4]), odd_b = (b / fb) * (m[3] - m[4]);
    to[0] = (1 / f0) * m[0] + even_a + even_b;
    to[1] = odd_a + odd_b;
    to[2] = a2 * even_a + b2 * even_b + m[5];
  }

  template <typename V>
  FORMWORK_ISA_INLINE static void Both(const V& even, const V& odd, V& plus, V& minus) {
    plus = even + odd;
    minus = even - odd;
  }
};

template <int n>
inline constexpr int kSide = Lines<n>::kSide;  // Of a tile of the input.
template <int n>
inline constexpr int kPoints = kSide<n>* kSide<n>;

/// An image's outputs in tiles of n x n, the last ones of which may lie outside in part.
template <int n>
struct Tiling {
  const ConvShape& shape;

  int64_t rows() const { return (shape.rows.output + n - 1) / n; }
  int64_t cols() const { return (shape.cols.output + n - 1) / n; }
  int64_t tiles() const { return shape.batch * rows() * cols(); }
};

/// Where a tile's outputs begin.
struct Tile {
  int64_t image, row, col;
  template <int n>
  Tile(const Tiling<n>& tiling, int64_t tile)
      : image(tile / (tiling.rows() * tiling.cols())),
        row(tile / tiling.cols() % tiling.rows() * n),
        col(tile % tiling.cols() * n) {}
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

// Transform<n, 64> where the machine and the channels are for it.
template <template <int, int> typename Transform, int n, typename... Args>
void RunTransform(int64_t channels, Args... args) {
  if (HostIsa() == Isa::kAvx512 && channels % Lanes<64>::kLanes == 0) {
    isa_internal::RunAvx512<Transform<n, 64>>(args...);
  } else {
    ForHostIsa<Transform<n, 32>>(args...);
  }
}

// to[point * step + c]: channel c, and those in its register, of a tile of kFrom x kFrom pixels,
// transformed both ways.
template <int n, int kFrom, typename Vector>
FORMWORK_ISA_INLINE void StoreTransform(const float* const (&from)[kFrom][kFrom], int64_t c,
                                        float* to, int64_t step) {
  constexpr int side = kSide<n>;
  Vector t[side][kFrom];
#pragma GCC unroll 6
  for (int x = 0; x < kFrom; ++x) {
    Vector d[kFrom], column[side];
#pragma GCC unroll 6
    for (int y = 0; y < kFrom; ++y) Load(from[y][x] + c, d[y]);
    Lines<n>::Transform(d, column);
#pragma GCC unroll 6
    for (int y = 0; y < side; ++y) t[y][x] = column[y];
  }
#pragma GCC unroll 6
  for (int y = 0; y < side; ++y) {
    Vector row[side];
    Lines<n>::Transform(t[y], row);
#pragma GCC unroll 6
    for (int x = 0; x < side; ++x) Store(row[x], to + (y * side + x) * step + c);
  }
}

// to[point * step + i * channels + c]: tile first + i of the input, transformed. `zeros`: a pixel
// of padding.
template <int n, int kBytes>
struct TransformInput : Lanes<kBytes> {
  using Lanes<kBytes>::kLanes;
  using typename Lanes<kBytes>::Vector;
  FORMWORK_ISA_INLINE static void Run(const Tiling<n>* tiling, const float* input,
                                      const float* zeros, int64_t first, int64_t count, float* to,
                                      int64_t step) {
    constexpr int side = kSide<n>;
    const ConvShape& s = tiling->shape;
    const int64_t channels = s.in_channels;
    for (int64_t i = 0; i < count; ++i, to += channels) {
      const Tile tile(*tiling, first + i);
      const float* from[side][side];
      for (int y = 0; y < side; ++y) {
        const int64_t row = tile.row + y - s.rows.pad_before;
        for (int x = 0; x < side; ++x) {
          const int64_t col = tile.col + x - s.cols.pad_before;
          const bool inside = row >= 0 && row < s.rows.input && col >= 0 && col < s.cols.input;
          const int64_t line = tile.image * s.rows.input + row;
          from[y][x] = inside ? input + (line * s.cols.input + col) * channels : zeros;
        }
      }
      for (int64_t c = 0; c < channels; c += kLanes) {
        StoreTransform<n, side, Vector>(from, c, to, step);
      }
    }
  }
};

template <int n>
int64_t Grain(int64_t channels) {
  return std::max<int64_t>(1, kTaskElements / (kPoints<n> * channels));
}

}  // namespace formwork::winograd
