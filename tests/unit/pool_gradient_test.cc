#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/kernels/conv/pool_loops.h"
#include "gtest/gtest.h"

namespace formwork::testing {
namespace {

struct Case {
  int64_t rows, cols, channels, taps, stride, pad_before, outputs;
};

ConvAxis Axis(const Case& c, int64_t input, int64_t outputs) {
  ConvAxis axis;
  axis.input = input;
  axis.taps = c.taps;
  axis.stride = c.stride;
  axis.pad_before = c.pad_before;
  axis.output = outputs;
  return axis;
}

// The first largest of each window, found plainly; equal elements, NaN and -0 among them.
TEST(PoolGradientTest, GoesToTheFirstLargestOfEachWindow) {
  for (const Case& c : {
           Case{8, 8, 32, 2, 2, 0, 4},  // Side by side.
           Case{9, 9, 40, 2, 2, 0, 4},  // What is left over belongs to no window.
           Case{9, 9, 16, 2, 2, 1, 5},  // Parts of windows on one side,
           Case{9, 9, 21, 2, 2, 0, 5},  // on the other,
           Case{7, 7, 16, 3, 3, 1, 3},  // and on both.
           Case{9, 9, 32, 3, 2, 0, 4},  // Windows that share elements.
           Case{9, 9, 17, 3, 1, 1, 9},
           Case{9, 9, 16, 2, 3, 0, 3},
           Case{8, 8, 16, 4, 4, 0, 2},
       }) {
    for (const bool relu : {false, true}) {
      ConvShape s;
      s.batch = 2;
      s.in_channels = s.out_channels = c.channels;
      s.rows = Axis(c, c.rows, c.outputs);
      s.cols = Axis(c, c.cols, c.outputs);
      const int64_t n = c.channels;
      std::vector<float> in(static_cast<size_t>(s.batch * c.rows * c.cols * n));
      for (size_t i = 0; i < in.size(); ++i) {
        in[i] = static_cast<float>(i * 11 % 7) - 3;
        if (i % 29 == 0) in[i] = std::numeric_limits<float>::quiet_NaN();
      }
      std::vector<float> gradient(static_cast<size_t>(s.batch * c.outputs * c.outputs * n));
      for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i % 5) - 2;
      gradient[0] = gradient[7] = -0.0f;
      std::vector<float> wanted(in.size(), 0.0f);
      for (int64_t w = 0; w < s.batch * c.outputs * c.outputs; ++w) {
        const int64_t image = w / (c.outputs * c.outputs);
        const int64_t y0 = w / c.outputs % c.outputs * c.stride - c.pad_before;
        const int64_t x0 = w % c.outputs * c.stride - c.pad_before;
        for (int64_t k = 0; k < n; ++k) {
          int64_t best = -1;
          for (int64_t i = 0; i < c.taps * c.taps; ++i) {
            const int64_t y = y0 + i / c.taps, x = x0 + i % c.taps;
            if (y < 0 || y >= c.rows || x < 0 || x >= c.cols) continue;
            const int64_t at = ((image * c.rows + y) * c.cols + x) * n + k;
            if (best < 0 || in[at] > in[best]) best = at;
          }
          if (best >= 0 && (!relu || in[best] > 0)) wanted[best] += gradient[w * n + k];
        }
      }
      std::vector<float> got(in.size(), std::numeric_limits<float>::quiet_NaN());
      MaxPoolInputGradient<float>(s, relu, in.data(), gradient.data(), got.data());
      for (size_t i = 0; i < in.size(); ++i) {
        ASSERT_EQ(got[i], wanted[i]) << i << " of " << c.rows << "x" << c.cols << "x" << n
                                     << ", taps " << c.taps << ", stride " << c.stride;
        ASSERT_EQ(std::signbit(got[i]), std::signbit(wanted[i])) << i;
      }
    }
  }
}

}  // namespace
}  // namespace formwork::testing
