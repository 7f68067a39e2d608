#include <algorithm>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/conv/conv_winograd.h"
#include "core/kernels/conv/winograd_tiles.h"
#include "core/kernels/gemm/gemm.h"
#include "core/tensor/tensor.h"

namespace formwork {
namespace {

using namespace winograd;

// Fewer are not worth sums of 16 matrices where the filter has 9.
constexpr int64_t kFewestTiles = 256;
// Tiles that are transformed and multiplied before the next ones: enough that the sums, which each
// block reads and writes, cost little beside the products.
constexpr int64_t kBlockElements = 1 << 18;
constexpr int64_t kLeastTiles = 192;

// to[point * step + i * channels + c]: tile first + i of the gradient, transformed. What lies
// outside of the output is 0.
template <int n, int kBytes>
struct TransformGradient : Lanes<kBytes> {
  using Lanes<kBytes>::kLanes;
  using typename Lanes<kBytes>::Vector;
  FORMWORK_ISA_INLINE static void Run(const Tiling<n>* tiling, const float* gradient,
                                      const float* zeros, int64_t first, int64_t count, float* to,
                                      int64_t step) {
    const ConvShape& s = tiling->shape;
    const int64_t channels = s.out_channels;
    for (int64_t i = 0; i < count; ++i, to += channels) {
      const Tile tile(*tiling, first + i);
      const float* from[n][n];
      for (int y = 0; y < n; ++y) {
        const int64_t line = tile.image * s.rows.output + tile.row + y;
        for (int x = 0; x < n; ++x) {
          const bool inside = tile.row + y < s.rows.output && tile.col + x < s.cols.output;
          from[y][x] = inside ? gradient + (line * s.cols.output + tile.col + x) * channels : zeros;
        }
      }
      for (int64_t c = 0; c < channels; c += kLanes) {
        StoreTransform<n, n, Vector>(from, c, to, step);
      }
    }
  }
};

// Elements [begin, end), in registers of 8, of each tap: taps[tap * matrix + e] from
// sums[point * step + e].
template <int n>
struct TransformSums : Lanes<32> {
  FORMWORK_ISA_INLINE static void Run(int64_t matrix, int64_t begin, int64_t end, const float* sums,
                                      int64_t step, float* taps) {
    constexpr int side = kSide<n>;
    for (int64_t e = begin * kLanes; e < end * kLanes; e += kLanes) {
      Vector t[3][side];
      for (int x = 0; x < side; ++x) {
        Vector m[side], column[3];
        for (int y = 0; y < side; ++y) Load(sums + (y * side + x) * step + e, m[y]);
        Lines<n>::Sums(m, column);
        for (int y = 0; y < 3; ++y) t[y][x] = column[y];
      }
      for (int y = 0; y < 3; ++y) {
        Vector row[3];
        Lines<n>::Sums(t[y], row);
        for (int x = 0; x < 3; ++x) Store(row[x], taps + (3 * y + x) * matrix + e);
      }
    }
  }
};

template <int n>
absl::Status FilterGradient(const ConvShape& shape, const float* input, const float* out_backprop,
                            Allocator& allocator, float* filter_backprop) {
  const int64_t in = shape.in_channels, out = shape.out_channels;
  const Tiling<n> tiling = {shape};
  const int64_t tiles = tiling.tiles();
  const int64_t most =
      std::min(tiles, std::max(kLeastTiles, kBlockElements / (kPoints<n> * (in + out))));
  const int64_t in_step = most * in + kPadding, out_step = most * out + kPadding;
  const int64_t sum_step = in * out + kPadding;
  const std::vector<float> zeros(static_cast<size_t>(std::max(in, out)));
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor inputs, Tensor::Allocate(allocator, DType::kFloat, Shape({kPoints<n> * in_step})));
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor gradients, Tensor::Allocate(allocator, DType::kFloat, Shape({kPoints<n> * out_step})));
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor sums, Tensor::Allocate(allocator, DType::kFloat, Shape({kPoints<n> * sum_step})));
  float* const v = inputs.mutable_data<float>();
  float* const u = gradients.mutable_data<float>();
  float* const m = sums.mutable_data<float>();
  const int64_t blocks = (tiles + most - 1) / most;
  // One after the other, so that sums are the same for any number of threads.
  for (int64_t b = 0; b < blocks; ++b) {
    if (WorkIsCut()) return absl::OkStatus();
    const int64_t first = tiles * b / blocks;
    const int64_t count = tiles * (b + 1) / blocks - first;
    ParallelFor(count, Grain<n>(in), [&](int64_t begin, int64_t end) {
      RunTransform<TransformInput, n>(in, &tiling, input, zeros.data(), first + begin, end - begin,
                                      v + begin * in, in_step);
    });
    ParallelFor(count, Grain<n>(out), [&](int64_t begin, int64_t end) {
      RunTransform<TransformGradient, n>(out, &tiling, out_backprop, zeros.data(), first + begin,
                                         end - begin, u + begin * out, out_step);
    });
    ParallelFor(kPoints<n>, 1, [&](int64_t begin, int64_t end) {
      for (int64_t point = begin; point < end; ++point) {
        Gemm(/*trans_a=*/true, /*trans_b=*/false, in, out, count, v + point * in_step, in,
             u + point * out_step, out, b == 0 ? 0.0f : 1.0f, m + point * sum_step, out);
      }
    });
  }
  const int64_t matrix = in * out;
  using Sums = TransformSums<n>;
  ParallelFor(matrix / Sums::kLanes, Grain<n>(Sums::kLanes), [&](int64_t begin, int64_t end) {
    ForHostIsa<Sums>(matrix, begin, end, m, sum_step, filter_backprop);
  });
  return absl::OkStatus();
}

}  // namespace

WinogradTiles FilterGradientByWinograd(const ConvShape& shape) {
  const WinogradTiles tiles = ConvByWinograd(shape, Activation::kNone);
  const bool few = (tiles == WinogradTiles::kOf4 ? Tiling<4>{shape}.tiles()
                                                 : Tiling<2>{shape}.tiles()) < kFewestTiles;
  return few ? WinogradTiles::kNone : tiles;
}

absl::Status WinogradFilterGradient(WinogradTiles tiles, const ConvShape& shape, const float* input,
                                    const float* out_backprop, Allocator& allocator,
                                    float* filter_backprop) {
  const auto gradient = tiles == WinogradTiles::kOf4 ? FilterGradient<4> : FilterGradient<2>;
  return gradient(shape, input, out_backprop, allocator, filter_backprop);
}

}  // namespace formwork
