#include "core/kernels/conv/conv_winograd.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/device/host_allocator.h"
#include "tests/support/graph_world.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

std::vector<float> Values(int64_t n, uint32_t state) {
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values) {
    state = state * 1664525 + 1013904223;
    v = static_cast<float>(state >> 8) / (1 << 23) - 1;
  }
  return values;
}

// In double, a window at a time.
double Direct(const ConvShape& s, const std::vector<float>& input, const std::vector<float>& filter,
              int64_t image, int64_t y, int64_t x, int64_t channel) {
  double sum = 0;
  for (int64_t ty = 0; ty < 3; ++ty) {
    for (int64_t tx = 0; tx < 3; ++tx) {
      const int64_t row = y + ty - s.rows.pad_before, col = x + tx - s.cols.pad_before;
      if (row < 0 || row >= s.rows.input || col < 0 || col >= s.cols.input) continue;
      for (int64_t c = 0; c < s.in_channels; ++c) {
        const int64_t from =
            ((image * s.rows.input + row) * s.cols.input + col) * s.in_channels + c;
        sum += static_cast<double>(input[from]) *
               static_cast<double>(
                   filter[((ty * 3 + tx) * s.in_channels + c) * s.out_channels + channel]);
      }
    }
  }
  return sum;
}

ConvAxis Axis(int64_t input, int64_t pad) {
  return {.input = input,
          .output = input + 2 * pad - 2,
          .taps = 3,
          .pad_before = pad,
          .pad_after = pad};
}

class ConvWinogradTest : public ::testing::TestWithParam<WinogradTiles> {};
INSTANTIATE_TEST_SUITE_P(Tiles, ConvWinogradTest,
                         ::testing::Values(WinogradTiles::kOf2, WinogradTiles::kOf4));

// Even and odd sizes, with and without padding, several blocks of tiles, channels that do not fill
// a panel, and each epilogue.
TEST_P(ConvWinogradTest, MatchesPlainSums) {
  struct Case {
    int64_t batch, rows, cols, pad, in, out;
    bool bias, residual;
    Activation activation;
  };
  for (const Case& c : {Case{1, 8, 8, 1, 32, 48, true, false, Activation::kRelu},
                        Case{2, 9, 7, 1, 40, 32, true, true, Activation::kRelu6},
                        Case{2, 23, 30, 0, 32, 40, false, true, Activation::kNone},
                        Case{2, 13, 10, 0, 32, 64, true, false, Activation::kRelu},
                        Case{1, 3, 4, 0, 8, 8, false, false, Activation::kNone}}) {
    ConvShape shape;
    shape.batch = c.batch;
    shape.in_channels = c.in;
    shape.out_channels = c.out;
    shape.rows = Axis(c.rows, c.pad);
    shape.cols = Axis(c.cols, c.pad);
    const std::vector<float> input = Values(shape.input_elements(), 1);
    const std::vector<float> filter = Values(shape.filter_elements(), 2);
    const std::vector<float> bias = Values(c.out, 3);
    const std::vector<float> residual = Values(shape.output_elements(), 4);
    std::vector<float> panels(WinogradElements(GetParam(), c.in, c.out));
    WinogradFilter(GetParam(), c.in, c.out, filter.data(), panels.data());
    std::vector<float> got = residual;
    ASSERT_OK(ConvWinogradForward(GetParam(), shape, input.data(), panels.data(),
                                  c.bias ? bias.data() : nullptr, c.residual ? got.data() : nullptr,
                                  c.activation, ProcessAllocator(), got.data()));
    int64_t at = 0;
    for (int64_t n = 0; n < c.batch; ++n) {
      for (int64_t y = 0; y < shape.rows.output; ++y) {
        for (int64_t x = 0; x < shape.cols.output; ++x) {
          for (int64_t j = 0; j < c.out; ++j, ++at) {
            double want = Direct(shape, input, filter, n, y, x, j);
            if (c.bias) want += bias[j];
            if (c.residual) want += residual[at];
            if (c.activation != Activation::kNone) want = std::max(want, 0.0);
            if (c.activation == Activation::kRelu6) want = std::min(want, 6.0);
            ASSERT_NEAR(got[at], want, 5e-5) << n << "," << y << "," << x << "," << j;
          }
        }
      }
    }
  }
}

