#include "core/ops/reduction.h"

#include "core/device/host_allocator.h"
#include "core/ops/default_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"
#include "tests/support/status_matchers.h"

namespace formwork {
namespace {

using ::formwork::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

Tensor Axes(const std::vector<int32_t>& values) {
  const auto n = static_cast<int64_t>(values.size());
  Tensor tensor = *Tensor::Allocate(ProcessAllocator(), DType::kInt32, Shape({n}));
  std::copy(values.begin(), values.end(), tensor.mutable_data<int32_t>());
  return tensor;
}

Dims OutputOf(const std::vector<int64_t>& dims, const std::vector<int32_t>& axes, bool keep_dims) {
  return PrepareReduction({.keep_dims = keep_dims}, dims, Axes(axes))->output;
}

TEST(ReductionGeometryTest, LeavesOutTheAxesOrKeepsThemAsOne) {
  EXPECT_THAT(OutputOf({2, 3, 4}, {1}, false), ElementsAre(2, 4));
  EXPECT_THAT(OutputOf({2, 3, 4}, {-1, 0}, false), ElementsAre(3));
  EXPECT_THAT(OutputOf({2, 3, 4}, {-1, 0}, true), ElementsAre(1, 3, 1));
  EXPECT_THAT(OutputOf({2, 3}, {}, false), ElementsAre(2, 3));
  EXPECT_THAT(OutputOf({}, {}, true), ElementsAre());
  EXPECT_THAT(OutputOf({-1, 3, -1}, {1}, true), ElementsAre(-1, 1, -1));
}

TEST(ReductionGeometryTest, JoinsNeighboursThatShareTheirFate) {
  const ReducedMask reduced = {false, false, true, true, true, false};
  const std::vector<int64_t> dims = {2, 3, 1, 5, 7, 4};
  const DimGroups groups = GroupDims(dims, reduced);
  ASSERT_EQ(groups.size(), 3u);
  const ReduceExtent extent = ExtentOf(groups);
  EXPECT_EQ(extent.outer, 6);
  EXPECT_EQ(extent.reduced, 35);
  EXPECT_EQ(extent.inner, 4);
  // Dimensions of 1 part nobody.
  EXPECT_EQ(GroupDims(std::vector<int64_t>{2, 1, 3}, {true, false, true}).size(), 1u);
  const ReduceExtent along = ExtentAlong(dims, 3);
  EXPECT_EQ(along.outer, 6);
  EXPECT_EQ(along.reduced, 5);
  EXPECT_EQ(along.inner, 28);
}

// What a shape function says of a node whose second input is `constant`.
absl::Status Infer(absl::string_view op, PartialShape input, const Tensor* constant,
                   PartialShape* output) {
  OpRegistry ops;
  RegisterOps(ops);
  const AttrMap attrs = DefaultAttrs(*ops.Find(op));
  InferenceContext c(attrs, {std::move(input), PartialShape()}, {nullptr, constant},
                     {DType::kFloat, DType::kInt32}, 1);
  const absl::Status status = ops.Find(op)->shape_fn(c);
  *output = c.outputs()[0];
  return status;
}

TEST(ReductionGeometryTest, ShapeFunctionsRefuseAsKernelsDo) {
  PartialShape output;
  const PartialShape matrix = PartialShape::Trusted({2, -1});
  const Tensor two = Tensor::Scalar(int32_t{2}), minus = Tensor::Scalar(int32_t{-1});
  const Tensor far = Axes({2}), twice = Axes({0, -2});
  EXPECT_THAT(Infer("Sum", matrix, &far, &output),
              StatusIs(kInvalid, HasSubstr("Invalid reduction dimension (2 for input with 2")));
  EXPECT_THAT(Infer("Any", matrix, &twice, &output),
              StatusIs(kInvalid, HasSubstr("Axes contains duplicate dimension: 0")));
  EXPECT_THAT(Infer("ArgMin", matrix, &two, &output),
              StatusIs(kInvalid, HasSubstr("Expected dimension in the range [-2, 2), but got 2")));
  EXPECT_THAT(Infer("ArgMax", matrix, &far, &output),
              StatusIs(kInvalid, HasSubstr("dim must be a scalar")));
  EXPECT_THAT(Infer("ArgMax", PartialShape::Trusted({2, 0}), &minus, &output),
              StatusIs(kInvalid, HasSubstr("Reduction axis 1 is empty in shape [2,0]")));
  EXPECT_THAT(Infer("DenseBincount", matrix, &minus, &output),
              StatusIs(kInvalid, HasSubstr("size (-1) must be non-negative")));
  EXPECT_THAT(Infer("DenseBincount", PartialShape::OfRank(3), nullptr, &output),
              StatusIs(kInvalid, HasSubstr("at most rank 2 but is rank 3")));
}

TEST(ReductionGeometryTest, ShapeFunctionsSayWhatIsKnown) {
  PartialShape output;
  const PartialShape matrix = PartialShape::Trusted({2, -1});
  const Tensor zero = Tensor::Scalar(int32_t{0});
  const Tensor last = Axes({-1});
  EXPECT_OK(Infer("Max", matrix, &last, &output));
  EXPECT_EQ(output.ToString(), "[2]");
  EXPECT_OK(Infer("Max", matrix, nullptr, &output));
  EXPECT_EQ(output.ToString(), "<unknown>");
  EXPECT_OK(Infer("Max", PartialShape(), &last, &output));
  EXPECT_EQ(output.ToString(), "<unknown>");
  EXPECT_OK(Infer("ArgMax", matrix, &zero, &output));
  EXPECT_EQ(output.ToString(), "[?]");
  EXPECT_OK(Infer("DenseBincount", matrix, nullptr, &output));
  EXPECT_EQ(output.ToString(), "[2,?]");
}

}  // namespace
}  // namespace formwork
