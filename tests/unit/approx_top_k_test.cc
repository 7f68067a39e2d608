// What op cases cannot say of ApproxTopK: TensorFlow's CPU kernel has the largest along the last
// dimension alone, its compiler the rest.

#include <gtest/gtest.h>

#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"

namespace formwork {
namespace {

using testing::KernelRunner;
using testing::TensorOf;
using testing::ValuesOf;

KernelRunner::Attrs Attrs(int64_t k, int64_t dimension, bool largest) {
  return {
      {"T", DType::kFloat}, {"k", k}, {"reduction_dimension", dimension}, {"is_max_k", largest}};
}

TEST(ApproxTopKTest, IsOfAnyDimensionAndOfTheSmallest) {
  KernelRunner run;
  // [2, 3, 2]
  const Tensor x = TensorOf<float>(Shape({2, 3, 2}), {1, 9, 5, 2, 3, 7,  //
                                                      4, 4, 4, 0, 8, 0});
  const struct {
    int64_t dimension;
    bool largest;
    Shape shape;
    std::vector<float> values;
    std::vector<int32_t> indices;
  } kCases[] = {
      {1, true, {2, 2, 2}, {5, 9, 3, 7, 8, 4, 4, 0}, {1, 0, 2, 2, 2, 0, 0, 1}},
      {-2, false, {2, 2, 2}, {1, 2, 3, 7, 4, 0, 4, 0}, {0, 1, 2, 2, 0, 1, 1, 2}},
      {2,
       false,
       {2, 3, 2},
       {1, 9, 2, 5, 3, 7, 4, 4, 0, 4, 0, 8},
       {0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0}},
  };
  for (const auto& c : kCases) {
    ASSERT_OK_AND_ASSIGN(std::vector<Tensor> outputs,
                         run.Op("ApproxTopK", Attrs(2, c.dimension, c.largest), {x}));
    EXPECT_EQ(outputs[0].shape(), c.shape);
    EXPECT_EQ(ValuesOf<float>(outputs[0]), c.values) << c.dimension;
    EXPECT_EQ(ValuesOf<int32_t>(outputs[1]), c.indices) << c.dimension;
  }
}

TEST(ApproxTopKTest, RefusesWhatIsNotThere) {
  KernelRunner run;
  const Tensor x = TensorOf<float>(Shape({1, 2}), {1, 2});
  const struct {
    Tensor x;
    int64_t k;
    int64_t dimension;
    absl::string_view text;
  } kCases[] = {
      {x, 3, -1, "input must have at least k columns. Had 2, needed 3"},
      {x, 2, 0, "input must have at least k columns. Had 1, needed 2"},
      {x, 1, 2, "reduction_dimension must be in [-2, 2), got 2"},
      {x, 1, -3, "reduction_dimension must be in [-2, 2), got -3"},
      {Tensor::Scalar(1.0f), 1, -1, "input must be >= 1-D, got shape []"},
  };
  for (const auto& c : kCases) {
    const absl::Status status = run.Op("ApproxTopK", Attrs(c.k, c.dimension, true), {c.x}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), c.text);
  }
}

}  // namespace
}  // namespace formwork
