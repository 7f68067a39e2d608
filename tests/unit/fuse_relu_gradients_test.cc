// The gradient of a ReLU inside of the gradient of a max pooling.

#include <cmath>
#include <limits>

#include "core/graph/passes/pipeline.h"
#include "core/ops/pool.h"
#include "tests/support/graph_world.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPool[] = "T=float ksize=[1,2,2,1] strides=[1,2,2,1] padding=\"VALID\"";

std::string After(absl::string_view text) {
  GraphWorld world;
  std::string all;
  std::vector<std::pair<std::string, DType>> feeds;
  for (const char* name : {"x", "z", "g"}) {
    absl::StrAppend(&all, name, " = Placeholder dtype=float\n");
    feeds.emplace_back(absl::StrCat(name, ":0"), DType::kFloat);
  }
  absl::StrAppend(&all, text);
  const ImportedGraph imported = *world.Import(all, std::move(feeds), {"y:0"});
  Graph graph = *imported.graph;
  PassBudget budget;
  const PassContext context{imported.library, world.ops, world.kernels, world.allocator, budget};
  const Shape image({1, 4, 4, 2});
  EXPECT_OK(RunPasses(graph, {image, image, Shape({1, 2, 2, 2})}, context));
  return ToText(graph);
}

TEST(FuseReluGradientsTest, OneThatAloneReadsItGoesIn) {
  EXPECT_THAT(After(absl::StrCat("o = MaxPool(x) ", kPool, "\np = MaxPoolGrad(x, o, g) ", kPool,
                                 "\ny = ReluGrad(p, x) T=float")),
              AllOf(HasSubstr("_relu=true"), Not(HasSubstr("ReluGrad"))));
}

TEST(FuseReluGradientsTest, OneOfAnotherReluOrWithOtherReadersStays) {
  EXPECT_THAT(After(absl::StrCat("o = MaxPool(x) ", kPool, "\np = MaxPoolGrad(x, o, g) ", kPool,
                                 "\ny = ReluGrad(p, z) T=float")),
              Not(HasSubstr("_relu")));
  EXPECT_THAT(After(absl::StrCat("o = MaxPool(x) ", kPool, "\np = MaxPoolGrad(x, o, g) ", kPool,
                                 "\nr = ReluGrad(p, x) T=float\ny = AddV2(p, r) T=float")),
              Not(HasSubstr("_relu")));
}

// Whole and cut windows, apart and overlapping, of 4, 9 and other numbers of pixels.
TEST(FuseReluGradientsTest, TheResultIsThatOfBoth) {
  struct Case {
    int64_t window, stride, rows, cols;
  };
  for (const Case& c :
       {Case{2, 2, 5, 7}, Case{3, 2, 6, 9}, Case{3, 1, 5, 5}, Case{2, 3, 8, 8}, Case{4, 3, 7, 9}}) {
    for (const char* padding : {"VALID", "SAME"}) {
      KernelRunner run;
      KernelRunner::Attrs attrs = {{"T", DType::kFloat},
                                   {"ksize", std::vector<int64_t>{1, c.window, c.window, 1}},
                                   {"strides", std::vector<int64_t>{1, c.stride, c.stride, 1}},
                                   {"padding", std::string(padding)}};
      constexpr int64_t kChannels = 19;
      const Shape image({2, c.rows, c.cols, kChannels});
      std::vector<float> values(image.num_elements());
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(static_cast<int>(i * 2654435761u % 41) - 20);
      }
      values[0] = values[kChannels + 1] = std::numeric_limits<float>::quiet_NaN();
      const Tensor x = TensorOf<float>(image, values);
      const Tensor pooled = *run.One("MaxPool", attrs, {x});
      std::vector<float> gradients(pooled.num_elements());
      for (size_t i = 0; i < gradients.size(); ++i)
        gradients[i] = 0.25f * static_cast<float>(i + 1);
      const Tensor g = TensorOf<float>(pooled.shape(), gradients);
      const Tensor alone = *run.One("MaxPoolGrad", attrs, {x, pooled, g});
      const Tensor both = *run.One("ReluGrad", {{"T", DType::kFloat}}, {alone, x});
      AttrMap relu;
      SetOfRelu(relu);
      attrs.insert(attrs.end(), relu.entries().begin(), relu.entries().end());
      const Tensor fused = *run.One("MaxPoolGrad", attrs, {x, pooled, g});
      for (int64_t i = 0; i < fused.num_elements(); ++i) {
        ASSERT_EQ(fused.data<float>()[i], both.data<float>()[i])
            << "window " << c.window << " stride " << c.stride << " " << padding << " at " << i;
      }
    }
  }
}

}  // namespace
}  // namespace formwork::testing
