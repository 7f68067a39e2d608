// TensorList kernels. Values and texts: TensorFlow 2.21's.

#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using ::testing::HasSubstr;
using Ints = std::vector<int32_t>;
using Floats = std::vector<float>;

class ListTest : public ::testing::Test {
 protected:
  // The element shape that a vector gives; kAny: -1.
  static Tensor ShapeOf(const Ints& dims) { return VectorOf<int32_t>(dims); }
  static Tensor Any() { return Tensor::Scalar<int32_t>(-1); }
  static Tensor Int(int32_t i) { return Tensor::Scalar(i); }

  KernelRunner::Attrs Typed(KernelRunner::Attrs more = {}) {
    more.emplace_back("element_dtype", DType::kFloat);
    more.emplace_back("shape_type", DType::kInt32);
    more.emplace_back("Tshape", DType::kInt32);
    return more;
  }
  Tensor Empty(Tensor shape, int32_t most = -1) {
    return *run_.One("EmptyTensorList", Typed(), {std::move(shape), Int(most)});
  }
  Tensor Reserve(Tensor shape, int32_t n) {
    return *run_.One("TensorListReserve", Typed(), {std::move(shape), Int(n)});
  }
  Tensor ListOf(const std::vector<Tensor>& items) {
    Tensor list = Empty(Any());
    for (const Tensor& item : items) {
      list = *run_.One("TensorListPushBack", Typed(), {std::move(list), item});
    }
    return list;
  }
  absl::StatusOr<Tensor> Stack(Tensor list, Tensor shape, int64_t n = -1) {
    return run_.One("TensorListStack", Typed({{"num_elements", n}}),
                    {std::move(list), std::move(shape)});
  }
  absl::StatusOr<Tensor> Get(Tensor list, int32_t i, Tensor shape) {
    return run_.One("TensorListGetItem", Typed(), {std::move(list), Int(i), std::move(shape)});
  }
  absl::StatusOr<Tensor> Set(Tensor list, int32_t i, Tensor item, bool resize = false) {
    return run_.One("TensorListSetItem", Typed({{"resize_if_index_out_of_bounds", resize}}),
                    Owned(std::move(list), Int(i), std::move(item)));
  }
  int32_t Length(const Tensor& list) {
    return run_.One("TensorListLength", {}, {list})->scalar<int32_t>();
  }

  KernelRunner run_;
};

#define EXPECT_INVALID(expression, text) \
  EXPECT_THAT((expression), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)))

