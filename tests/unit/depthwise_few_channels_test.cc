#include "core/kernels/conv/depthwise_few_channels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"

namespace formwork {
namespace {

template <typename T>
class DepthwiseFewChannelsTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(DepthwiseFewChannelsTest, Types);

// Windows of many kinds, of which some lie outside of the image for the most part.
TYPED_TEST(DepthwiseFewChannelsTest, SumsEachChannelsWindow) {
  using T = TypeParam;
  std::mt19937 random(8);
  const auto draw = [&random](int least, int most) {
    return static_cast<int64_t>(least + static_cast<int>(random() % (most - least + 1)));
  };
  int compared = 0;
  for (int i = 0; i < 800; ++i) {
    const auto axis = [&](int64_t stride, int longest) {
      ConvAxis a;
      a.input = draw(1, longest);
      a.taps = draw(1, 9);
      a.stride = stride;
      a.dilation = draw(1, 3);
      a.pad_before = draw(0, 9);
      a.pad_after = draw(0, 9);
      const int64_t room = a.input + a.pad_before + a.pad_after - (a.taps - 1) * a.dilation - 1;
      a.output = room < 0 ? 0 : room / stride + 1;
      return a;
    };
    ConvShape s;
    s.batch = draw(1, 2);
    s.in_channels = draw(1, 7);
    s.out_channels = s.groups = s.in_channels;
    s.rows = axis(draw(1, 2), 9);
    s.cols = axis(1, 200);
    if (s.rows.output == 0 || !IsOfFewChannels(s)) continue;
    const auto values = [&](int64_t n) {
      std::vector<T> all(static_cast<size_t>(n));
      for (T& x : all) x = static_cast<T>(draw(-8, 8)) / 4;
      return all;
    };
    const std::vector<T> x = values(s.input_elements()), bias = values(s.in_channels);
    const std::vector<T> w = values(s.rows.taps * s.cols.taps * s.in_channels);
    DepthwiseEpilogue<T> epilogue;
    if (draw(0, 1) == 1) epilogue.bias = bias.data();
    epilogue.clamp = draw(0, 1) == 1;
    epilogue.high = 6;
    std::vector<T> made(static_cast<size_t>(s.output_elements()), T(-99));
    DepthwiseFewChannels(s, x.data(), w.data(), epilogue, made.data());
    SCOPED_TRACE(absl::StrCat(i, ": ", s.rows.input, "x", s.cols.input, "x", s.in_channels, " by ",
                              s.rows.taps, "x", s.cols.taps));
    for (size_t o = 0; o < made.size(); ++o) {
      auto rest = static_cast<int64_t>(o);
      const int64_t c = rest % s.in_channels, q = (rest /= s.in_channels) % s.cols.output;
      const int64_t p = (rest /= s.cols.output) % s.rows.output, n = rest / s.rows.output;
      T sum = epilogue.bias == nullptr ? T(0) : bias[c];
      for (int64_t ty = 0; ty < s.rows.taps; ++ty) {
        for (int64_t tx = 0; tx < s.cols.taps; ++tx) {
          const int64_t row = p * s.rows.stride - s.rows.pad_before + ty * s.rows.dilation;
          const int64_t col = q - s.cols.pad_before + tx * s.cols.dilation;
          if (row < 0 || row >= s.rows.input || col < 0 || col >= s.cols.input) continue;
          sum += x[((n * s.rows.input + row) * s.cols.input + col) * s.in_channels + c] *
                 w[(ty * s.cols.taps + tx) * s.in_channels + c];
        }
      }
      if (epilogue.clamp) sum = std::clamp(sum, T(0), T(6));
      ASSERT_EQ(made[o], sum) << o;  // Of few bits: exact.
    }
    ++compared;
  }
  EXPECT_GT(compared, 500);
}

TEST(DepthwiseFewChannels, OthersAreNotTaken) {
  const auto takes = [](int64_t channels, int64_t stride, int64_t output) {
    ConvShape s;
    s.batch = 1;
    s.in_channels = channels;
    s.cols.input = 99;
    s.cols.output = output;
    s.cols.taps = 3;
    s.cols.stride = stride;
    return IsOfFewChannels(s);
  };
  EXPECT_TRUE(takes(3, 1, 97));
  EXPECT_FALSE(takes(8, 1, 97));
  EXPECT_FALSE(takes(3, 2, 49));
  EXPECT_FALSE(takes(3, 1, 5));
}

}  // namespace
}  // namespace formwork
