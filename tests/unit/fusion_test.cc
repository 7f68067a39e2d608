// Groups of elementwise nodes: their errors, what they hold, and reductions as a part of them.

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "core/kernels/widen.h"
#include "tests/unit/plan_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

class FusionTest : public PlanFixture {};

TEST_F(FusionTest, AnErrorNamesItsOwnNode) {
  Make(R"(
    x = Placeholder dtype=float
    y = Placeholder dtype=float
    a = Square(x) T=float
    b = Neg(y) T=float
    c = AddV2(a, b) T=float
    d = Neg(c) T=float
    e = Exp(d) T=float
  )",
       {{"x:0", DType::kFloat}, {"y:0", DType::kFloat}}, {"e:0"});
  EXPECT_THAT(Text(), HasSubstr("0: %2 = fused("));
  EXPECT_THAT(Run({VectorOf<float>({1, 2}), VectorOf<float>({1, 2, 3})}),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("node 'c': "), Not(HasSubstr("node 'e'")))));
}

TEST_F(FusionTest, WhatIsRefusedMemoryIsNamedByTheLastNode) {
  Make(R"(
    x = Placeholder dtype=float
    a = Neg(x) T=float
    b = Exp(a) T=float
  )",
       {{"x:0", DType::kFloat}}, {"b:0"});
  MemoryBudget budget(1000);
  HostAllocator allocator(&budget, /*cache_bytes=*/0);
  allocator_ = &allocator;
  const Tensor x = VectorOf<float>(std::vector<float>(100'000, 1));
  EXPECT_THAT(Run({x}), StatusIs(StatusCode::kResourceExhausted, HasSubstr("node 'b': ")));
  EXPECT_EQ(Held(), 0);
}

TEST_F(FusionTest, AResultGoesWithItsLastUse) {
  constexpr int kSteps = 20, kElements = 100'000;
  std::string text =
      "x = Placeholder dtype=float\ny = Placeholder dtype=float\na0 = Neg(x) T=float\n";
  for (int i = 0; i < kSteps; ++i) {
    absl::StrAppend(&text, "a", i + 1, " = Neg(a", i, ") T=float\n");
  }
  absl::StrAppend(&text, "s = Neg(y) T=float\nd = AddV2(a", kSteps, ", a", kSteps,
                  ") T=float\nz = AddV2(d, s) T=float\n");
  Make(text, {{"x:0", DType::kFloat}, {"y:0", DType::kFloat}}, {"z:0"});
  EXPECT_THAT(Text(), HasSubstr("0: %2 = fused("));
  // The scalar s is not of the others' shape.
  MemoryBudget budget(4 * kElements * sizeof(float));
  HostAllocator allocator(&budget, /*cache_bytes=*/0);
  allocator_ = &allocator;
  ASSERT_OK_AND_ASSIGN(
      std::vector<Tensor> outputs,
      Run({VectorOf<float>(std::vector<float>(kElements, 2)), Tensor::Scalar(3.0f)}));
  EXPECT_THAT(outputs[0].span<float>(), Each(-7.0f));
}

// Sums and largest of x * y along trailing dimensions, as a part of the group and as steps of their
// own, have the same bits.
struct RowsCase {
  std::vector<int64_t> dims;
  absl::string_view axes;
  bool known = true;  // Whether the planner is told the dimensions.
  bool fused = true;
  DType dtype = DType::kFloat;
};

class FusedReductionTest : public PlanFixture, public ::testing::WithParamInterface<RowsCase> {
 protected:
  static std::vector<float> Values(const Shape& shape, uint32_t seed) {
    std::vector<float> values(static_cast<size_t>(shape.num_elements()));
    for (float& value : values) {
      seed = seed * 1664525 + 1013904223;
      value = static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-30f;
    }
    return values;
  }
  static Tensor Rounded(const Shape& shape, absl::Span<const float> values) {
    Tensor tensor = *Tensor::Allocate(ProcessAllocator(), GetParam().dtype, shape);
    NarrowTo(tensor.dtype(), values.data(), shape.num_elements(), tensor.mutable_raw());
    return tensor;
  }
  static Tensor Wide(const Tensor& tensor) { return *Widened(ProcessAllocator(), tensor); }
};

TEST_P(FusedReductionTest, HasTheBitsOfStepsOfTheirOwn) {
  const RowsCase& c = GetParam();
  const Shape shape = *Shape::Make(c.dims);
  const PartialShape known = c.known ? PartialShape(shape) : PartialShape();
  const absl::string_view dtype = DTypeName(c.dtype);
  const std::string reductions = absl::Substitute(R"(
    axes = Const $0
    sum = Sum(a, axes) T=$1 Tidx=int32
    mean = Mean(a, axes) T=$1 Tidx=int32 keep_dims=true
    most = Max(b, axes) T=$1 Tidx=int32
  )",
                                                  c.axes, dtype);
  const std::vector<std::string> fetches = {"sum:0", "mean:0", "most:0", "b:0"};
  const Tensor x = Rounded(shape, Values(shape, 1)), y = Rounded(shape, Values(shape, 2));
  Make(absl::Substitute(R"(
    x = Placeholder dtype=$0
    y = Placeholder dtype=$0
    a = Mul(x, y) T=$0
    b = Neg(a) T=$0
    $1
  )",
                        dtype, reductions),
       {{"x:0", c.dtype}, {"y:0", c.dtype}}, fetches, known);
  if (c.fused) {
    EXPECT_THAT(Text(), AllOf(HasSubstr("fused("), Not(HasSubstr("Sum(")), Not(HasSubstr("Mean(")),
                              Not(HasSubstr("Max("))));
  } else {
    EXPECT_THAT(Text(), AllOf(HasSubstr("Sum("), HasSubstr("Mean("), HasSubstr("Max(")));
  }
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> got, Run({x, y}));

  const Tensor wide_x = Wide(x), wide_y = Wide(y);
  std::vector<float> products(static_cast<size_t>(shape.num_elements()));
  for (size_t i = 0; i < products.size(); ++i) {
    products[i] = wide_x.data<float>()[i] * wide_y.data<float>()[i];
  }
  const Tensor a = Rounded(shape, products);
  for (float& product : products) product = -product;
  const Tensor b = Rounded(shape, products);
  Make(
      absl::Substitute("a = Placeholder dtype=$0\nb = Placeholder dtype=$0\n$1", dtype, reductions),
      {{"a:0", c.dtype}, {"b:0", c.dtype}}, fetches, known);
  ASSERT_THAT(Text(), Not(HasSubstr("fused(")));
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> want, Run({a, b}));
  for (size_t k = 0; k < want.size(); ++k) {
    ASSERT_EQ(got[k].shape(), want[k].shape()) << fetches[k];
    EXPECT_EQ(std::memcmp(got[k].raw(), want[k].raw(), want[k].bytes()), 0) << fetches[k];
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, FusedReductionTest,
    ::testing::Values(
        RowsCase{{300, 256}, "int32[1] 1"}, RowsCase{{257, 1000}, "int32[1] -1"},
        RowsCase{{10000, 9}, "int32[1] -1"}, RowsCase{{3, 60, 37, 11}, "int32[2] -1 2"},
        RowsCase{{9, 20011}, "int32[1] -1"},   // Several pieces.
        RowsCase{{3, 140000}, "int32[1] -1"},  // Stripes of them.
        RowsCase{{400001}, "int32[1] 0"}, RowsCase{{700, 1, 101}, "int32[3] 0 1 2"},
        RowsCase{{300, 256}, "int32[1] -1", false}, RowsCase{{9, 20011}, "int32[1] -1", false},
        RowsCase{{7, 3}, "int32[1] -1", false},   // Few.
        RowsCase{{50, 1}, "int32[1] -1", false},  // Nothing is reduced.
        RowsCase{{0, 5}, "int32[1] -1", false}, RowsCase{{5, 0}, "int32[1] -1", false},
        RowsCase{{7, 30}, "int32[1] -1", true, false},  // Not worth it.
        RowsCase{{30000, 3}, "int32[1] -1", true, false},
        RowsCase{{300, 256}, "int32[1] 0", true, false},  // Not trailing.
        RowsCase{{300, 256}, "int32[1] 1", false, false},
        RowsCase{{300, 256}, "int32[1] 1", true, true, DType::kHalf},
        RowsCase{{10000, 9}, "int32[1] 1", true, true, DType::kBfloat16},
        RowsCase{{9, 20011}, "int32[1] 1", true, true, DType::kHalf},
        RowsCase{{400001}, "int32[1] 0", true, true, DType::kBfloat16}),
    [](const auto& info) { return absl::StrCat("Case", info.index); });

