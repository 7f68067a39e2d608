// Convolutions that read each other give the same whether they run band by band or one after the
// other.

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/unit/plan_fixture.h"

namespace formwork::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
  int rows, cols, channels, between;
  int taps, stride;  // Of the first.
  const char* padding;
  int depthwise_taps, depthwise_stride;
  const char* depthwise_padding;
  int batch = 1;
  int last_channels = 0;  // Of a convolution behind them; 0: there is none.
  int last_taps = 1;
  bool residual = false;  // Which it adds.
};

class ConvBandsTest : public PlanFixture {
 protected:
  static Tensor Random(Shape shape) {
    Tensor tensor = *Tensor::Allocate(ProcessAllocator(), DType::kFloat, shape);
    float* at = tensor.mutable_data<float>();
    uint32_t state = 1;
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      state = state * 1664525 + 1013904223;
      at[i] = static_cast<float>(state >> 8) / (1 << 23) - 1;
    }
    return tensor;
  }
  static int SizeOf(int size, int taps, int stride, absl::string_view padding) {
    return padding == "SAME" ? (size + stride - 1) / stride : (size - taps) / stride + 1;
  }
  static Shape LastFilter(const Case& c) {
    return Shape({c.last_taps, c.last_taps, c.between, c.last_channels});
  }
  // Of all of them, the last with "SAME".
  static Shape Result(const Case& c) {
    const auto size = [&c](int of_image) {
      return SizeOf(SizeOf(of_image, c.taps, c.stride, c.padding), c.depthwise_taps,
                    c.depthwise_stride, c.depthwise_padding);
    };
    return Shape({c.batch, size(c.rows), size(c.cols), c.last_channels});
  }
  // The part of the graph that makes y of j.
  static std::string Last(const Case& c) {
    if (c.last_channels == 0) return "y = Identity(j) T=float";
    const std::string text = absl::StrCat(
        "l0 = Placeholder dtype=float\nl = EnsureShape(l0) T=float shape=shape:",
        Sizes(LastFilter(c)), "\nm = Conv2D(j, l) T=float strides=[1,1,1,1] padding=\"SAME\"\n");
    if (!c.residual) return text + "y = Relu(m) T=float";
    return absl::StrCat(text,
                        "r0 = Placeholder dtype=float\nr = EnsureShape(r0) T=float shape=shape:",
                        Sizes(Result(c)), "\ny = AddV2(m, r) T=float");
  }
  static std::string Sizes(const Shape& shape) {
    return absl::StrCat("[", absl::StrJoin(shape.dims(), ","), "]");
  }
};

TEST_F(ConvBandsTest, BandsGiveTheSame) {
  const Case cases[] = {
      {112, 112, 4, 32, 1, 1, "SAME", 3, 1, "SAME"},
      {112, 112, 4, 32, 1, 1, "SAME", 3, 2, "SAME"},
      {225, 130, 3, 40, 3, 2, "VALID", 3, 1, "VALID"},
      {90, 90, 3, 48, 3, 1, "SAME", 5, 2, "SAME", 2},
      {70, 80, 5, 51, 1, 1, "VALID", 3, 3, "SAME"},  // Channels that fill no vector.
      {8, 8, 4, 32, 1, 1, "SAME", 3, 1, "SAME"},     // Too small for bands.
      {112, 112, 4, 32, 1, 1, "SAME", 3, 1, "SAME", 1, 16},
      {112, 112, 4, 32, 3, 2, "SAME", 3, 1, "SAME", 2, 24, 1, true},
      {60, 56, 24, 144, 1, 1, "SAME", 3, 2, "SAME", 1, 24},
      {56, 60, 24, 144, 1, 1, "SAME", 3, 1, "VALID", 1, 40, 1, true},
      {70, 80, 5, 51, 1, 1, "VALID", 3, 3, "SAME", 1, 7},
      {56, 56, 24, 144, 1, 1, "SAME", 3, 1, "SAME", 1, 24, 3},  // Not of single pixels.
      {8, 8, 4, 32, 1, 1, "SAME", 3, 1, "SAME", 1, 16, 1, true},
  };
  for (const Case& c : cases) {
    const Shape image({c.batch, c.rows, c.cols, c.channels});
    const Shape filter({c.taps, c.taps, c.channels, c.between});
    const Shape weights({c.depthwise_taps, c.depthwise_taps, c.between, 1});
    const std::string text = absl::StrCat(
        "x0 = Placeholder dtype=float\nf0 = Placeholder dtype=float\n"
        "w0 = Placeholder dtype=float\nb0 = Placeholder dtype=float\n"
        "x = EnsureShape(x0) T=float shape=shape:",
        Sizes(image), "\nf = EnsureShape(f0) T=float shape=shape:", Sizes(filter),
        "\nw = EnsureShape(w0) T=float shape=shape:", Sizes(weights),
        "\nb = EnsureShape(b0) T=float shape=shape:[", c.between, "]",
        "\nc = Conv2D(x, f) T=float strides=[1,", c.stride, ",", c.stride, ",1] padding=\"",
        c.padding, "\"\ns = Mul(c, b) T=float\nd = BiasAdd(s, b) T=float\n",
        "e = Relu(d) T=float\ng = DepthwiseConv2dNative(e, w) T=float strides=[1,",
        c.depthwise_stride, ",", c.depthwise_stride, ",1] padding=\"", c.depthwise_padding,
        "\"\nh = Mul(g, b) T=float\ni = BiasAdd(h, b) T=float\nj = Relu6(i) T=float\n", Last(c));
    Feeds feeds = {{"x0:0", DType::kFloat},
                   {"f0:0", DType::kFloat},
                   {"w0:0", DType::kFloat},
                   {"b0:0", DType::kFloat}};
    std::vector<Tensor> inputs = {Random(image), Random(filter), Random(weights),
                                  Random(Shape({c.between}))};
    if (c.last_channels > 0) {
      feeds.push_back({"l0:0", DType::kFloat});
      inputs.push_back(Random(LastFilter(c)));
    }
    if (c.residual) {
      feeds.push_back({"r0:0", DType::kFloat});
      inputs.push_back(Random(Result(c)));
    }
    Make(text, feeds, {"y:0", "e:0"});  // Both read what is between them.
    ASSERT_THAT(Text(), HasSubstr("= DepthwiseConv2dNative("));
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> expected, Run(inputs));
    Make(text, feeds, {"y:0"});
    ASSERT_THAT(Text(), Not(HasSubstr("= DepthwiseConv2dNative(")));
    ASSERT_THAT(Text(), Not(HasSubstr("= Conv2D(")));
    for (int call = 0; call < 4; ++call) {  // The filter is packed anew, and then kept.
      ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, Run(inputs));
      ASSERT_EQ(got[0].shape(), expected[0].shape());
      const auto want = expected[0].span<float>();
      const auto have = got[0].span<float>();
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(have[i], want[i], 1e-4 + 1e-5 * std::abs(want[i])) << i << " of " << text;
      }
    }
  }
}

