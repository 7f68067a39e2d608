// Accumulators: ResourceConditionalAccumulator and its ops.

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/device/host_allocator.h"
#include "core/kernels/resource/stored_form.h"
#include "core/ops/accumulator.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

class AccumulatorTest : public EngineTest {
 protected:
  // Of `text` behind an accumulator `a`, whose last value is y.
  absl::StatusOr<Registered> Made(const std::string& name, absl::string_view text) {
    return Register(
        name,
        absl::StrCat(
            "a = ResourceConditionalAccumulator dtype=float shape=shape:? shared_name=\"a\"\n"
            "x = Placeholder dtype=float\n",
            text),
        {Spec("x:0")}, {"y:0"}, {}, {}, /*replace=*/true);
  }
  CallResult RunOf(absl::string_view text, Tensor x = Tensor::Scalar(1.0f)) {
    const absl::StatusOr<Registered> made = Made("f", text);
    EXPECT_OK(made);
    return Run(made->function.id, Owned(std::move(x)));
  }
};

constexpr absl::string_view kApply =
    "s = Const int64[] 0\n"
    "g = ResourceAccumulatorApplyGradient(a, s, x) dtype=float\n"
    "y = ResourceAccumulatorNumAccumulated(a, ^g)\n";
constexpr absl::string_view kTake =
    "n = Const int32[] 2\n"
    "y = ResourceAccumulatorTakeGradient(a, n) dtype=float\n";

TEST_F(AccumulatorTest, AMeanIsTakenOfWhatOtherCallsHaveApplied) {
  ASSERT_EQ(RunOf(kApply).outputs[0].tensor.scalar<int32_t>(), 1);
  ASSERT_EQ(RunOf(kApply, Tensor::Scalar(2.0f)).outputs[0].tensor.scalar<int32_t>(), 2);
  const CallResult taken = RunOf(kTake);
  ASSERT_OK(taken.status);
  EXPECT_EQ(taken.outputs[0].tensor.scalar<float>(), 1.5f);
  // The step has gone on, so that a gradient of the first is dropped.
  EXPECT_EQ(RunOf(kApply).outputs[0].tensor.scalar<int32_t>(), 0);
}

TEST_F(AccumulatorTest, WhoWantsMoreThanThereAreWaits) {
  ASSERT_OK(RunOf(kApply).status);
  ASSERT_OK_AND_ASSIGN(const Registered take, Made("take", kTake));
  auto waits = Begin(take.function.id, Owned(Tensor::Scalar(0.0f)));
  AwaitQueued(1);
  ASSERT_EQ(RunOf(kApply, Tensor::Scalar(2.0f)).outputs[0].tensor.scalar<int32_t>(), 2);
  ASSERT_OK(waits->Wait().status);
  EXPECT_EQ(waits->result.outputs[0].tensor.scalar<float>(), 1.5f);
}

TEST_F(AccumulatorTest, OtherThingsAreNone) {
  const CallResult result = RunOf(
      "v = MutableHashTableV2 shared_name=\"w\" key_dtype=string value_dtype=float\n"
      "y = ResourceAccumulatorNumAccumulated(v)\n");
  EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status.message()),
              ::testing::HasSubstr("not an accumulator's but a table's"));
}

TEST(StoredAccumulatorTest, ComesBackFromDisk) {
  const StoredForm* const form = FindStoredForm("accumulator of sums");
  ASSERT_NE(form, nullptr);
  const ResourceType type{&kSumAccumulatorKind, {{DType::kFloat, *PartialShape::Make({-1})}}};
  HostAllocator allocator;
  const std::vector<Tensor> empty = {Tensor::Scalar(int64_t{7}), Tensor::Scalar(int64_t{0})};
  std::vector<Tensor> full = {Tensor::Scalar(int64_t{7}), Tensor::Scalar(int64_t{3}),
                              Tensor::Scalar(1.5f).Reshaped(Shape({1}))};
  for (const std::vector<Tensor>& parts : {empty, full}) {
    ASSERT_OK_AND_ASSIGN(const ResourceValue value, form->value(type, parts));
    ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> again,
                         form->parts(type, value.value, allocator));
    ASSERT_EQ(again.size(), parts.size());
    EXPECT_EQ(again[0].scalar<int64_t>(), 7);
    EXPECT_EQ(again[1].scalar<int64_t>(), parts[1].scalar<int64_t>());
  }
  full.pop_back();
  EXPECT_FALSE(form->value(type, full).ok());
  full.push_back(Tensor::Scalar(1.5f));  // No vector.
  EXPECT_FALSE(form->value(type, full).ok());
  EXPECT_FALSE(form->value(type, {}).ok());
}

}  // namespace
}  // namespace formwork::testing
