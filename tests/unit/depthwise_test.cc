#include "core/kernels/conv/depthwise_loops.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace formwork::testing {
namespace {

struct Case {
  int64_t batch, rows, cols, channels, taps, stride, pad_before, pad_after, dilation;
};

ConvAxis Axis(const Case& c, int64_t input) {
  ConvAxis axis;
  axis.input = input;
  axis.taps = c.taps;
  axis.stride = c.stride;
  axis.dilation = c.dilation;
  axis.pad_before = c.pad_before;
  axis.pad_after = c.pad_after;
  const int64_t reach = (c.taps - 1) * c.dilation + 1;
  axis.output = (input + c.pad_before + c.pad_after - reach) / c.stride + 1;
  return axis;
}

// Small integers, so that sums are exact in any order.
std::vector<float> Values(int64_t n, int64_t step) {
  std::vector<float> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<float>(i * step % 13 - 6);
  return values;
}

// Edges that lack one tap, two or all, of one side or both; images of a few pixels; whole blocks of
// channels, some that end in the one before, and fewer than one has.
TEST(DepthwiseTest, MatchesPlainSums) {
  for (const Case& c : {
           Case{1, 9, 14, 32, 3, 1, 1, 1, 1},
           Case{2, 7, 7, 40, 3, 1, 1, 1, 1},
           Case{1, 3, 3, 16, 3, 1, 2, 2, 1},
           Case{1, 4, 3, 16, 3, 1, 0, 0, 1},
           Case{2, 8, 9, 48, 3, 2, 0, 1, 1},
           Case{1, 9, 8, 21, 3, 2, 1, 1, 1},
           Case{1, 3, 5, 16, 3, 2, 2, 2, 1},
           Case{1, 6, 5, 16, 3, 2, 2, 0, 1},
           Case{1, 2, 9, 16, 3, 1, 1, 1, 1},
           Case{1, 9, 9, 16, 3, 1, 3, 4, 1},
           Case{1, 9, 11, 24, 5, 1, 2, 2, 1},
           Case{1, 9, 9, 16, 3, 1, 2, 2, 2},
           Case{1, 8, 8, 16, 3, 3, 1, 1, 1},
           Case{3, 5, 6, 5, 3, 1, 1, 1, 1},
           Case{1, 60, 70, 64, 3, 1, 1, 1, 1},
       }) {
    ConvShape s;
    s.batch = c.batch;
    s.in_channels = s.out_channels = s.groups = c.channels;
    s.rows = Axis(c, c.rows);
    s.cols = Axis(c, c.cols);
    const int64_t n = c.channels;
    const std::vector<float> in = Values(c.batch * c.rows * c.cols * n, 7);
    const std::vector<float> filter = Values(c.taps * c.taps * n, 5);
    const std::vector<float> bias = Values(n, 3);
    std::vector<float> got(static_cast<size_t>(c.batch * s.rows.output * s.cols.output * n), -1);
    std::vector<float> wanted;
    for (int64_t image = 0; image < c.batch; ++image) {
      for (int64_t y = 0; y < s.rows.output; ++y) {
        for (int64_t x = 0; x < s.cols.output; ++x) {
          for (int64_t k = 0; k < n; ++k) {
            float sum = bias[k];
            for (int64_t i = 0; i < c.taps * c.taps; ++i) {
              const int64_t row = y * c.stride - c.pad_before + i / c.taps * c.dilation;
              const int64_t col = x * c.stride - c.pad_before + i % c.taps * c.dilation;
              if (row < 0 || row >= c.rows || col < 0 || col >= c.cols) continue;
              sum += in[((image * c.rows + row) * c.cols + col) * n + k] * filter[i * n + k];
            }
            wanted.push_back(std::clamp(sum, 0.0f, 20.0f));
          }
        }
      }
    }
    DepthwiseForward<float>(s, in.data(), filter.data(), {bias.data(), true, 20.0f}, got.data());
    EXPECT_EQ(got, wanted) << c.rows << "x" << c.cols << "x" << n << ", taps " << c.taps
                           << ", stride " << c.stride << ", padding " << c.pad_before << " and "
                           << c.pad_after;
  }
}

}  // namespace
}  // namespace formwork::testing
