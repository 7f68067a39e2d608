#include "core/kernels/conv/conv_winograd.h"

#include <algorithm>
#include <vector>

#include "core/base/first_error.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/conv/winograd_tiles.h"
#include "core/kernels/gemm/panel_product.h"
#include "core/kernels/isa.h"
#include "core/tensor/tensor.h"

namespace formwork {
namespace {

using namespace winograd;

// Fewer channels, or less to multiply, are not worth the transforms.
constexpr int64_t kLeastChannels = 32;
constexpr double kLeastWork = 1 << 22;
// Fewer tiles are not worth transforming a filter in calls that do not keep it.
constexpr int64_t kFewTiles = 32;
constexpr int64_t kMostDepth = 8192;
// Tiles that are transformed, multiplied and transformed back before the next ones: as many as stay
// in the second-level cache, and enough to multiply each panel by.
constexpr int64_t kBlockElements = 1 << 17;
constexpr int64_t kLeastTiles = 64;

// Channels come in multiples of so many.
constexpr int64_t kChannels = 8;

struct Problem {
  const ConvShape& shape;
  const float* input;
  const float* zeros;
  const float* bias;
  const float* residual;
  Activation activation;
  float* output;
};

template <int n, int kBytes>
struct TransformOutput : Lanes<kBytes> {
  using Lanes<kBytes>::kLanes;
  using typename Lanes<kBytes>::Vector;
  FORMWORK_ISA_INLINE static void Run(const Problem* problem, int64_t first, int64_t count,
                                      const float* from, int64_t step) {
    constexpr int side = kSide<n>;
    const Problem& p = *problem;
    const Tiling<n> tiling = {p.shape};
    const int64_t channels = p.shape.out_channels;
    const int64_t row_step = p.shape.cols.output * channels;
    for (int64_t i = 0; i < count; ++i, from += channels) {
      const Tile tile(tiling, first + i);
      const int64_t line = tile.image * p.shape.rows.output + tile.row;
      const int64_t begin = (line * p.shape.cols.output + tile.col) * channels;
      const int rows = static_cast<int>(std::min<int64_t>(n, p.shape.rows.output - tile.row));
      const int cols = static_cast<int>(std::min<int64_t>(n, p.shape.cols.output - tile.col));
      for (int64_t c = 0; c < channels; c += kLanes) {
        Vector s[n][side];
#pragma GCC unroll 6
        for (int x = 0; x < side; ++x) {
          Vector m[side], column[n];
#pragma GCC unroll 6
          for (int y = 0; y < side; ++y) Load(from + (y * side + x) * step + c, m[y]);
          Lines<n>::Output(m, column);
#pragma GCC unroll 4
          for (int y = 0; y < n; ++y) s[y][x] = column[y];
        }
        Vector bias = {};
        if (p.bias != nullptr) Load(p.bias + c, bias);
#pragma GCC unroll 4
        for (int y = 0; y < n; ++y) {
          if (y >= rows) break;
          Vector row[n];
          Lines<n>::Output(s[y], row);
#pragma GCC unroll 4
          for (int x = 0; x < n; ++x) {
            if (x < cols) Finish(p, row[x] + bias, begin + y * row_step + x * channels + c);
          }
        }
      }
    }
  }

