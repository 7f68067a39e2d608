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
template <int kBytes>
struct TransformGradient : Lanes<kBytes> {
  using Lanes<kBytes>::kLanes;
  using typename Lanes<kBytes>::Vector;
  FORMWORK_ISA_INLINE static void Run(const Tiling* tiling, const float* gradient,
                                      const float* zeros, int64_t first, int64_t count, float* to,
                                      int64_t step) {
    const ConvShape& s = tiling->shape;
    const int64_t channels = s.out_channels;
    for (int64_t i = 0; i < count; ++i, to += channels) {
      const Tile tile(*tiling, first + i);
      const bool two_rows = tile.row + 1 < s.rows.output;
      const bool two_cols = tile.col + 1 < s.cols.output;
      const int64_t line = tile.image * s.rows.output + tile.row;
      const float* g = gradient + (line * s.cols.output + tile.col) * channels;
      const int64_t row = s.cols.output * channels;
      const float* from[4] = {g, two_cols ? g + channels : zeros, two_rows ? g + row : zeros,
                              two_rows && two_cols ? g + row + channels : zeros};
      for (int64_t c = 0; c < channels; c += kLanes) {
        Vector t[kSide][2];
#pragma GCC unroll 2
        for (int x = 0; x < 2; ++x) {
          Vector y0, y1;
          Load(from[x] + c, y0);
          Load(from[2 + x] + c, y1);
          t[0][x] = y0;
          t[1][x] = y0 + y1;
          t[2][x] = y0 - y1;
          t[3][x] = -y1;
        }
#pragma GCC unroll 4
        for (int y = 0; y < kSide; ++y) {
          float* at = to + y * kSide * step + c;
          Store(t[y][0], at);
          Store(t[y][0] + t[y][1], at + step);
          Store(t[y][0] - t[y][1], at + 2 * step);
          Store(-t[y][1], at + 3 * step);
        }
      }
    }
  }
};

// Elements [begin, end), in registers of 8, of each tap: taps[tap * matrix + e] from
// sums[point * step + e].
struct TransformSums : Lanes<32> {
  FORMWORK_ISA_INLINE static void Run(int64_t matrix, int64_t begin, int64_t end, const float* sums,
                                      int64_t step, float* taps) {
    for (int64_t e = begin * kLanes; e < end * kLanes; e += kLanes) {
      Vector t[3][kSide];
      for (int x = 0; x < kSide; ++x) {
        Vector m0, m1, m2, m3;
        Load(sums + x * step + e, m0);
        Load(sums + (4 + x) * step + e, m1);
        Load(sums + (8 + x) * step + e, m2);
        Load(sums + (12 + x) * step + e, m3);
        const Vector half = 0.5f * (m1 + m2);
        t[0][x] = m0 + half;
        t[1][x] = 0.5f * (m1 - m2);
        t[2][x] = half + m3;
      }
      for (int y = 0; y < 3; ++y) {
        const Vector half = 0.5f * (t[y][1] + t[y][2]);
        float* at = taps + 3 * y * matrix + e;
        Store(t[y][0] + half, at);
        Store(0.5f * (t[y][1] - t[y][2]), at + matrix);
        Store(half + t[y][3], at + 2 * matrix);
      }
    }
  }
};

}  // namespace

bool FilterGradientByWinograd(const ConvShape& shape) {
  return ConvByWinograd(shape, Activation::kNone) && Tiling{shape}.tiles() >= kFewestTiles;
}

absl::Status WinogradFilterGradient(const ConvShape& shape, const float* input,
                                    const float* out_backprop, Allocator& allocator,
                                    float* filter_backprop) {
  const int64_t in = shape.in_channels, out = shape.out_channels;
  const Tiling tiling = {shape};
  const int64_t tiles = tiling.tiles();
  const int64_t most =
      std::min(tiles, std::max(kLeastTiles, kBlockElements / (kPoints * (in + out))));
  const int64_t in_step = most * in + kPadding, out_step = most * out + kPadding;
  const int64_t sum_step = in * out + kPadding;
  const std::vector<float> zeros(static_cast<size_t>(std::max(in, out)));
  FORMWORK_ASSIGN_OR_RETURN(Tensor inputs,
                            Tensor::Allocate(allocator, DType::kFloat, Shape({kPoints * in_step})));
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor gradients, Tensor::Allocate(allocator, DType::kFloat, Shape({kPoints * out_step})));
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor sums, Tensor::Allocate(allocator, DType::kFloat, Shape({kPoints * sum_step})));
  float* const v = inputs.mutable_data<float>();
  float* const u = gradients.mutable_data<float>();
  float* const m = sums.mutable_data<float>();
  const int64_t blocks = (tiles + most - 1) / most;
  // One after the other, so that sums are the same for any number of threads.
  for (int64_t b = 0; b < blocks; ++b) {
    if (WorkIsCut()) return absl::OkStatus();
    const int64_t first = tiles * b / blocks;
    const int64_t count = tiles * (b + 1) / blocks - first;
    ParallelFor(count, Grain(in), [&](int64_t begin, int64_t end) {
      RunTransform<TransformInput>(in, &tiling, input, zeros.data(), first + begin, end - begin,
                                   v + begin * in, in_step);
    });
    ParallelFor(count, Grain(out), [&](int64_t begin, int64_t end) {
      RunTransform<TransformGradient>(out, &tiling, out_backprop, zeros.data(), first + begin,
                                      end - begin, u + begin * out, out_step);
    });
    ParallelFor(kPoints, 1, [&](int64_t begin, int64_t end) {
      for (int64_t point = begin; point < end; ++point) {
        Gemm(/*trans_a=*/true, /*trans_b=*/false, in, out, count, v + point * in_step, in,
             u + point * out_step, out, b == 0 ? 0.0f : 1.0f, m + point * sum_step, out);
      }
    });
  }
  const int64_t matrix = in * out;
  ParallelFor(matrix / TransformSums::kLanes, Grain(TransformSums::kLanes),
              [&](int64_t begin, int64_t end) {
                ForHostIsa<TransformSums>(matrix, begin, end, m, sum_step, filter_backprop);
              });
  return absl::OkStatus();
}

}  // namespace formwork
