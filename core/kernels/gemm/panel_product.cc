#include "core/kernels/gemm/panel_product.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "core/base/parallel.h"
#include "core/kernels/elementwise/activate.h"
#include "core/kernels/isa.h"

namespace formwork {
namespace {

// A tile of c is kMostRows<kBytes> rows by two registers for the sums. The registers that are left
// hold kSteps<kBytes> rows of the panels and an element of a: 12 + 2 + 1 of AVX2's 16, 24 + 4 + 1
// of AVX-512's 32, whose tile is two panels wide. With two steps a pointer to a row of a that does
// not fit into a register is read half as often.
template <int kBytes>
constexpr int kMostRows = kBytes == 64 ? 12 : 6;
template <int kBytes>
constexpr int kSteps = kBytes == 64 ? 2 : 1;
// Rows that go through all panels before the next ones: what they read stays in the second-level
// cache, and a panel is read once for all of them.
constexpr int64_t kBlockRows = 192;
// Between two looks ahead a tile goes through so many rows of its panel, and asks for so many
// lines.
constexpr int64_t kStretch = 32;
constexpr int64_t kAsk = 8;
// Multiplications that are worth a task: 17 us. Two tasks cost 3 us more than their halves.
constexpr int64_t kTask = 3 << 18;

// Cut into parts that differ by one at the most.
struct Even {
  int64_t total, parts;
  Even(int64_t total, int64_t most) : total(total), parts((total + most - 1) / most) {}
  int64_t begin(int64_t part) const { return total * part / parts; }
};

// What a tile needs beside the product.
struct Place {
  const float* const* rows;       // Where the rows of the first tap begin;
  int64_t tap;                    // those of the next so many further on.
  const float* const* plus_rows;  // Of the other product.
  int64_t row, column;            // Of the product.
  int64_t columns;                // That there are, of the tile's.
  // The panels after the tile's come from memory while these are computed with: a tile asks for a
  // part.
  const float* next;
  int64_t share;  // Of each tile, in floats.
};

// Where the columns from `column` on of row 0 are in c.
FORMWORK_ISA_INLINE float* ColumnOf(const PanelProduct& g, int64_t column) {
  if (g.parts.empty()) return g.c + column;
  const int64_t width = g.n / static_cast<int64_t>(g.parts.size());
  return g.parts[column / width] + column % width;
}

// kRows rows by kVectors registers of kBytes.
template <int kBytes, int kVectors, int kRows>
struct Tile {
  static constexpr int kLanes = kBytes / static_cast<int>(sizeof(float));
  static constexpr int kColumns = kLanes * kVectors;
  static_assert(kPanelColumns % kLanes == 0);
  typedef float Vector __attribute__((vector_size(kBytes)));

  FORMWORK_ISA_INLINE static void Load(const float* from, Vector& v) {
    std::memcpy(&v, from, sizeof(Vector));
  }

  // Register j of a row of the panels, of which the next one is `apart` floats further on.
  FORMWORK_ISA_INLINE static const float* InRow(const float* b, int64_t apart, int j) {
    const int column = j * kLanes;
    return b + column / kPanelColumns * apart + column % kPanelColumns;
  }

