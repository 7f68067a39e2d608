// Convolutions by oneDNN, of float and bfloat16, images and volumes, against sums in double.

#include "core/kernels/conv/onednn_run.h"

#include <cmath>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/parallel.h"
#include "core/kernels/gemm/bfloat_gemm.h"
#include "core/kernels/widen.h"
#include "core/tensor/small_float.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

ConvAxis Axis(int64_t input, int64_t taps, int64_t stride, int64_t dilation, int64_t before,
              int64_t after) {
  const int64_t window = (taps - 1) * dilation + 1;
  return {.input = input,
          .output = (input + before + after - window) / stride + 1,
          .taps = taps,
          .stride = stride,
          .dilation = dilation,
          .pad_before = before,
          .pad_after = after};
}

/// A tensor of the problem: what oneDNN is given, the same as doubles, and what came of sums.
struct Operand {
  std::vector<double> values, sums, sizes;  // `sizes`: the sums of the terms' magnitudes.
  Tensor tensor;
};

struct Problem {
  const OnednnConvShape& shape;
  Operand input, filter, output;
};

Operand Random(int64_t elements, DType dtype, Allocator& allocator, std::mt19937& random) {
  Operand operand;
  std::vector<float> values(elements);
  // Of eight bits, so that bfloat16 holds them.
  for (float& x : values) x = static_cast<float>(random() % 257) / 128 - 1;
  operand.tensor = *Tensor::Allocate(allocator, dtype, Shape({elements}));
  if (dtype == DType::kFloat) {
    std::copy(values.begin(), values.end(), operand.tensor.mutable_data<float>());
  } else {
    NarrowTo(dtype, values.data(), elements, operand.tensor.mutable_raw());
    for (int64_t i = 0; i < elements; ++i) {
      values[i] = static_cast<float>(operand.tensor.data<bfloat16>()[i]);
    }
  }
  operand.values.assign(values.begin(), values.end());
  operand.sums.assign(elements, 0);
  operand.sizes.assign(elements, 0);
  return operand;
}

void Add(const Operand& a, int64_t i, const Operand& b, int64_t j, Operand& sum, int64_t k) {
  const double term = a.values[i] * b.values[j];
  sum.sums[k] += term;
  sum.sizes[k] += std::abs(term);
}

/// Adds up all three results, a pair of elements at a time.
void AddUp(Problem& p) {
  const OnednnConvShape& s = p.shape;
  const int axes = s.spatial;
  int64_t in_pixels = 1, out_pixels = 1, taps = 1;
  for (const ConvAxis& a : s.axes()) {
    in_pixels *= a.input;
    out_pixels *= a.output;
    taps *= a.taps;
  }
  const int64_t in_group = s.in_channels / s.groups, out_group = s.out_channels / s.groups;
  auto place = [&](int64_t image, int64_t channels, int64_t pixels, int64_t pixel, int64_t c) {
    return s.channels_first ? (image * channels + c) * pixels + pixel
                            : (image * pixels + pixel) * channels + c;
  };
  for (int64_t pixel = 0; pixel < out_pixels; ++pixel) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      int64_t from = 0, scale = 1, rest = pixel, rest_tap = tap;
      bool inside = true;
      for (int d = axes - 1; d >= 0; --d) {
        const ConvAxis& a = s.axes()[d];
        const int64_t at =
            rest % a.output * a.stride - a.pad_before + rest_tap % a.taps * a.dilation;
        inside = inside && at >= 0 && at < a.input;
        from += at * scale;
        scale *= a.input;
        rest /= a.output;
        rest_tap /= a.taps;
      }
      if (!inside) continue;
      for (int64_t n = 0; n < s.batch; ++n) {
        for (int64_t o = 0; o < s.out_channels; ++o) {
          const int64_t to = place(n, s.out_channels, out_pixels, pixel, o);
          for (int64_t c = 0; c < in_group; ++c) {
            const int64_t in =
                place(n, s.in_channels, in_pixels, from, o / out_group * in_group + c);
            const int64_t weight = (tap * in_group + c) * s.out_channels + o;
            Add(p.input, in, p.filter, weight, p.output, to);
            Add(p.output, to, p.filter, weight, p.input, in);
            Add(p.input, in, p.output, to, p.filter, weight);
          }
        }
      }
    }
  }
}

void ExpectSums(const Tensor& got, const Operand& want) {
  const bool rounded = got.dtype() == DType::kBfloat16;
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    const double value =
        rounded ? static_cast<float>(got.data<bfloat16>()[i]) : got.data<float>()[i];
    // What floats lose on the way, and half a unit of the last of 8 bits.
    const double error = want.sizes[i] * 1e-6 + (rounded ? std::abs(want.sums[i]) / 256 : 0);
    ASSERT_NEAR(value, want.sums[i], error) << i;
  }
}

Tensor Like(const Operand& operand, Allocator& allocator) {
  return *Tensor::Allocate(allocator, operand.tensor.dtype(), operand.tensor.shape());
}

