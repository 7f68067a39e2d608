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

  Tiling tiling() const { return {shape}; }
};

template <int kBytes>
struct TransformOutput : Lanes<kBytes> {
  using Lanes<kBytes>::kLanes;
  using typename Lanes<kBytes>::Vector;
  FORMWORK_ISA_INLINE static void Run(const Problem* problem, int64_t first, int64_t count,
                                      const float* from, int64_t step) {
    const Problem& p = *problem;
    const int64_t channels = p.shape.out_channels;
    for (int64_t i = 0; i < count; ++i, from += channels) {
      const Tile tile(p.tiling(), first + i);
      const int64_t line = tile.image * p.shape.rows.output + tile.row;
      const int64_t begin = (line * p.shape.cols.output + tile.col) * channels;
      const int64_t row_step = p.shape.cols.output * channels;
      const bool two_rows = tile.row + 1 < p.shape.rows.output;
      const bool two_cols = tile.col + 1 < p.shape.cols.output;
      for (int64_t c = 0; c < channels; c += kLanes) {
        Vector s[2][kSide];
#pragma GCC unroll 4
        for (int x = 0; x < kSide; ++x) {
          const float* at = from + x * step + c;
          Vector m0, m1, m2, m3;
          Load(at, m0);
          Load(at + 4 * step, m1);
          Load(at + 8 * step, m2);
          Load(at + 12 * step, m3);
          s[0][x] = m0 + m1 + m2;
          s[1][x] = m1 - m2 - m3;
        }
        Vector bias = {};
        if (p.bias != nullptr) Load(p.bias + c, bias);
#pragma GCC unroll 2
        for (int y = 0; y < 2; ++y) {
          if (y == 1 && !two_rows) break;
          const int64_t at = begin + y * row_step + c;
          Finish(p, s[y][0] + s[y][1] + s[y][2] + bias, at);
          if (two_cols) Finish(p, s[y][1] - s[y][2] - s[y][3] + bias, at + channels);
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
struct TransformFilter : Lanes<32> {
  FORMWORK_ISA_INLINE static void Run(int64_t in, int64_t out, int64_t begin, int64_t end,
                                      const float* filter, float* panels) {
    const int64_t taps = in * out;
    const int64_t points = PanelElements(in, out);
    for (int64_t first = 0; first < out; first += kPanelColumns) {
      const int64_t width = std::min<int64_t>(kPanelColumns, out - first);
      for (int64_t p = begin; p < end; ++p) {
        const float* g = filter + p * out + first;
        float* to = panels + first * in + p * kPanelColumns;
        for (int64_t j = 0; j < kPanelColumns; j += kLanes) {
          Vector t[kSide][3] = {};
          for (int x = 0; x < 3 && j < width; ++x) {
            Vector g0, g1, g2;
            Load(g + x * taps + j, g0);
            Load(g + (3 + x) * taps + j, g1);
            Load(g + (6 + x) * taps + j, g2);
            t[0][x] = g0;
            t[1][x] = 0.5f * (g0 + g1 + g2);
            t[2][x] = 0.5f * (g0 - g1 + g2);
            t[3][x] = g2;
          }
          for (int y = 0; y < kSide; ++y) {
            float* at = to + y * kSide * points + j;
            Store(t[y][0], at);
            Store(0.5f * (t[y][0] + t[y][1] + t[y][2]), at + points);
            Store(0.5f * (t[y][0] - t[y][1] + t[y][2]), at + 2 * points);
            Store(t[y][2], at + 3 * points);
          }
        }
      }
    }
  }
};

// The tiles [first, first + count).
absl::Status RunBlock(const Problem& p, const float* panels, int64_t first, int64_t count,
                      Allocator& allocator) {
  const int64_t in = p.shape.in_channels, out = p.shape.out_channels;
  const Tiling tiling = p.tiling();
  const int64_t in_step = count * in + kPadding, out_step = count * out + kPadding;
  FORMWORK_ASSIGN_OR_RETURN(Tensor transformed,
                            Tensor::Allocate(allocator, DType::kFloat, Shape({kPoints * in_step})));
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor products, Tensor::Allocate(allocator, DType::kFloat, Shape({kPoints * out_step})));
  float* const v = transformed.mutable_data<float>();
  float* const m = products.mutable_data<float>();
  ParallelFor(count, Grain(in), [&](int64_t begin, int64_t end) {
    RunTransform<TransformInput>(in, &tiling, p.input, p.zeros, first + begin, end - begin,
                                 v + begin * in, in_step);
  });
  for (int64_t point = 0; point < kPoints; ++point) {
    const float* rows = v + point * in_step;
    RunPanelProduct({.m = count,
                     .n = out,
                     .taps = 1,
                     .depth = in,
                     .panels = panels + point * PanelElements(in, out),
                     .c = m + point * out_step,
                     .ldc = out},
                    [rows, in](int64_t row, int64_t n, const float** to) {
                      for (int64_t i = 0; i < n; ++i) to[i] = rows + (row + i) * in;
                    });
  }
  ParallelFor(count, Grain(out), [&](int64_t begin, int64_t end) {
    RunTransform<TransformOutput>(out, &p, first + begin, end - begin, m + begin * out, out_step);
  });
  return absl::OkStatus();
}

}  // namespace

bool ConvByWinograd(const ConvShape& shape, Activation activation) {
  auto fits = [](const ConvAxis& axis) {
    return axis.taps == 3 && axis.stride == 1 && axis.dilation == 1;
  };
  auto wide = [](int64_t channels) {
    return channels >= kLeastChannels && channels <= kMostDepth && channels % kChannels == 0;
  };
  return UsesOfPanels().winograd && !shape.channels_first && shape.groups == 1 &&
         fits(shape.rows) && fits(shape.cols) && wide(shape.in_channels) &&
         wide(shape.out_channels) && activation != Activation::kGelu && shape.work() > kLeastWork &&
         shape.batch * ((shape.rows.output + 1) / 2) * ((shape.cols.output + 1) / 2) >= kFewTiles;
}

int64_t WinogradElements(int64_t in_channels, int64_t out_channels) {
  return kPoints * PanelElements(in_channels, out_channels);
}

void WinogradFilter(int64_t in_channels, int64_t out_channels, const float* filter, float* panels) {
  ParallelFor(in_channels, std::max<int64_t>(1, kTaskElements / out_channels),
              [&](int64_t begin, int64_t end) {
                ForHostIsa<TransformFilter>(in_channels, out_channels, begin, end, filter, panels);
              });
}

absl::Status ConvWinogradForward(const ConvShape& shape, const float* input, const float* panels,
                                 const float* bias, const float* residual, Activation activation,
                                 Allocator& allocator, float* output) {
  const std::vector<float> zeros(static_cast<size_t>(shape.in_channels));
  const Problem problem = {shape, input, zeros.data(), bias, residual, activation, output};
  const int64_t most = std::max(kLeastTiles, kBlockElements / (kPoints * shape.in_channels));
  const int64_t tiles = problem.tiling().tiles();
  const int64_t blocks = (tiles + most - 1) / most;
  FirstError error;
  ParallelFor(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = tiles * b / blocks;
      error.Note(RunBlock(problem, panels, first, tiles * (b + 1) / blocks - first, allocator));
    }
  });
  return error.Take();
}

}  // namespace formwork
