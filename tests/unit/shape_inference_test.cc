#include "core/ops/shape_inference.h"

#include "core/device/host_allocator.h"
#include "tests/support/status_matchers.h"

namespace formwork {
namespace {

using ::formwork::testing::StatusIs;
using ::testing::HasSubstr;

PartialShape S(std::vector<int64_t> dims) { return PartialShape::Trusted(dims); }

Tensor Ints(const Shape& shape, const std::vector<int64_t>& values) {
  Tensor tensor = *Tensor::Allocate(ProcessAllocator(), DType::kInt64, shape);
  std::copy(values.begin(), values.end(), tensor.mutable_data<int64_t>());
  return tensor;
}

TEST(BroadcastShapesTest, FollowsNumpy) {
  struct Case {
    PartialShape a, b;
    std::string want;
  };
  const Case cases[] = {
      {S({2, 3}), S({3}), "[2,3]"},
      {S({2, 1}), S({1, 3}), "[2,3]"},
      {S({}), S({4}), "[4]"},
      {S({-1}), S({4}), "[4]"},
      {S({-1}), S({1}), "[?]"},
      {S({-1}), S({-1}), "[?]"},
      {S({0}), S({1}), "[0]"},
      {PartialShape(), S({3}), "<unknown>"},
      {S({5, 1, 2}), S({1, 2}), "[5,1,2]"},
  };
  for (const Case& c : cases) {
    ASSERT_OK_AND_ASSIGN(PartialShape ab, shapes::BroadcastShapes(c.a, c.b));
    ASSERT_OK_AND_ASSIGN(PartialShape ba, shapes::BroadcastShapes(c.b, c.a));
    EXPECT_EQ(ab.ToString(), c.want);
    EXPECT_EQ(ba.ToString(), c.want);
  }
  EXPECT_THAT(shapes::BroadcastShapes(S({2}), S({3})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[2] vs. [3]")));
  EXPECT_FALSE(shapes::BroadcastShapes(S({0}), S({3})).ok());
}

TEST(ShapeFromInputTest, UsesTheValueOrItsLength) {
  const AttrMap attrs;
  const Tensor dims = Ints({3}, {2, -1, 4});
  const Tensor unknown = Ints({}, {-1});
  const Tensor scalar = Ints({}, {5});
  const Tensor matrix = Ints({1, 1}, {5});
  const Tensor negative = Ints({1}, {-2});
  auto shape = [&](PartialShape input, const Tensor* constant) {
    InferenceContext c(attrs, {std::move(input)}, {constant}, {DType::kInt64}, 1);
    return shapes::ShapeFromInput(c, 0);
  };
  EXPECT_EQ(shape(S({3}), &dims)->ToString(), "[2,?,4]");
  EXPECT_EQ(shape(S({}), &unknown)->ToString(), "<unknown>");
  EXPECT_EQ(shape(S({3}), nullptr)->ToString(), "[?,?,?]");
  EXPECT_EQ(shape(S({-1}), nullptr)->ToString(), "<unknown>");
  EXPECT_EQ(shape(PartialShape(), nullptr)->ToString(), "<unknown>");
  EXPECT_FALSE(shape(S({}), &scalar).ok());
  EXPECT_FALSE(shape(S({1, 1}), &matrix).ok());
  EXPECT_FALSE(shape(S({1}), &negative).ok());
  EXPECT_FALSE(shape(S({2, 2}), nullptr).ok());
  EXPECT_FALSE(shape(S({int64_t{1} << 40}), nullptr).ok());
}

TEST(SharedShapeFnTest, SetTheOutputs) {
  AttrMap attrs;
  attrs.Set("shape", S({7, -1}));
  InferenceContext c(attrs, {S({2, 1}), S({3})}, {nullptr, nullptr}, {DType::kFloat, DType::kFloat},
                     2);
  ASSERT_OK(shapes::SameAsFirstInput(c));
  EXPECT_EQ(c.outputs()[0].ToString(), "[2,1]");
  ASSERT_OK(shapes::Broadcast(c));
  EXPECT_EQ(c.outputs()[0].ToString(), "[2,3]");
  ASSERT_OK(shapes::FromShapeAttr(c));
  EXPECT_EQ(c.outputs()[0].ToString(), "[7,?]");
  ASSERT_OK(shapes::Scalar(c));
  EXPECT_EQ(c.outputs()[1].ToString(), "[]");
}

TEST(OrOfRankTest, GivesARankWhereNoneIsKnown) {
  EXPECT_EQ(shapes::OrOfRank(PartialShape(), 2).ToString(), "[?,?]");
  EXPECT_EQ(shapes::OrOfRank(S({1}), 2).ToString(), "[1]");
}

}  // namespace
}  // namespace formwork
