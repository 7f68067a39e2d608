// Optionals. Texts: TensorFlow 2.21's.

#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using ::testing::HasSubstr;

class OptionalTest : public ::testing::Test {
 protected:
  using Shapes = std::vector<PartialShape>;

  Tensor Of(std::vector<Tensor> components) {
    std::vector<DType> dtypes;
    for (const Tensor& component : components) dtypes.push_back(component.dtype());
    return *run_.One("OptionalFromValue", {{"Toutput_types", dtypes}}, std::move(components));
  }
  absl::StatusOr<std::vector<Tensor>> Values(const Tensor& optional, std::vector<DType> dtypes,
                                             Shapes shapes) {
    return run_.Op("OptionalGetValue", {{"output_types", dtypes}, {"output_shapes", shapes}},
                   {optional});
  }

  KernelRunner run_;
};

#define EXPECT_INVALID(expression, text) \
  EXPECT_THAT((expression), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)))

TEST_F(OptionalTest, GivesBackWhatItWasMadeOf) {
  const Tensor optional = Of({Tensor::Scalar(1.5f), VectorOf<int64_t>({2, 3})});
  EXPECT_TRUE(run_.One("OptionalHasValue", {}, {optional})->scalar<bool>());
  absl::StatusOr<std::vector<Tensor>> values =
      Values(optional, {DType::kFloat, DType::kInt64}, {Shape(), PartialShape()});
  ASSERT_OK(values);
  EXPECT_EQ((*values)[0].scalar<float>(), 1.5f);
  EXPECT_EQ((*values)[1].data<int64_t>()[1], 3);
}

TEST_F(OptionalTest, NothingIsNotAValue) {
  const Tensor none = *run_.One("OptionalNone", {}, {});
  EXPECT_FALSE(run_.One("OptionalHasValue", {}, {none})->scalar<bool>());
  EXPECT_INVALID(Values(none, {DType::kFloat}, {Shape()}).status(),
                 "The given optional does not have a value.");
}

TEST_F(OptionalTest, WhatDoesNotFitIsRefused) {
  const Tensor optional = Of({VectorOf<float>({1, 2})});
  EXPECT_INVALID(Values(optional, {DType::kInt32}, {PartialShape()}).status(),
                 "Expected: int32. Actual: float.");
  EXPECT_INVALID(Values(optional, {DType::kFloat}, {Shape({3})}).status(),
                 "Expected: [3]. Actual: [2].");
  EXPECT_INVALID(
      Values(optional, {DType::kFloat, DType::kFloat}, {PartialShape(), PartialShape()}).status(),
      "has 1 components, expected 2");
  EXPECT_INVALID(Values(optional, {DType::kFloat}, {}).status(), "as many");
  const Tensor list = Tensor::VariantScalar(std::make_shared<TensorList>());
  EXPECT_INVALID(run_.One("OptionalHasValue", {}, {list}).status(),
                 "must be an OptionalVariant object");
  EXPECT_INVALID(run_.One("OptionalHasValue", {}, {Tensor::VariantScalar(nullptr)}).status(),
                 "must be an OptionalVariant object");
}

TEST_F(OptionalTest, ZerosAndSumsAreOfWhatIsInside) {
  const KernelRunner::Attrs variant = {{"T", DType::kVariant}};
  const KernelRunner::Attrs two = {{"T", DType::kVariant}, {"N", int64_t{2}}};
  const Tensor none = *run_.One("OptionalNone", {}, {});
  const Tensor inner = Of({VectorOf<float>({3, 4})});
  const Tensor optional = Of({VectorOf<float>({1, 2}), inner});
  const Tensor sum = *run_.One("AddN", two, {optional, optional});
  std::vector<Tensor> values =
      *Values(sum, {DType::kFloat, DType::kVariant}, {PartialShape(), PartialShape()});
  EXPECT_EQ(values[0].data<float>()[1], 4);
  EXPECT_EQ(Values(values[1], {DType::kFloat}, {PartialShape()})->at(0).data<float>()[1], 8);
  const Tensor zeros = *run_.One("ZerosLike", variant, {optional});
  values = *Values(zeros, {DType::kFloat, DType::kVariant}, {Shape({2}), PartialShape()});
  EXPECT_EQ(values[0].data<float>()[1], 0);
  EXPECT_EQ(Values(values[1], {DType::kFloat}, {PartialShape()})->at(0).data<float>()[1], 0);
  for (const Tensor& nothing :
       {*run_.One("ZerosLike", variant, {none}), *run_.One("AddN", two, {none, none})}) {
    EXPECT_FALSE(run_.One("OptionalHasValue", {}, {nothing})->scalar<bool>());
  }
  EXPECT_INVALID(run_.One("AddN", two, {optional, none}).status(), "numbers of components");
}

TEST_F(OptionalTest, EndlessNestingIsRefused) {
  Tensor optional = *run_.One("OptionalNone", {}, {});
  absl::Status status;
  for (int i = 0; i < 2000 && status.ok(); ++i) {
    absl::StatusOr<Tensor> next = run_.One(
        "OptionalFromValue", {{"Toutput_types", std::vector<DType>{DType::kVariant}}}, {optional});
    status = next.status();
    if (next.ok()) optional = *std::move(next);
  }
  EXPECT_INVALID(status, "nested too deep");
}

}  // namespace
}  // namespace formwork::testing