TEST_F(ListTest, PushGetSetStack) {
  Tensor list = ListOf({VectorOf<float>({1, 2}), VectorOf<float>({3, 4})});
  EXPECT_EQ(Length(list), 2);
  ASSERT_OK_AND_ASSIGN(Tensor item, Get(list, 1, Any()));
  EXPECT_EQ(ValuesOf<float>(item), (Floats{3, 4}));
  ASSERT_OK_AND_ASSIGN(Tensor changed, Set(list, 0, VectorOf<float>({9, 8})));
  ASSERT_OK_AND_ASSIGN(Tensor before, Stack(list, Any()));
  ASSERT_OK_AND_ASSIGN(Tensor after, Stack(changed, ShapeOf({2}), 2));
  EXPECT_EQ(ValuesOf<float>(before), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(ValuesOf<float>(after), (Floats{9, 8, 3, 4}));
  EXPECT_EQ(after.shape(), Shape({2, 2}));
}

TEST_F(ListTest, TheOnlyHolderChangesInPlace) {
  Tensor list = Reserve(Any(), 3);
  const VariantObject* object = list.scalar<Variant>().get();
  ASSERT_OK_AND_ASSIGN(list, Set(std::move(list), 1, Tensor::Scalar(5.0f)));
  EXPECT_EQ(list.scalar<Variant>().get(), object);
  const Tensor other = list;
  ASSERT_OK_AND_ASSIGN(list, Set(std::move(list), 1, Tensor::Scalar(6.0f)));
  EXPECT_NE(list.scalar<Variant>().get(), object);
  EXPECT_EQ(Get(other, 1, Any())->scalar<float>(), 5.0f);
}

TEST_F(ListTest, UnsetItemsReadAsZeros) {
  ASSERT_OK_AND_ASSIGN(Tensor item, Get(Reserve(Any(), 2), 1, ShapeOf({2})));
  EXPECT_EQ(ValuesOf<float>(item), (Floats{0, 0}));
  ASSERT_OK_AND_ASSIGN(item, Get(Reserve(ShapeOf({-1, 2}), 2), 1, ShapeOf({1, -1})));
  EXPECT_EQ(item.shape(), Shape({1, 2}));
  ASSERT_OK_AND_ASSIGN(Tensor list, Set(Reserve(Any(), 2), 0, VectorOf<float>({1, 2})));
  ASSERT_OK_AND_ASSIGN(item, Get(list, 1, Any()));
  EXPECT_EQ(ValuesOf<float>(item), (Floats{0, 0}));
  ASSERT_OK_AND_ASSIGN(Tensor all, Stack(list, Any()));
  EXPECT_EQ(ValuesOf<float>(all), (Floats{1, 2, 0, 0}));
  EXPECT_INVALID(Get(Reserve(Any(), 2), 1, Any()),
                 "element_shape is not fully defined: <unknown> and no list element is set.");
  EXPECT_INVALID(Get(Reserve(ShapeOf({3, 2}), 2), 1, ShapeOf({1, -1})),
                 "PartialTensorShape: Incompatible shapes during merge: [1,?] vs. [3,2]");
  EXPECT_INVALID(Stack(Reserve(Any(), 2), Any()),
                 "only contains uninitialized tensors and has a non-fully-defined element_shape");
}

TEST_F(ListTest, IndicesAndShapesAreChecked) {
  Tensor list = ListOf({Tensor::Scalar(1.0f), Tensor::Scalar(2.0f)});
  EXPECT_INVALID(Get(list, 2, Any()), "Trying to access element 2 in a list with 2 elements.");
  EXPECT_INVALID(Get(list, -1, Any()), "Trying to access element -1 in a list with 2 elements.");
  EXPECT_INVALID(Set(list, 2, Tensor::Scalar(1.0f)),
                 "Trying to modify element 2 in a list with 2 elements.");
  EXPECT_INVALID(Set(list, -1, Tensor::Scalar(1.0f), true), "Trying to modify element -1");
  EXPECT_INVALID(Set(Reserve(ShapeOf({2}), 2), 1, VectorOf<float>({1})),
                 "Item element shape: [1] list shape: [2]");
  ASSERT_OK_AND_ASSIGN(Tensor longer, Set(list, 5, Tensor::Scalar(1.0f), true));
  EXPECT_EQ(Length(longer), 6);
  EXPECT_INVALID(Stack(list, Any(), 3),
                 "Operation expected a list with 3 elements but got a list with 2 elements.");
  EXPECT_INVALID(Stack(Empty(Any()), Any()), "Tried to stack elements of an empty list");
  EXPECT_INVALID(Stack(ListOf({Tensor::Scalar(1.0f), VectorOf<float>({1})}), Any()),
                 "Incompatible ranks during merge: 0 vs. 1");
  EXPECT_INVALID(run_.One("TensorListPushBack", Typed(), {Empty(Any(), 0), Tensor::Scalar(1.0f)}),
                 "Tried to push item into a full list list size: 0 max_num_elements: 0");
  EXPECT_INVALID(run_.One("TensorListPushBack", Typed(), {Tensor::VariantScalar(nullptr), list}),
                 "Input handle is not a list");
  EXPECT_INVALID(run_.One("EmptyTensorList", Typed(), {Int(0), Int(-1)}),
                 "The only valid scalar shape tensor is the fully unknown shape specified as -1.");
  EXPECT_INVALID(run_.One("EmptyTensorList", Typed(), {ShapeOf({-2}), Int(-1)}),
                 "Dimension -2 must be >= -1");
  EXPECT_INVALID(run_.One("TensorListReserve", Typed(), {Any(), Int(-1)}),
                 "The num_elements to reserve must be a non negative number, but got -1");
}

TEST_F(ListTest, PopBack) {
  KernelRunner::Attrs attrs = Typed();
  ASSERT_OK_AND_ASSIGN(std::vector<Tensor> outputs,
                       run_.Op("TensorListPopBack", attrs,
                               {ListOf({Tensor::Scalar(1.0f), Tensor::Scalar(2.0f)}), Any()}));
  EXPECT_EQ(outputs[1].scalar<float>(), 2.0f);
  EXPECT_EQ(Length(outputs[0]), 1);
  EXPECT_INVALID(run_.Op("TensorListPopBack", attrs, {Empty(Any()), Any()}),
                 "Trying to pop from an empty list.");
  EXPECT_INVALID(run_.Op("TensorListPopBack", attrs, {Reserve(Any(), 1), Any()}),
                 "element_shape is not fully defined.<unknown>");
}

TEST_F(ListTest, FromTensorGatherScatterConcatSplit) {
  const Tensor matrix = TensorOf<float>(Shape({3, 2}), {1, 2, 3, 4, 5, 6});
  ASSERT_OK_AND_ASSIGN(Tensor list, run_.One("TensorListFromTensor", Typed(), {matrix, Any()}));
  EXPECT_EQ(Length(list), 3);
  ASSERT_OK_AND_ASSIGN(Tensor gathered, run_.One("TensorListGather", Typed(),
                                                 {list, VectorOf<int32_t>({2, 0}), Any()}));
  EXPECT_EQ(ValuesOf<float>(gathered), (Floats{5, 6, 1, 2}));
  EXPECT_INVALID(run_.One("TensorListGather", Typed(), {list, VectorOf<int32_t>({3}), Any()}),
                 "Trying to gather element 3 in a list with 3 elements.");
  ASSERT_OK_AND_ASSIGN(Tensor scattered, run_.One("TensorListScatterV2", Typed(),
                                                  {VectorOf<float>({1, 2}),
                                                   VectorOf<int32_t>({2, 0}), Any(), Int(-1)}));
  ASSERT_OK_AND_ASSIGN(Tensor stacked, Stack(scattered, ShapeOf({})));
  EXPECT_EQ(ValuesOf<float>(stacked), (Floats{2, 0, 1}));
  EXPECT_INVALID(run_.One("TensorListScatterV2", Typed(),
                          {VectorOf<float>({1, 2}), VectorOf<int32_t>({2, 0}), Any(), Int(2)}),
                 "TensorListScatter: Trying to scatter at index 2 in list with size 2");
  EXPECT_INVALID(run_.One("TensorListScatterV2", Typed(),
                          {VectorOf<float>({1, 2}), VectorOf<int32_t>({2}), Any(), Int(-1)}),
                 "Invalid number of rows in input tensor. Expected: 1 Actual: 2");
  ASSERT_OK_AND_ASSIGN(std::vector<Tensor> concat,
                       run_.Op("TensorListConcatV2", Typed(),
                               {ListOf({VectorOf<float>({1, 2}), VectorOf<float>({3})}), Any(),
                                VectorOf<int64_t>({})}));
  EXPECT_EQ(ValuesOf<float>(concat[0]), (Floats{1, 2, 3}));
  EXPECT_EQ(ValuesOf<int64_t>(concat[1]), (std::vector<int64_t>{2, 1}));
  ASSERT_OK_AND_ASSIGN(Tensor half_set, Set(Reserve(Any(), 2), 0, VectorOf<float>({1, 2})));
  ASSERT_OK_AND_ASSIGN(concat, run_.Op("TensorListConcatV2", Typed(),
                                       {half_set, ShapeOf({-1}), VectorOf<int64_t>({2, 3})}));
  EXPECT_EQ(ValuesOf<float>(concat[0]), (Floats{1, 2, 0, 0, 0}));
  EXPECT_INVALID(run_.Op("TensorListConcatV2", Typed(),
                         {ListOf({Tensor::Scalar(1.0f)}), Any(), VectorOf<int64_t>({})}),
                 "Concat saw a scalar shape at index 0 but requires at least vectors.");
  ASSERT_OK_AND_ASSIGN(Tensor split,
                       run_.One("TensorListSplit", Typed(),
                                {VectorOf<float>({1, 2, 3}), Any(), VectorOf<int64_t>({1, 2})}));
  ASSERT_OK_AND_ASSIGN(Tensor second, Get(split, 1, Any()));
  EXPECT_EQ(ValuesOf<float>(second), (Floats{2, 3}));
  EXPECT_INVALID(run_.One("TensorListSplit", Typed(),
                          {VectorOf<float>({1, 2, 3}), Any(), VectorOf<int64_t>({1, 3})}),
                 "Attempting to slice [1, 3] from tensor with length 3");
  ASSERT_OK_AND_ASSIGN(Tensor joined, run_.One("TensorListConcatLists", Typed(), {list, list}));
  EXPECT_EQ(Length(joined), 6);
}

TEST_F(ListTest, ListsOfLists) {
  KernelRunner::Attrs nested = {
      {"element_dtype", DType::kVariant}, {"shape_type", DType::kInt32}, {"Tshape", DType::kInt32}};
  ASSERT_OK_AND_ASSIGN(Tensor outer, run_.One("EmptyTensorList", nested, {ShapeOf({}), Int(-1)}));
  const Tensor inner = ListOf({Tensor::Scalar(7.0f)});
  ASSERT_OK_AND_ASSIGN(outer, run_.One("TensorListPushBack", nested, {outer, inner}));
  ASSERT_OK_AND_ASSIGN(Tensor stacked, run_.One("TensorListStack", nested, {outer, ShapeOf({})}));
  EXPECT_EQ(stacked.shape(), Shape({1}));
  ASSERT_OK_AND_ASSIGN(Tensor back,
                       run_.One("TensorListGetItem", nested, {outer, Int(0), ShapeOf({})}));
  EXPECT_EQ(Get(back, 0, Any())->scalar<float>(), 7.0f);
}

TEST_F(ListTest, EndlessNestingIsRefused) {
  KernelRunner::Attrs nested = {{"element_dtype", DType::kVariant}, {"shape_type", DType::kInt32}};
  const Tensor empty = *run_.One("EmptyTensorList", nested, {ShapeOf({}), Int(-1)});
  Tensor list = empty;
  absl::Status status;
  for (int i = 0; i < 2000 && status.ok(); ++i) {
    absl::StatusOr<Tensor> next = run_.One("TensorListPushBack", nested, {empty, list});
    status = next.status();
    if (next.ok()) list = *std::move(next);
  }
  EXPECT_INVALID(status, "nested too deep");
}

TEST_F(ListTest, HugeSizesAreRefused) {
  const int32_t huge = 2'000'000'000;
  EXPECT_THAT(run_.One("TensorListReserve", Typed(), {Any(), Int(huge)}),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(run_.One("TensorListResize", {}, {Empty(Any()), Int(huge)}),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(Set(Empty(Any()), huge, Tensor::Scalar(1.0f), true),
              StatusIs(absl::StatusCode::kResourceExhausted));
  KernelRunner small(1 << 20);
  EXPECT_THAT(small.One("TensorListReserve", Typed(), {Any(), Int(100'000)}),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace formwork::testing