  FORMWORK_ISA_INLINE static void Finish(const Problem& p, const Vector& sum, int64_t at) {
    Vector x = sum;
    if (p.residual != nullptr) {
      Vector residual;
      Load(p.residual + at, residual);
      x += residual;
    }
    if (p.activation != Activation::kNone) x = x > 0.0f ? x : Vector{};
    if (p.activation == Activation::kRelu6) x = x < 6.0f ? x : Vector{} + 6.0f;
    Store(x, p.output + at);
  }
};

// Rows [begin, end) of each point's panels; the filter is float[3, 3, in, out].
template <int n>
struct TransformFilter : Lanes<32> {
  FORMWORK_ISA_INLINE static void Run(int64_t in, int64_t out, int64_t begin, int64_t end,
                                      const float* filter, float* panels) {
    constexpr int side = kSide<n>;
    const int64_t taps = in * out;
    const int64_t points = PanelElements(in, out);
    for (int64_t first = 0; first < out; first += kPanelColumns) {
      const int64_t width = std::min<int64_t>(kPanelColumns, out - first);
      for (int64_t p = begin; p < end; ++p) {
        const float* from = filter + p * out + first;
        float* to = panels + first * in + p * kPanelColumns;
        for (int64_t j = 0; j < kPanelColumns; j += kLanes) {
          Vector t[side][3] = {};
          for (int x = 0; x < 3 && j < width; ++x) {
            Vector g[3], column[side];
            for (int y = 0; y < 3; ++y) Load(from + (3 * y + x) * taps + j, g[y]);
            Lines<n>::Filter(g, column);
            for (int y = 0; y < side; ++y) t[y][x] = column[y];
          }
          for (int y = 0; y < side; ++y) {
            Vector row[side];
            Lines<n>::Filter(t[y], row);
            for (int x = 0; x < side; ++x) Store(row[x], to + (y * side + x) * points + j);
          }
        }
      }
    }
  }
};

// The tiles [first, first + count).
template <int n>
absl::Status RunBlock(const Problem& p, const float* panels, int64_t first, int64_t count,
                      Allocator& allocator) {
  const int64_t in = p.shape.in_channels, out = p.shape.out_channels;
  const Tiling<n> tiling = {p.shape};
  const int64_t in_step = count * in + kPadding, out_step = count * out + kPadding;
  FORMWORK_ASSIGN_OR_RETURN(Tensor transformed, Tensor::Allocate(allocator, DType::kFloat,
                                                                 Shape({kPoints<n> * in_step})));
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor products, Tensor::Allocate(allocator, DType::kFloat, Shape({kPoints<n> * out_step})));
  float* const v = transformed.mutable_data<float>();
  float* const m = products.mutable_data<float>();
  ParallelFor(count, Grain<n>(in), [&](int64_t begin, int64_t end) {
    RunTransform<TransformInput, n>(in, &tiling, p.input, p.zeros, first + begin, end - begin,
                                    v + begin * in, in_step);
  });
  for (int64_t point = 0; point < kPoints<n>; ++point) {
    const float* rows = v + point * in_step;
    RunPanelProduct({.m = count,
                     .n = out,
                     .taps = 1,
                     .depth = in,
                     .panels = panels + point * PanelElements(in, out),
                     .c = m + point * out_step,
                     .ldc = out},
                    [rows, in](int64_t row, int64_t num, const float** to) {
                      for (int64_t i = 0; i < num; ++i) to[i] = rows + (row + i) * in;
                    });
  }
  ParallelFor(count, Grain<n>(out), [&](int64_t begin, int64_t end) {
    RunTransform<TransformOutput, n>(out, &p, first + begin, end - begin, m + begin * out,
                                     out_step);
  });
  return absl::OkStatus();
}

template <int n>
void PackFilter(int64_t in, int64_t out, const float* filter, float* panels) {
  ParallelFor(in, std::max<int64_t>(1, kTaskElements / out), [&](int64_t begin, int64_t end) {
    ForHostIsa<TransformFilter<n>>(in, out, begin, end, filter, panels);
  });
}

template <int n>
absl::Status Forward(const Problem& problem, const float* panels, Allocator& allocator) {
  const int64_t most =
      std::max(kLeastTiles, kBlockElements / (kPoints<n> * problem.shape.in_channels));
  const int64_t tiles = Tiling<n>{problem.shape}.tiles();
  const int64_t blocks = (tiles + most - 1) / most;
  FirstError error;
  ParallelFor(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = tiles * b / blocks;
      error.Note(RunBlock<n>(problem, panels, first, tiles * (b + 1) / blocks - first, allocator));
    }
  });
  return error.Take();
}

}  // namespace

WinogradTiles ConvByWinograd(const ConvShape& shape, Activation activation) {
  auto fits = [](const ConvAxis& axis) {
    return axis.taps == 3 && axis.stride == 1 && axis.dilation == 1;
  };
  auto wide = [](int64_t channels) {
    return channels >= kLeastChannels && channels <= kMostDepth && channels % kChannels == 0;
  };
  if (!UsesOfPanels().winograd || shape.channels_first || shape.groups != 1 || !fits(shape.rows) ||
      !fits(shape.cols) || !wide(shape.in_channels) || !wide(shape.out_channels) ||
      activation == Activation::kGelu || shape.work() <= kLeastWork) {
    return WinogradTiles::kNone;
  }
  const int64_t small = Tiling<2>{shape}.tiles(), large = Tiling<4>{shape}.tiles();
  if (small < kFewTiles) return WinogradTiles::kNone;
  const bool saves = 4 * kPoints<4> * large <= 3 * kPoints<2> * small;
  return saves && large >= kFewTiles ? WinogradTiles::kOf4 : WinogradTiles::kOf2;
}

int64_t WinogradElements(WinogradTiles tiles, int64_t in_channels, int64_t out_channels) {
  return (tiles == WinogradTiles::kOf4 ? kPoints<4> : kPoints<2>)*PanelElements(in_channels,
                                                                                out_channels);
}

void WinogradFilter(WinogradTiles tiles, int64_t in_channels, int64_t out_channels,
                    const float* filter, float* panels) {
  const auto pack = tiles == WinogradTiles::kOf4 ? PackFilter<4> : PackFilter<2>;
  pack(in_channels, out_channels, filter, panels);
}

absl::Status ConvWinogradForward(WinogradTiles tiles, const ConvShape& shape, const float* input,
                                 const float* panels, const float* bias, const float* residual,
                                 Activation activation, Allocator& allocator, float* output) {
  const std::vector<float> zeros(static_cast<size_t>(shape.in_channels));
  const Problem problem = {shape, input, zeros.data(), bias, residual, activation, output};
  const auto forward = tiles == WinogradTiles::kOf4 ? Forward<4> : Forward<2>;
  return forward(problem, panels, allocator);
}

}  // namespace formwork
