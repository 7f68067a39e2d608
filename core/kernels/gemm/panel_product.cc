#include "core/kernels/gemm/panel_product.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/parallel.h"
#include "core/kernels/elementwise/activate.h"
#include "core/kernels/isa.h"

namespace formwork {
namespace {

// A tile of c is kMostRows x kPanelColumns: 12 registers of AVX2's 16 for the sums, 2 for a row of
// the panel, 1 for an element of a.
constexpr int kLanes = 8;
constexpr int kVectors = 2;
static_assert(kPanelColumns == kLanes * kVectors);
constexpr int kMostRows = 6;
// Rows that go through all panels before the next ones: what they read stays in the second-level
// cache, and a panel is read once for all of them.
constexpr int64_t kBlockRows = 192;
// Between two looks ahead a tile goes through so many rows of its panel, and asks for so many
// lines.
constexpr int64_t kStretch = 32;
constexpr int64_t kAsk = 8;
// Multiplications that are worth a task: 17 us. Two tasks cost 3 us more than their halves.
constexpr int64_t kTask = 3 << 18;

typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));

// Cut into parts that differ by one at the most.
struct Even {
  int64_t total, parts;
  Even(int64_t total, int64_t most) : total(total), parts((total + most - 1) / most) {}
  int64_t begin(int64_t part) const { return total * part / parts; }
};

// What a tile needs beside the product.
struct Place {
  const float* const* rows;  // Where the tile's rows begin, for each tap.
  const float* panel;
  const float* const* plus_rows;  // Of the other product.
  const float* plus_panel;
  int64_t row, column;    // Of the product.
  int64_t columns;        // That there are, of kPanelColumns.
  float* c;               // The tile's column in row 0,
  const float* residual;  // and what is added there, or null.
  // The next panel comes from memory while this one is computed with: a tile asks for a part.
  const float* next;
  int64_t share;  // Of each tile, in rows of the panel.
};

template <Activation kActivation>
FORMWORK_ISA_INLINE void Finish(const PanelProduct& g, const Place& at, int64_t i,
                                const float* sum) {
  const int64_t first = (at.row + i) * g.ldc;
  for (int64_t j = 0; j < at.columns; ++j) {
    float x = sum[j];
    if (g.bias != nullptr) x += g.bias[at.column + j];
    if (at.residual != nullptr) x += at.residual[first + j];
    at.c[first + j] = Activate<kActivation>(x);
  }
}

template <int kRows, Activation kActivation>
FORMWORK_ISA_INLINE void Tile(const PanelProduct& g, const Place& at) {
  Vector sum[kRows][kVectors] = {};
  const float* b = at.panel;
  const float* next = at.next;
  const float* const next_end = next + at.share * kPanelColumns;
  const float* const* rows = at.rows;
  int64_t step = g.step;
  int64_t end = g.depth * step;
  const int64_t pieces = g.taps + (g.plus.panels != nullptr ? 1 : 0);
  for (int64_t t = 0; t < pieces; ++t, rows += kRows) {
    if (t == g.taps) {  // The other product.
      rows = at.plus_rows;
      step = 1;
      end = g.plus.depth;
      b = at.plus_panel;
    }
    const int64_t stretch = kStretch * step;
    const float* a[kRows];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) a[i] = rows[i];
    for (int64_t p = 0; p < end;) {
      for (const float* ask = next; ask < next_end && ask < next + kAsk * kPanelColumns;
           ask += kPanelColumns) {
        __builtin_prefetch(ask);
      }
      next += kAsk * kPanelColumns;
      for (const int64_t until = std::min(p + stretch, end); p < until; p += step) {
        Vector row[kVectors];
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j) std::memcpy(&row[j], b + j * kLanes, sizeof(Vector));
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i) {
          const float x = a[i][p];
#pragma GCC unroll 8
          for (int j = 0; j < kVectors; ++j) sum[i][j] += x * row[j];
        }
        b += kPanelColumns;
      }
    }
  }
  if (at.columns < kPanelColumns) {
    alignas(64) float edge[kRows][kPanelColumns];
    std::memcpy(edge, sum, sizeof(edge));
    for (int i = 0; i < kRows; ++i) Finish<kActivation>(g, at, i, edge[i]);
    return;
  }
  const int64_t first = at.row * g.ldc;
  if (g.bias != nullptr) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      Vector bias;
      std::memcpy(&bias, g.bias + at.column + j * kLanes, sizeof(Vector));
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) sum[i][j] += bias;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      const int64_t to = first + i * g.ldc + j * kLanes;
      Vector& x = sum[i][j];
      if (at.residual != nullptr) {
        Vector residual;
        std::memcpy(&residual, at.residual + to, sizeof(Vector));
        x += residual;
      }
      if (kActivation == Activation::kRelu || kActivation == Activation::kRelu6) {
        x = x > 0.0f ? x : Vector{};
      }
      if (kActivation == Activation::kRelu6) x = x < 6.0f ? x : Vector{} + 6.0f;
      if (kActivation == Activation::kGelu) continue;
      std::memcpy(at.c + to, &x, sizeof(Vector));
    }
  }
  if (kActivation != Activation::kGelu) return;
  // In memory, where the compiler makes vectors of what is a function of one element.
  alignas(64) float each[kRows * kPanelColumns];
  std::memcpy(each, sum, sizeof(each));
  for (int e = 0; e < kRows * kPanelColumns; ++e) each[e] = Activate<kActivation>(each[e]);
  for (int i = 0; i < kRows; ++i) {
    std::memcpy(at.c + first + i * g.ldc, each + i * kPanelColumns, sizeof(float) * kPanelColumns);
  }
}