  FORMWORK_ISA_INLINE static void Run(const PanelProduct& g, const Place& at) {
    Vector sum[kRows][kVectors] = {};
    const float* b = g.panels + at.column * g.taps * g.depth;
    int64_t apart = g.taps * g.depth * kPanelColumns;
    const float* next = at.next;
    const float* const next_end = next + at.share;
    const float* const* rows = at.rows;
    int64_t end = g.depth;
    const int64_t pieces = g.taps + (g.plus.panels != nullptr ? 1 : 0);
    for (int64_t t = 0; t < pieces; ++t, rows += at.tap) {
      if (t == g.taps) {  // The other product.
        rows = at.plus_rows;
        end = g.plus.depth;
        b = g.plus.panels + at.column * end;
        apart = end * kPanelColumns;
      }
      for (int64_t p = 0; p < end;) {
        for (const float* ask = next; ask < next_end && ask < next + kAsk * kColumns;
             ask += kPanelColumns) {
          // A strip of AVX-512 and the next one are more than the first-level cache holds.
          if constexpr (kBytes == 64) {
            __builtin_prefetch(ask, /*rw=*/0, /*locality=*/2);
          } else {
            __builtin_prefetch(ask);
          }
        }
        next += kAsk * kColumns;
        const int64_t until = std::min(p + kStretch, end);
        for (; p + kSteps<kBytes> <= until;
             p += kSteps<kBytes>, b += kSteps<kBytes> * kPanelColumns)
          Multiply<kSteps<kBytes>>(rows, p, b, apart, sum);
        for (; p < until; ++p, b += kPanelColumns) Multiply<1>(rows, p, b, apart, sum);
      }
    }
    Finish(g, at, sum);
  }

  // Adds the products of the columns p, p + 1, ... of the rows of a and so many rows of the panels.
  template <int kCount>
  FORMWORK_ISA_INLINE static void Multiply(const float* const* a, int64_t p, const float* b,
                                           int64_t apart, Vector (&sum)[kRows][kVectors]) {
    // Has the pointers to more rows than fit into general registers read again. GCC would keep them
    // in vector registers, and a move from there takes the port that multiplies.
    if constexpr (kRows > 6) asm volatile("" ::: "memory");
    Vector row[kCount][kVectors];
#pragma GCC unroll 2
    for (int s = 0; s < kCount; ++s) {
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) Load(InRow(b + s * kPanelColumns, apart, j), row[s][j]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
      for (int s = 0; s < kCount; ++s) {
        const float x = a[i][p + s];
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j) sum[i][j] += x * row[s][j];
      }
    }
  }

  // Activation and all that is added, on the way to c.
  FORMWORK_ISA_INLINE static void Finish(const PanelProduct& g, const Place& at,
                                         Vector (&sum)[kRows][kVectors]) {
    if (at.columns < kColumns) {
      alignas(64) float edge[kRows * kColumns];
      std::memcpy(edge, sum, sizeof(edge));
      FinishEdge(g, at, edge);
      return;
    }
    float* to[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      to[j] = ColumnOf(g, at.column + j * kLanes) + at.row * g.ldc;
      if (g.bias == nullptr) continue;
      Vector bias;
      Load(g.bias + at.column + j * kLanes, bias);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) sum[i][j] += bias;
    }
    if (g.residual != nullptr) {
      const float* from = g.residual + at.row * g.ldc + at.column;
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i, from += g.ldc) {
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j) {
          Vector residual;
          Load(from + j * kLanes, residual);
          sum[i][j] += residual;
        }
      }
    }
    if (g.activation == Activation::kGelu) {
      // In memory, where the compiler makes vectors of what is a function of one element.
      alignas(64) float each[kRows * kColumns];
      std::memcpy(each, sum, sizeof(each));
      for (float& x : each) x = Activate<Activation::kGelu>(x);
      std::memcpy(sum, each, sizeof(each));
    } else if (g.activation != Activation::kNone) {
      const float most =
          g.activation == Activation::kRelu6 ? 6.0f : std::numeric_limits<float>::infinity();
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j) {
          Vector& x = sum[i][j];
          x = x > 0.0f ? x : Vector{};
          x = x < most ? x : Vector{} + most;
        }
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) std::memcpy(to[j] + i * g.ldc, &sum[i][j], sizeof(Vector));
    }
  }

  FORMWORK_ISA_INLINE static void FinishEdge(const PanelProduct& g, const Place& at,
                                             const float* edge) {
    float* const c = ColumnOf(g, at.column);
    for (int64_t i = 0; i < kRows; ++i) {
      const int64_t first = (at.row + i) * g.ldc;
      for (int64_t j = 0; j < at.columns; ++j) {
        float x = edge[i * kColumns + j];
        if (g.bias != nullptr) x += g.bias[at.column + j];
        if (g.residual != nullptr) x += g.residual[first + at.column + j];
        switch (g.activation) {
          case Activation::kNone:
            break;
          case Activation::kRelu:
            x = Activate<Activation::kRelu>(x);
            break;
          case Activation::kRelu6:
            x = Activate<Activation::kRelu6>(x);
            break;
          case Activation::kGelu:
            x = Activate<Activation::kGelu>(x);
        }
        c[first + j] = x;
      }
    }
  }
};