void Check(const OnednnConvShape& shape) {
  KernelRunner run;
  Allocator& allocator = run.allocator();
  std::mt19937 random(1);
  Problem p{shape, Random(shape.input_elements(), shape.dtype, allocator, random),
            Random(shape.filter_elements(), shape.dtype, allocator, random),
            Random(shape.output_elements(), shape.dtype, allocator, random)};
  AddUp(p);
  // Filters come with their shape: the last dimension is that of the outputs.
  auto as_filter = [&](const Tensor& flat) {
    return flat.Reshaped(Shape({flat.num_elements() / shape.out_channels, shape.out_channels}));
  };
  PackedFilterMemo memo(3);
  Tensor output = Like(p.output, allocator);
  ASSERT_OK(OnednnForward(shape, p.input.tensor, as_filter(p.filter.tensor), EpilogueOperands(),
                          memo, /*keep=*/false, allocator, &output));
  ExpectSums(output, p.output);
  Tensor input = Like(p.input, allocator);
  ASSERT_OK(
      OnednnInputGradient(shape, as_filter(p.filter.tensor), p.output.tensor, allocator, &input));
  ExpectSums(input, p.input);
  Tensor filter = Like(p.filter, allocator);
  ASSERT_OK(OnednnFilterGradient(shape, p.input.tensor, p.output.tensor, allocator, &filter));
  ExpectSums(filter, p.filter);
}

// One image, which is split by rows, and several; strides, dilations, padding on one side; groups
// and both layouts.
TEST(OnednnRunTest, MatchesPlainSums) {
  SetParallelThreads(2);
  std::vector<ConvShape> images;
  images.push_back({.batch = 1,
                    .in_channels = 16,
                    .out_channels = 24,
                    .rows = Axis(17, 3, 1, 1, 1, 1),
                    .cols = Axis(14, 3, 1, 1, 1, 1)});
  images.push_back({.batch = 3,
                    .in_channels = 12,
                    .out_channels = 40,
                    .rows = Axis(16, 3, 2, 1, 0, 1),
                    .cols = Axis(13, 5, 2, 1, 1, 2)});
  images.push_back({.batch = 2,
                    .in_channels = 32,
                    .out_channels = 33,
                    .rows = Axis(15, 3, 1, 2, 2, 2),
                    .cols = Axis(12, 1, 1, 1, 0, 0)});
  images.push_back({.batch = 4,
                    .in_channels = 64,
                    .out_channels = 48,
                    .rows = Axis(9, 1, 1, 1, 0, 0),
                    .cols = Axis(8, 1, 1, 1, 0, 0)});
  images.push_back({.batch = 2,
                    .in_channels = 32,
                    .out_channels = 32,
                    .groups = 2,
                    .rows = Axis(10, 3, 1, 1, 1, 1),
                    .cols = Axis(10, 3, 1, 1, 1, 1)});
  images.push_back({.batch = 2,
                    .in_channels = 8,
                    .out_channels = 16,
                    .rows = Axis(14, 3, 1, 1, 1, 1),
                    .cols = Axis(14, 3, 1, 1, 1, 1),
                    .channels_first = true});
  std::vector<Conv3dShape> volumes;
  volumes.push_back(
      {.batch = 2,
       .in_channels = 8,
       .out_channels = 16,
       .axes = {Axis(6, 3, 1, 1, 1, 1), Axis(7, 3, 1, 1, 1, 1), Axis(8, 3, 1, 1, 1, 1)}});
  volumes.push_back(
      {.batch = 1,
       .in_channels = 16,
       .out_channels = 20,
       .axes = {Axis(9, 2, 2, 1, 0, 1), Axis(8, 3, 2, 1, 0, 1), Axis(11, 3, 1, 1, 0, 0)}});
  volumes.push_back(
      {.batch = 2,
       .in_channels = 32,
       .out_channels = 24,
       .axes = {Axis(5, 1, 1, 1, 0, 0), Axis(8, 1, 1, 1, 0, 0), Axis(7, 1, 1, 1, 0, 0)}});
  for (DType dtype : {DType::kFloat, DType::kBfloat16}) {
    if (dtype == DType::kBfloat16 && !HasBfloatProducts()) continue;
    for (size_t i = 0; i < images.size(); ++i) {
      SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " image ", i));
      Check({images[i], dtype});
    }
    for (size_t i = 0; i < volumes.size(); ++i) {
      SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " volume ", i));
      Check({volumes[i], dtype});
    }
  }
}

TEST(OnednnRunTest, LeavesWhatItCannot) {
  const ConvAxis axis = Axis(16, 3, 1, 1, 1, 1);
  const ConvShape large = {
      .batch = 8, .in_channels = 32, .out_channels = 32, .rows = axis, .cols = axis};
  EXPECT_TRUE(IsForOnednn({large, DType::kFloat}));
  EXPECT_EQ(IsForOnednn({large, DType::kBfloat16}), HasBfloatProducts());
  for (DType dtype : {DType::kDouble, DType::kHalf, DType::kInt32}) {
    EXPECT_FALSE(IsForOnednn({large, dtype})) << DTypeName(dtype);
  }
  ConvShape small = large;
  small.batch = small.in_channels = small.out_channels = 1;
  EXPECT_FALSE(IsForOnednn({small, DType::kFloat}));
  ConvShape empty = large;
  empty.out_channels = 0;
  EXPECT_FALSE(IsForOnednn({empty, DType::kFloat}));
}

}  // namespace
}  // namespace formwork::testing