// The gradient of the input, against what each output passes on to the inputs of its window.
TEST(ConvWinogradNodeTest, TheInputsGradientIsOneToo) {
  for (const char* padding : {"SAME", "VALID"}) {
    const int64_t in = 32, out = 40, side = 45, pad = padding[0] == 'S' ? 1 : 0;
    ConvShape shape;
    shape.batch = 2;
    shape.in_channels = in;
    shape.out_channels = out;
    shape.rows = shape.cols = Axis(side, pad);
    const int64_t outputs = shape.rows.output;
    const std::vector<float> filter = Values(9 * in * out, 7);
    const std::vector<float> gradient = Values(shape.output_elements(), 8);
    const Shape image({2, side, side, in});
    std::vector<double> want(image.num_elements());
    for (int64_t pixel = 0; pixel < 2 * outputs * outputs; ++pixel) {
      const int64_t n = pixel / (outputs * outputs);
      for (int64_t tap = 0; tap < 9; ++tap) {
        const int64_t y = pixel / outputs % outputs + tap / 3 - pad;
        const int64_t x = pixel % outputs + tap % 3 - pad;
        if (y < 0 || y >= side || x < 0 || x >= side) continue;
        for (int64_t c = 0; c < in; ++c) {
          double sum = 0;
          for (int64_t j = 0; j < out; ++j) {
            sum += static_cast<double>(gradient[pixel * out + j]) *
                   static_cast<double>(filter[(tap * in + c) * out + j]);
          }
          want[((n * side + y) * side + x) * in + c] += sum;
        }
      }
    }
    KernelRunner run;
    ASSERT_OK_AND_ASSIGN(const Tensor got,
                         run.One("Conv2DBackpropInput",
                                 {{"T", DType::kFloat},
                                  {"strides", std::vector<int64_t>{1, 1, 1, 1}},
                                  {"padding", std::string(padding)}},
                                 {TensorOf<int32_t>(Shape({4}), {2, static_cast<int32_t>(side),
                                                                 static_cast<int32_t>(side),
                                                                 static_cast<int32_t>(in)}),
                                  TensorOf<float>(Shape({3, 3, in, out}), filter),
                                  TensorOf<float>(Shape({2, outputs, outputs, out}), gradient)}));
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(got.data<float>()[i], want[i], 5e-5) << padding << " at " << i;
    }
  }
}

// One node whose images are now large and now small: the filter's form follows.
TEST(ConvWinogradNodeTest, ANodeTakesImagesOfAnySize) {
  const int64_t channels = 64;
  const Shape filter_shape({3, 3, channels, channels});
  const std::vector<float> filter = Values(filter_shape.num_elements(), 5);
  KernelRunner run;
  const KernelRunner::Attrs attrs = {{"T", DType::kFloat},
                                     {"strides", std::vector<int64_t>{1, 1, 1, 1}},
                                     {"padding", std::string("SAME")}};
  const KernelFn conv = *run.Make("Conv2D", attrs, {DType::kFloat, DType::kFloat}, {DType::kFloat});
  const Tensor weights = TensorOf<float>(filter_shape, filter);
  for (int call = 0; call < 10; ++call) {
    const int64_t side = std::vector<int64_t>{20, 5, 36}[call % 3];
    ConvShape shape;
    shape.batch = 1;
    shape.in_channels = shape.out_channels = channels;
    shape.rows = shape.cols = Axis(side, 1);
    const Shape image({1, side, side, channels});
    const std::vector<float> input = Values(image.num_elements(), 6 + call);
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> out,
                         run.Run(conv, {TensorOf<float>(image, input), weights}, 1));
    for (int64_t i = 0; i < image.num_elements(); i += 37) {
      const int64_t pixel = i / channels;
      ASSERT_NEAR(out[0].data<float>()[i],
                  Direct(shape, input, filter, 0, pixel / side, pixel % side, i % channels), 5e-5)
          << "call " << call << " at " << i;
    }
  }
}

// The gradient of the filter: one block of tiles and several, even and odd sizes.
TEST_P(ConvWinogradTest, TheFiltersGradientIsSumsOfTiles) {
  struct Case {
    int64_t batch, rows, cols, pad, in, out;
  };
  for (const Case& c : {Case{2, 8, 9, 1, 32, 40}, Case{3, 23, 30, 0, 40, 32},
                        Case{1, 3, 4, 0, 8, 8}, Case{1, 3, 3, 1, 8, 16}}) {
    ConvShape s;
    s.batch = c.batch;
    s.in_channels = c.in;
    s.out_channels = c.out;
    s.rows = Axis(c.rows, c.pad);
    s.cols = Axis(c.cols, c.pad);
    const std::vector<float> input = Values(s.input_elements(), 1);
    const std::vector<float> gradient = Values(s.output_elements(), 2);
    std::vector<double> want(s.filter_elements());
    for (int64_t pixel = 0; pixel < s.output_elements() / c.out; ++pixel) {
      const int64_t image = pixel / (s.rows.output * s.cols.output);
      for (int64_t tap = 0; tap < 9; ++tap) {
        const int64_t y = pixel / s.cols.output % s.rows.output + tap / 3 - c.pad;
        const int64_t x = pixel % s.cols.output + tap % 3 - c.pad;
        if (y < 0 || y >= c.rows || x < 0 || x >= c.cols) continue;
        const float* in = input.data() + ((image * c.rows + y) * c.cols + x) * c.in;
        for (int64_t i = 0; i < c.in; ++i) {
          for (int64_t j = 0; j < c.out; ++j) {
            want[(tap * c.in + i) * c.out + j] +=
                static_cast<double>(in[i]) * static_cast<double>(gradient[pixel * c.out + j]);
          }
        }
      }
    }
    std::vector<float> got(want.size(), -1);
    ASSERT_OK(WinogradFilterGradient(GetParam(), s, input.data(), gradient.data(),
                                     ProcessAllocator(), got.data()));
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-4) << i;
  }
}

}  // namespace
}  // namespace formwork::testing