// The first kRows or fewer of a tile.
template <int kBytes, int kVectors, int kRows>
FORMWORK_ISA_INLINE void RunTile(const PanelProduct& g, const Place& at, int64_t rows) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return RunTile<kBytes, kVectors, kRows - 1>(g, at, rows);
  }
  Tile<kBytes, kVectors, kRows>::Run(g, at);
}

// Strips of two registers of kBytes. A last one of AVX-512 that is narrow takes AVX2's, with which
// less is computed in vain.
template <int kBytes>
struct Strips {
  static constexpr int64_t kColumns = Tile<kBytes, 2, 1>::kColumns;

  // The columns [begin, end) of `count` rows from `first` on, whose `rows` lie tile by tile;
  // `plus_rows`: those of the other product.
  FORMWORK_ISA_INLINE static void Run(const PanelProduct* product, int64_t first, int64_t count,
                                      const float* const* rows, const float* const* plus_rows,
                                      int64_t begin, int64_t end) {
    const PanelProduct& g = *product;
    constexpr int kTileRows = kMostRows<kBytes>;
    const Even tiles(count, kTileRows);
    const int64_t depth = g.taps * g.depth;
    for (int64_t column = begin; column < end; column += kColumns) {
      Place at;
      at.column = column;
      at.columns = std::min(kColumns, end - column);
      const int64_t after = (column + kColumns) * depth;
      at.share = column + kColumns < g.n ? kColumns * depth / tiles.parts : 0;
      for (int64_t t = 0; t < tiles.parts; ++t) {
        const int64_t row = tiles.begin(t);
        const int64_t most = tiles.begin(t + 1) - row;
        at.rows = rows + row * g.taps;
        at.tap = most;
        at.plus_rows = plus_rows + row;
        at.row = first + row;
        at.next = g.panels + after + t * at.share;
        if (kBytes == 64 && at.columns <= 16) {
          RunTile<32, 2, kTileRows>(g, at, most);
        } else if (kBytes == 64 && at.columns <= 24) {
          // Three registers of sums for each row: half as many rows.
          constexpr int64_t kHalf = kTileRows / 2;
          RunTile<32, 3, kHalf>(g, at, std::min(most, kHalf));
          if (most <= kHalf) continue;
          at.rows += kHalf;
          at.plus_rows += kHalf;
          at.row += kHalf;
          RunTile<32, 3, kHalf>(g, at, most - kHalf);
        } else {
          RunTile<kBytes, 2, kTileRows>(g, at, most);
        }
      }
    }
  }
};

void RunPanels(const PanelProduct* product, int64_t first, int64_t count, const float* const* rows,
               const float* const* plus_rows, int64_t begin, int64_t end) {
  switch (HostIsa()) {
    case Isa::kAvx512:
      isa_internal::RunAvx512<Strips<64>>(product, first, count, rows, plus_rows, begin, end);
      break;
    case Isa::kAvx2:
      isa_internal::RunAvx2<Strips<32>>(product, first, count, rows, plus_rows, begin, end);
      break;
    case Isa::kBaseline:
      isa_internal::RunBaseline<Strips<32>>(product, first, count, rows, plus_rows, begin, end);
  }
}

}  // namespace

