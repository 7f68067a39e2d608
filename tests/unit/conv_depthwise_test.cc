// A convolution and the depthwise one after it give the same whether they run band by band or one
// after the other.

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
};

class ConvDepthwiseTest : public PlanFixture {
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
  static std::string Sizes(const Shape& shape) {
    return absl::StrCat("[", absl::StrJoin(shape.dims(), ","), "]");
  }
};

TEST_F(ConvDepthwiseTest, BandsGiveTheSame) {
  const Case cases[] = {
      {112, 112, 4, 32, 1, 1, "SAME", 3, 1, "SAME"},
      {112, 112, 4, 32, 1, 1, "SAME", 3, 2, "SAME"},
      {225, 130, 3, 40, 3, 2, "VALID", 3, 1, "VALID"},
      {90, 90, 3, 48, 3, 1, "SAME", 5, 2, "SAME", 2},
      {70, 80, 5, 51, 1, 1, "VALID", 3, 3, "SAME"},  // Channels that fill no vector.
      {8, 8, 4, 32, 1, 1, "SAME", 3, 1, "SAME"},     // Too small for bands.
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
        "\"\nh = Mul(g, b) T=float\ni = BiasAdd(h, b) T=float\ny = Relu6(i) T=float");
    const Feeds feeds = {{"x0:0", DType::kFloat},
                         {"f0:0", DType::kFloat},
                         {"w0:0", DType::kFloat},
                         {"b0:0", DType::kFloat}};
    const std::vector<Tensor> inputs = {Random(image), Random(filter), Random(weights),
                                        Random(Shape({c.between}))};
    Make(text, feeds, {"y:0", "e:0"});  // Both read what is between them.
    ASSERT_THAT(Text(), HasSubstr("= DepthwiseConv2dNative("));
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> expected, Run(inputs));
    Make(text, feeds, {"y:0"});
    ASSERT_THAT(Text(), Not(HasSubstr("= DepthwiseConv2dNative(")));
    for (int call = 0; call < 4; ++call) {  // The filter is packed anew, and then kept.
      ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, Run(inputs));
      ASSERT_EQ(got[0].shape(), expected[0].shape());
      const auto want = expected[0].span<float>();
      const auto have = got[0].span<float>();
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(have[i], want[i], 1e-4) << i << " of " << text;
      }
    }
  }
}

TEST_F(ConvDepthwiseTest, AnErrorNamesItsOwnNode) {
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

}  // namespace
}  // namespace formwork::testing
