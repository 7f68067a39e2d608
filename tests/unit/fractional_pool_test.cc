// What regions of a fractional pooling's gradient may be: TensorFlow reads and writes wherever they
// say, so that no case of its answers has them.

#include "core/ops/fractional_pool.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "core/device/host_allocator.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"

namespace formwork {
namespace {

using ::testing::HasSubstr;

Tensor VectorOf(const std::vector<int64_t>& values) {
  Tensor tensor = *Tensor::Allocate(ProcessAllocator(), DType::kInt64,
                                    Shape({static_cast<int64_t>(values.size())}));
  std::copy(values.begin(), values.end(), tensor.mutable_data<int64_t>());
  return tensor;
}

std::string Checked(std::vector<int64_t> borders, bool overlapping = false, int64_t output = 2) {
  const Tensor sequence = VectorOf(borders);
  return CheckPoolingSequence(sequence, /*input=*/4, output, overlapping).ToString();
}

TEST(FractionalPoolTest, RegionsAreWithinTheImageAndNotEmpty) {
  EXPECT_EQ(Checked({0, 2, 4}), "OK");
  EXPECT_EQ(Checked({1, 3, 9}), "OK");  // The last one ends with the image.
  EXPECT_EQ(Checked({0, 2, 2}, /*overlapping=*/true), "OK");
  EXPECT_THAT(Checked({0, 2}), HasSubstr("must be a vector of 3 borders, got shape [2]"));
  EXPECT_THAT(Checked({0, 2, 2}), HasSubstr("must rise within the image: 2, 2 of 4"));
  EXPECT_THAT(Checked({0, 2, 1}, true), HasSubstr("must rise within the image: 2, 1 of 4"));
  EXPECT_THAT(Checked({-1, 2, 4}), HasSubstr("must rise within the image: -1, 2 of 4"));
  EXPECT_THAT(Checked({0, 4, 5}), HasSubstr("must rise within the image: 4, 5 of 4"));
}

TEST(FractionalPoolTest, ImagesFit) {
  const std::vector<int64_t> input = {1, 4, 4, 2}, output = {1, 2, 2, 2}, other = {1, 2, 2, 3};
  EXPECT_OK(CheckFractionalMaxPoolGrad(input, output, output));
  EXPECT_THAT(CheckFractionalMaxPoolGrad(input, output, other).ToString(), HasSubstr("do not fit"));
  EXPECT_THAT(CheckFractionalMaxPoolGrad(input, other, other).ToString(), HasSubstr("do not fit"));
  EXPECT_THAT(PrepareFractionalAvgPoolGrad(VectorOf(input), other).status().ToString(),
              HasSubstr("do not fit"));
}

TEST(FractionalPoolTest, ImagesWithoutChannelsHaveGradients) {
  testing::KernelRunner run;
  const Tensor grad = *Tensor::Allocate(ProcessAllocator(), DType::kFloat, Shape({1, 2, 2, 0}));
  const Tensor borders = VectorOf({0, 2, 4});
  const auto made = run.One("FractionalAvgPoolGrad", {{"T", DType::kFloat}},
                            {VectorOf({1, 4, 4, 0}), grad, borders, borders});
  ASSERT_OK(made);
  EXPECT_EQ(made->shape(), Shape({1, 4, 4, 0}));
}

}  // namespace
}  // namespace formwork