template <Activation kActivation>
struct Panels {
  // The panels [begin, end) of `count` rows from `first` on, whose `rows` lie tile by tile;
  // `plus_rows`: those of the other product.
  FORMWORK_ISA_INLINE static void Run(const PanelProduct* product, int64_t first, int64_t count,
                                      const float* const* rows, const float* const* plus_rows,
                                      int64_t begin, int64_t end) {
    const PanelProduct& g = *product;
    const Even tiles(count, kMostRows);
    const int64_t panels = (g.n + kPanelColumns - 1) / kPanelColumns;
    const int64_t depth = g.taps * g.depth;
    const int64_t share = depth / tiles.parts;
    for (int64_t panel = begin; panel < end; ++panel) {
      Place at;
      at.column = panel * kPanelColumns;
      at.columns = std::min<int64_t>(kPanelColumns, g.n - at.column);
      if (g.parts.empty()) {
        at.c = g.c + at.column;
        at.residual = g.residual == nullptr ? nullptr : g.residual + at.column;
      } else {
        const int64_t width = g.n / static_cast<int64_t>(g.parts.size());
        at.c = g.parts[at.column / width] + at.column % width;
        at.residual = nullptr;
      }
      at.plus_panel = g.plus.panels == nullptr ? nullptr : g.plus.panels + at.column * g.plus.depth;
      at.panel = g.panels + at.column * depth;
      at.share = panel + 1 < panels ? share : 0;
      for (int64_t t = 0; t < tiles.parts; ++t) {
        const int64_t row = tiles.begin(t);
        at.rows = rows + row * g.taps;
        at.plus_rows = plus_rows + row;
        at.row = first + row;
        at.next = at.panel + (depth + t * share) * kPanelColumns;
        switch (tiles.begin(t + 1) - row) {
          case 1:
            Tile<1, kActivation>(g, at);
            break;
          case 2:
            Tile<2, kActivation>(g, at);
            break;
          case 3:
            Tile<3, kActivation>(g, at);
            break;
          case 4:
            Tile<4, kActivation>(g, at);
            break;
          case 5:
            Tile<5, kActivation>(g, at);
            break;
          default:
            Tile<6, kActivation>(g, at);
        }
      }
    }
  }
};

template <Activation kActivation>
void RunPanels(const PanelProduct* product, int64_t first, int64_t count, const float* const* rows,
               const float* const* plus_rows, int64_t begin, int64_t end) {
  if (HostIsa() == Isa::kBaseline) {
    isa_internal::RunBaseline<Panels<kActivation>>(product, first, count, rows, plus_rows, begin,
                                                   end);
  } else {
    isa_internal::RunAvx2<Panels<kActivation>>(product, first, count, rows, plus_rows, begin, end);
  }
}

auto RunnerOf(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return RunPanels<Activation::kRelu>;
    case Activation::kRelu6:
      return RunPanels<Activation::kRelu6>;
    case Activation::kGelu:
      return RunPanels<Activation::kGelu>;
    default:
      return RunPanels<Activation::kNone>;
  }
}

}  // namespace

bool PanelsAreFast() { return HostIsa() == Isa::kAvx2; }

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
  const auto run = RunnerOf(g.activation);
  const Even blocks(g.m, kBlockRows);
  const int64_t panels = (g.n + kPanelColumns - 1) / kPanelColumns;
  const int64_t depth = g.taps * g.depth + g.plus.depth;
  const int64_t panel_work = std::max<int64_t>(1, (g.m / blocks.parts) * kPanelColumns * depth);
  const Even groups(panels, std::clamp<int64_t>(kTask / panel_work, 1, panels));
  const int64_t group_work = panels / groups.parts * panel_work;
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
                    const Even tiles(count, kMostRows);
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
                  run(&g, first, count, rows.data(), plus_rows.data(), groups.begin(group),
                      groups.begin(group + 1));
                }
              });
}

}  // namespace formwork