TEST_F(ConvBandsTest, StridesAndPaddingThatKeepTheSizeAreNoPixels) {
  const std::string text =
      "x = Placeholder dtype=float\nf = Placeholder dtype=float\nw = Placeholder dtype=float\n"
      "l = Placeholder dtype=float\n"
      "c = Conv2D(x, f) T=float strides=[1,1,1,1] padding=\"SAME\"\n"
      "d = DepthwiseConv2dNative(c, w) T=float strides=[1,1,1,1] padding=\"SAME\"\n"
      "y = Conv2D(d, l) T=float strides=[1,2,2,1] padding=\"EXPLICIT\" "
      "explicit_paddings=[0,0,40,39,40,39,0,0]";
  const Feeds feeds = {{"x:0", DType::kFloat},
                       {"f:0", DType::kFloat},
                       {"w:0", DType::kFloat},
                       {"l:0", DType::kFloat}};
  const std::vector<Tensor> inputs = {Random(Shape({1, 80, 80, 4})), Random(Shape({1, 1, 4, 32})),
                                      Random(Shape({3, 3, 32, 1})), Random(Shape({1, 1, 32, 24}))};
  Make(text, feeds, {"y:0", "c:0"});
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> expected, Run(inputs));
  ASSERT_EQ(expected[0].shape(), Shape({1, 80, 80, 24}));
  Make(text, feeds, {"y:0"});
  ASSERT_THAT(Text(), Not(HasSubstr("= Conv2D(")));
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, Run(inputs));
  ASSERT_EQ(got[0].shape(), expected[0].shape());
  for (int64_t i = 0; i < got[0].num_elements(); ++i) {
    ASSERT_NEAR(got[0].data<float>()[i], expected[0].data<float>()[i], 1e-4) << i;
  }
}

TEST_F(ConvBandsTest, AnErrorNamesItsOwnNode) {
  Make(
      "x = Placeholder dtype=float\nf = Placeholder dtype=float\nw = Placeholder dtype=float\n"
      "c = Conv2D(x, f) T=float strides=[1,1,1,1] padding=\"SAME\"\n"
      "y = DepthwiseConv2dNative(c, w) T=float strides=[1,1,1,1] padding=\"SAME\"",
      {{"x:0", DType::kFloat}, {"f:0", DType::kFloat}, {"w:0", DType::kFloat}}, {"y:0"});
  const Tensor image = Random(Shape({1, 100, 100, 4}));
  const Tensor filter = Random(Shape({1, 1, 4, 32}));
  EXPECT_THAT(Run({image, Random(Shape({1, 1, 3, 32})), Random(Shape({3, 3, 32, 1}))}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("node 'c': ")));
  EXPECT_THAT(Run({image, filter, Random(Shape({3, 3, 31, 1}))}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("node 'y': ")));
}

TEST_F(ConvBandsTest, AnErrorOfTheLastNamesThat) {
  Make(
      "x = Placeholder dtype=float\nf = Placeholder dtype=float\nw = Placeholder dtype=float\n"
      "l = Placeholder dtype=float\n"
      "c = Conv2D(x, f) T=float strides=[1,1,1,1] padding=\"SAME\"\n"
      "d = DepthwiseConv2dNative(c, w) T=float strides=[1,1,1,1] padding=\"SAME\"\n"
      "y = Conv2D(d, l) T=float strides=[1,1,1,1] padding=\"SAME\"",
      {{"x:0", DType::kFloat},
       {"f:0", DType::kFloat},
       {"w:0", DType::kFloat},
       {"l:0", DType::kFloat}},
      {"y:0"});
  EXPECT_THAT(Run({Random(Shape({1, 100, 100, 4})), Random(Shape({1, 1, 4, 32})),
                   Random(Shape({3, 3, 32, 1})), Random(Shape({1, 1, 31, 8}))}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("node 'y': ")));
}

}  // namespace
}  // namespace formwork::testing
