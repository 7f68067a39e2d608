// What op cases cannot say of the array and gather kernels: what is shared, what is written in
// place, and values of dtype variant and resource.

#include <gtest/gtest.h>

#include "core/kernels/array/stack.h"
#include "core/kernels/gather/gather.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"

namespace formwork {
namespace {

using testing::KernelRunner;

Tensor Floats(const Shape& shape, float first = 0) {
  Tensor tensor = *Tensor::Allocate(ProcessAllocator(), DType::kFloat, shape);
  for (float& value : tensor.mutable_span<float>()) value = first++;
  return tensor;
}

Tensor Ints(const Shape& shape, std::initializer_list<int32_t> values) {
  Tensor tensor = *Tensor::Allocate(ProcessAllocator(), DType::kInt32, shape);
  std::copy(values.begin(), values.end(), tensor.mutable_data<int32_t>());
  return tensor;
}

KernelRunner::Attrs TypeOf(const Tensor& tensor, int64_t n = 1) {
  return {{"T", tensor.dtype()}, {"N", n}};
}

TEST(ArrayKernelsTest, OpsThatKeepTheElementsShareThem) {
  KernelRunner run;
  const Tensor x = Floats({4, 1, 16});
  const struct {
    absl::string_view op;
    std::vector<Tensor> more;
  } kCases[] = {
      {"Reshape", {Ints({1}, {-1})}},
      {"Squeeze", {}},
      {"ExpandDims", {Tensor::Scalar<int32_t>(0)}},
      {"Transpose", {Ints({3}, {1, 0, 2})}},
      {"StridedSlice", {Ints({1}, {0}), Ints({1}, {4}), Ints({1}, {1})}},
      {"Slice", {Ints({3}, {0, 0, 0}), Ints({3}, {-1, -1, -1})}},
      {"Tile", {Ints({3}, {1, 1, 1})}},
      {"BroadcastTo", {Ints({3}, {4, 1, 16})}},
      {"Pad", {Ints({3, 2}, {0, 0, 0, 0, 0, 0})}},
      {"Roll", {Tensor::Scalar<int32_t>(4), Tensor::Scalar<int32_t>(0)}},
  };
  for (const auto& c : kCases) {
    std::vector<Tensor> inputs = {x};
    inputs.insert(inputs.end(), c.more.begin(), c.more.end());
    ASSERT_OK_AND_ASSIGN(Tensor y, run.One(c.op, TypeOf(x), std::move(inputs)));
    EXPECT_EQ(y.raw(), x.raw()) << c.op;
    EXPECT_EQ(y.num_elements(), x.num_elements()) << c.op;
  }
}

TEST(ArrayKernelsTest, JoiningOneTensorSharesIt) {
  const Tensor x = Floats({8, 8});
  ASSERT_OK_AND_ASSIGN(Tensor stacked, StackTensors(ProcessAllocator(), {&x}, 1));
  EXPECT_EQ(stacked.raw(), x.raw());
  EXPECT_EQ(stacked.shape(), Shape({8, 1, 8}));
  ASSERT_OK_AND_ASSIGN(Tensor joined,
                       ConcatTensors(ProcessAllocator(), {Floats({0, 8}), x, Floats({0, 8})}, 0));
  EXPECT_EQ(joined.raw(), x.raw());
}

TEST(ArrayKernelsTest, TheOnlyHolderIsUpdatedInPlace) {
  KernelRunner run;
  Tensor target = Floats({64});
  const void* elements = target.raw();
  std::vector<Tensor> inputs =
      testing::Owned(std::move(target), Ints({1, 1}, {3}), Floats({1}, 100));
  ASSERT_OK_AND_ASSIGN(Tensor y,
                       run.One("TensorScatterAdd", {{"T", DType::kFloat}}, std::move(inputs)));
  EXPECT_EQ(y.raw(), elements);
  EXPECT_EQ(y.data<float>()[3], 103);
}

TEST(ArrayKernelsTest, WhatOthersHoldIsNotWritten) {
  KernelRunner run;
  const Tensor target = Floats({64});
  ASSERT_OK_AND_ASSIGN(Tensor y, run.One("TensorScatterUpdate", TypeOf(target),
                                         {target, Ints({1, 1}, {3}), Floats({1}, 100)}));
  EXPECT_EQ(y.data<float>()[3], 100);
  EXPECT_EQ(target.data<float>()[3], 3);
}

TEST(ArrayKernelsTest, AScatterThatFailsLeavesItsTarget) {
  Tensor target = Floats({4, 2});
  EXPECT_EQ(ScatterRows(ScatterOp::kAdd, target, Ints({2}, {1, 4}), Floats({2, 2}, 50)).code(),
            absl::StatusCode::kInvalidArgument);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(target.data<float>()[i], i);
}

TEST(ArrayKernelsTest, ScatteredRowsTakeOneValueForAll) {
  Tensor target = Floats({3, 2});
  ASSERT_OK(ScatterRows(ScatterOp::kMul, target, Ints({2}, {2, 2}), Tensor::Scalar<float>(2)));
  EXPECT_EQ(target.data<float>()[4], 16);
  EXPECT_EQ(target.data<float>()[3], 3);
}

TEST(ArrayKernelsTest, DividingByAnIntegerZeroIsAnError) {
  Tensor target = Ints({2}, {7, 8});
  EXPECT_EQ(ScatterRows(ScatterOp::kDiv, target, Ints({1}, {0}), Ints({1}, {0})).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(target.data<int32_t>()[0], 7);
}

TEST(ArrayKernelsTest, ZerosLikeAListKeepsUnsetItemsUnset) {
  auto list = std::make_shared<TensorList>();
  list->element_dtype = DType::kFloat;
  list->items = {Floats({2}, 5), Tensor()};
  KernelRunner run;
  const Tensor variant = Tensor::VariantScalar(list);
  ASSERT_OK_AND_ASSIGN(Tensor y, run.One("ZerosLike", TypeOf(variant), {variant}));
  const auto* zeros = dynamic_cast<const TensorList*>(y.scalar<Variant>().get());
  ASSERT_NE(zeros, nullptr);
  ASSERT_EQ(zeros->items.size(), 2u);
  EXPECT_EQ(zeros->items[0].data<float>()[1], 0);
  EXPECT_FALSE(zeros->items[1].has_value());
  EXPECT_EQ(list->items[0].data<float>()[1], 6);
}

TEST(ArrayKernelsTest, VariantsAndHandlesMoveLikeOtherElements) {
  KernelRunner run;
  auto list = std::make_shared<TensorList>();
  const Tensor variant = Tensor::VariantScalar(list);
  ASSERT_OK_AND_ASSIGN(Tensor packed, run.One("Pack", TypeOf(variant, 2), {variant, variant}));
  EXPECT_EQ(packed.data<Variant>()[1], list);
  ASSERT_OK_AND_ASSIGN(Tensor size, run.One("Size", TypeOf(packed), {packed}));
  EXPECT_EQ(size.scalar<int32_t>(), 2);
  const Tensor handle = Tensor::Scalar(ResourceHandle{42});
  ASSERT_OK_AND_ASSIGN(Tensor handles, run.One("Pack", TypeOf(handle, 2), {handle, handle}));
  ASSERT_OK_AND_ASSIGN(Tensor picked,
                       run.One("GatherV2", {{"Tparams", DType::kResource}},
                               {handles, Ints({3}, {1, 0, 1}), Tensor::Scalar<int32_t>(0)}));
  EXPECT_EQ(picked.data<ResourceHandle>()[2].id, 42u);
}

}  // namespace
}  // namespace formwork