PanelUses UsesOfPanels() {
  switch (HostIsa()) {
    case Isa::kAvx512:
      return {.gates = true, .winograd = true, .strided = true, .narrow = true, .gelu = true};
    case Isa::kAvx2:
      return {.gates = true, .winograd = true, .few_pixels = true, .strided = true};
    case Isa::kBaseline:
      break;
  }
  return {};
}

int64_t PanelElements(int64_t k, int64_t n) {
  return (n + kPanelColumns - 1) / kPanelColumns * kPanelColumns * k;
}

void PackPanels(int64_t k, int64_t n, const float* b, int64_t row_stride, int64_t column_stride,
                float* panels) {
  constexpr int64_t kTaskElements = 1 << 16;
  ParallelFor((n + kPanelColumns - 1) / kPanelColumns,
              std::max<int64_t>(1, kTaskElements / (kPanelColumns * std::max<int64_t>(k, 1))),
              [&](int64_t begin, int64_t end) {
                for (int64_t panel = begin; panel < end; ++panel) {
                  const int64_t column = panel * kPanelColumns;
                  const int64_t columns = std::min<int64_t>(kPanelColumns, n - column);
                  const float* from = b + column * column_stride;
                  float* to = panels + column * k;
                  for (int64_t p = 0; p < k; ++p, from += row_stride, to += kPanelColumns) {
                    if (columns == kPanelColumns && column_stride == 1) {
                      std::memcpy(to, from, sizeof(float) * kPanelColumns);
                      continue;
                    }
                    for (int64_t j = 0; j < columns; ++j) to[j] = from[j * column_stride];
                    std::fill(to + columns, to + kPanelColumns, 0.0f);
                  }
                }
              });
}

void RunPanelProduct(const PanelProduct& g, RowsOf rows_of) {
  if (g.m == 0 || g.n == 0) return;
  const Even blocks(g.m, kBlockRows);
  const bool wide = HostIsa() == Isa::kAvx512;
  const int64_t strip = wide ? Strips<64>::kColumns : Strips<32>::kColumns;
  const int most_rows = wide ? kMostRows<64> : kMostRows<32>;
  const int64_t strips = (g.n + strip - 1) / strip;
  const int64_t depth = g.taps * g.depth + g.plus.depth;
  const int64_t strip_work = std::max<int64_t>(1, (g.m / blocks.parts) * strip * depth);
  const Even groups(strips, std::clamp<int64_t>(kTask / strip_work, 1, strips));
  const int64_t group_work = strips / groups.parts * strip_work;
  ParallelFor(blocks.parts * groups.parts, std::max<int64_t>(1, kTask / group_work),
              [&](int64_t begin, int64_t end) {
                std::vector<const float*> rows;
                std::vector<const float*> plus_rows;
                int64_t filled = -1;
                for (int64_t unit = begin; unit < end; ++unit) {
                  const int64_t block = unit / groups.parts;
                  const int64_t first = blocks.begin(block);
                  const int64_t count = blocks.begin(block + 1) - first;
                  if (block != filled) {
                    rows.resize(static_cast<size_t>(count * g.taps));
                    plus_rows.resize(static_cast<size_t>(count));
                    const Even tiles(count, most_rows);
                    for (int64_t t = 0; t < tiles.parts; ++t) {
                      const int64_t row = tiles.begin(t);
                      rows_of(first + row, tiles.begin(t + 1) - row, rows.data() + row * g.taps);
                    }
                    for (int64_t i = 0; i < count; ++i) {
                      plus_rows[i] = g.plus.rows + (first + i) * g.plus.depth;
                    }
                    filled = block;
                  }
                  const int64_t group = unit % groups.parts;
                  RunPanels(&g, first, count, rows.data(), plus_rows.data(),
                            groups.begin(group) * strip,
                            std::min(g.n, groups.begin(group + 1) * strip));
                }
              });
}

}  // namespace formwork