TEST_F(FusionTest, AReductionsErrorNamesItsNode) {
  Make(R"(
    x = Placeholder dtype=float
    axes = Const int32[2] -1 -2
    a = Square(x) T=float
    s = Sum(a, axes) T=float Tidx=int32
    b = Neg(a) T=float
  )",
       {{"x:0", DType::kFloat}}, {"s:0", "b:0"});
  EXPECT_THAT(Text(), AllOf(HasSubstr("fused("), Not(HasSubstr("Sum("))));
  EXPECT_THAT(Run({VectorOf<float>({1, 2})}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("node 's': ")));
}

TEST_F(FusionTest, WhatIsOnlyReducedTakesNoMemory) {
  constexpr int64_t kElements = 1'000'000;
  Make(R"(
    x = Placeholder dtype=float
    axes = Const int32[1] -1
    a = Neg(x) T=float
    s = Sum(a, axes) T=float Tidx=int32
  )",
       {{"x:0", DType::kFloat}}, {"s:0"});
  MemoryBudget budget(kElements);
  HostAllocator allocator(&budget, /*cache_bytes=*/0);
  allocator_ = &allocator;
  EXPECT_EQ(RunFloat({VectorOf<float>(std::vector<float>(kElements, 2))}), -2.0f * kElements);
}

TEST_F(FusionTest, WhatReadsAReductionIsOfAnotherGroup) {
  Make(R"(
    x = Placeholder dtype=float
    axes = Const int32[1] -1
    a = Neg(x) T=float
    s = Sum(a, axes) T=float Tidx=int32 keep_dims=true
    q = RealDiv(a, s) T=float
    r = Square(q) T=float
  )",
       {{"x:0", DType::kFloat}}, {"r:0"});
  EXPECT_THAT(Text(), AllOf(Not(HasSubstr("Sum(")), HasSubstr("1: %3 = fused(")));
  ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> outputs,
                       Run({VectorOf<float>(std::vector<float>(1 << 17, 3))}));
  EXPECT_THAT(outputs[0].span<float>(), Each(0x1p-34f));
}

}  // namespace
}  // namespace formwork::testing
