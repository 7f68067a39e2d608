// Kernels on variables. Values and texts: TensorFlow 2.21's.

#include <algorithm>
#include <numeric>

#include "absl/time/clock.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using ::testing::HasSubstr;
using Floats = std::vector<float>;

class VariableKernelsTest : public ::testing::Test {
 protected:
  KernelRunner::Attrs Typed(DType dtype = DType::kFloat, KernelRunner::Attrs more = {}) {
    more.emplace_back("dtype", dtype);
    more.emplace_back("T", dtype);
    return more;
  }
  Tensor Variable(const Floats& values) {
    return run_.NewVariable(absl::StrCat("v", next_++), DType::kFloat, PartialShape::OfRank(1),
                            VectorOf<float>(values));
  }
  Floats Of(const Tensor& handle) { return ValuesOf<float>(run_.ValueOf(handle)); }

  KernelRunner run_;
  int next_ = 0;
};

#define EXPECT_INVALID(expression, text) \
  EXPECT_THAT((expression), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)))

TEST_F(VariableKernelsTest, ReadAssignAndCountUp) {
  const Tensor v = Variable({1, 2});
  ASSERT_OK_AND_ASSIGN(Tensor before, run_.One("ReadVariableOp", Typed(), {v}));
  ASSERT_THAT(run_.Op("AssignAddVariableOp", Typed(), {v, VectorOf<float>({1, 1})}), IsOk());
  ASSERT_THAT(run_.Op("AssignSubVariableOp", Typed(), {v, VectorOf<float>({0, 5})}), IsOk());
  EXPECT_EQ(Of(v), (Floats{2, -2}));
  EXPECT_EQ(ValuesOf<float>(before), (Floats{1, 2}));
  ASSERT_THAT(run_.Op("AssignVariableOp", Typed(), {v, VectorOf<float>({7, 8, 9})}), IsOk());
  EXPECT_EQ(Of(v), (Floats{7, 8, 9}));
  ASSERT_OK_AND_ASSIGN(Tensor shape, run_.One("VariableShape", {{"out_type", DType::kInt64}}, {v}));
  EXPECT_EQ(ValuesOf<int64_t>(shape), (std::vector<int64_t>{3}));
}

TEST_F(VariableKernelsTest, DtypesAndShapesAreChecked) {
  const Tensor v = Variable({1, 2});
  EXPECT_INVALID(run_.Op("AssignAddVariableOp", Typed(), {v, VectorOf<float>({1, 2, 3})}),
                 "Cannot update variable with shape [2] using a Tensor with shape [3], shapes must "
                 "be equal.");
  EXPECT_INVALID(
      run_.Op("AssignAddVariableOp", Typed(DType::kInt32), {v, VectorOf<int32_t>({1, 2})}),
      "DType of variable handle and value does not match");
  EXPECT_INVALID(run_.Op("ReadVariableOp", Typed(DType::kInt32), {v}),
                 "Trying to read variable with wrong dtype. Expected int32 got float");
  EXPECT_INVALID(run_.Op("ResourceGather", Typed(DType::kDouble), {v, VectorOf<int32_t>({0})}),
                 "Trying to read variable with wrong dtype. Expected double got float");
  EXPECT_INVALID(run_.Op("ResourceGatherNd", Typed(DType::kDouble),
                         {v, TensorOf<int32_t>(Shape({1, 1}), {0})}),
                 "Trying to read variable with wrong dtype. Expected double got float");
  EXPECT_INVALID(run_.Op("AssignVariableOp", Typed(DType::kFloat, {{"validate_shape", true}}),
                         {v, Tensor::Scalar(1.0f)}),
                 "Trying to assign to variable with tensor with wrong shape.");
  EXPECT_THAT(run_.Op("AssignAddVariableOp", Typed(DType::kString), {v, v}),
              StatusIs(absl::StatusCode::kUnimplemented));
  EXPECT_INVALID(run_.Op("ReadVariableOp", Typed(), {Tensor::Scalar(ResourceHandle{77})}), "77");
  EXPECT_EQ(Of(v), (Floats{1, 2}));
}

TEST_F(VariableKernelsTest, IntegersWrapAround) {
  const Tensor v =
      run_.NewVariable("i", DType::kInt8, PartialShape(), VectorOf<int8_t>({127, -128, 5}));
  ASSERT_THAT(
      run_.Op("AssignAddVariableOp", Typed(DType::kInt8), {v, VectorOf<int8_t>({1, -1, 2})}),
      IsOk());
  EXPECT_EQ(ValuesOf<int8_t>(run_.ValueOf(v)), (std::vector<int8_t>{-128, 127, 7}));
}

TEST_F(VariableKernelsTest, UninitializedAndDestroyed) {
  const Tensor v = run_.NewVariable("w", DType::kFloat, PartialShape(), std::nullopt);
  EXPECT_THAT(run_.Op("ReadVariableOp", Typed(), {v}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("w")));
  ASSERT_OK_AND_ASSIGN(Tensor there, run_.One("VarIsInitializedOp", {}, {v}));
  EXPECT_FALSE(there.scalar<bool>());
  ASSERT_THAT(run_.Op("AssignVariableOp", Typed(), {v, Tensor::Scalar(1.0f)}), IsOk());
  ASSERT_OK_AND_ASSIGN(there, run_.One("VarIsInitializedOp", {}, {v}));
  EXPECT_TRUE(there.scalar<bool>());
  ASSERT_THAT(run_.Op("DestroyResourceOp", {}, {v}), IsOk());
  ASSERT_OK_AND_ASSIGN(there, run_.One("VarIsInitializedOp", {}, {v}));
  EXPECT_FALSE(there.scalar<bool>());
  EXPECT_THAT(run_.Op("ReadVariableOp", Typed(), {v}), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(VariableKernelsTest, Rows) {
  const Tensor v = run_.NewVariable("m", DType::kFloat, PartialShape(),
                                    TensorOf<float>(Shape({3, 2}), {1, 2, 3, 4, 5, 6}));
  KernelRunner::Attrs attrs = Typed(DType::kFloat, {{"Tindices", DType::kInt32}});
  ASSERT_OK_AND_ASSIGN(Tensor rows,
                       run_.One("ResourceGather", attrs, {v, VectorOf<int32_t>({2, 0})}));
  EXPECT_EQ(ValuesOf<float>(rows), (Floats{5, 6, 1, 2}));
  const Tensor twice = VectorOf<int32_t>({1, 1});
  const Tensor updates = TensorOf<float>(Shape({2, 2}), {1, 1, 2, 2});
  ASSERT_THAT(run_.Op("ResourceScatterAdd", attrs, {v, twice, updates}), IsOk());
  EXPECT_EQ(Of(v), (Floats{1, 2, 6, 7, 5, 6}));
  ASSERT_THAT(
      run_.Op("ResourceScatterSub", attrs, {v, Tensor::Scalar<int32_t>(0), Tensor::Scalar(1.0f)}),
      IsOk());
  ASSERT_THAT(run_.Op("ResourceScatterUpdate", attrs, {v, twice, updates}), IsOk());
  EXPECT_EQ(Of(v), (Floats{0, 1, 2, 2, 5, 6}));
  EXPECT_INVALID(run_.Op("ResourceScatterAdd", attrs, {v, VectorOf<int32_t>({0, 3}), updates}),
                 "indices[1] = 3 is not in [0, 3)");
  EXPECT_INVALID(run_.One("ResourceGather", attrs, {v, VectorOf<int32_t>({-1})}),
                 "is not in [0, 3)");
  EXPECT_EQ(Of(v), (Floats{0, 1, 2, 2, 5, 6}));
}

TEST_F(VariableKernelsTest, AScatterIsRememberedByItsRows) {
  Tensor value = *Tensor::Allocate(run_.allocator(), DType::kFloat, Shape({1000, 2}));
  std::fill_n(value.mutable_data<float>(), 2000, 0.0f);
  const Tensor v = run_.NewVariable("m", DType::kFloat, PartialShape(), std::move(value));
  const auto rows = [&]() -> std::vector<int64_t> {
    const std::vector<ResourceChange> changes = run_.changes();
    if (changes.size() != 1 || !changes[0].by_rows) return {-1};
    return changes[0].rows;
  };
  KernelRunner::Attrs attrs = Typed(DType::kFloat, {{"Tindices", DType::kInt32}});
  ASSERT_THAT(
      run_.Op("ResourceScatterAdd", attrs, {v, VectorOf<int32_t>({7, 3, 7}), Tensor::Scalar(1.0f)}),
      IsOk());
  EXPECT_EQ(rows(), (std::vector<int64_t>{3, 7}));
  // Those that are ignored name no rows.
  KernelRunner::Attrs ignoring = attrs;
  ignoring.emplace_back("bad_indices_policy", std::string("IGNORE"));
  ASSERT_THAT(run_.Op("ResourceScatterNdAdd", ignoring,
                      {v, TensorOf<int32_t>(Shape({3, 2}), {999, 0, 5, 1, 1000, 0}),
                       VectorOf<float>({1, 2, 3})}),
              IsOk());
  EXPECT_EQ(rows(), (std::vector<int64_t>{3, 5, 7, 999}));
  EXPECT_EQ(run_.changes()[0].to_version, 3u);
  // Many rows are as good as all.
  ASSERT_OK_AND_ASSIGN(Tensor many,
                       Tensor::Allocate(run_.allocator(), DType::kInt32, Shape({600})));
  std::iota(many.mutable_data<int32_t>(), many.mutable_data<int32_t>() + 600, 0);
  ASSERT_THAT(run_.Op("ResourceScatterAdd", attrs, {v, many, Tensor::Scalar(1.0f)}), IsOk());
  EXPECT_EQ(rows(), (std::vector<int64_t>{-1}));
}

TEST_F(VariableKernelsTest, AGeneratorsStateMovesOn) {
  const Tensor state =
      run_.NewVariable("g", DType::kInt64, PartialShape(), VectorOf<int64_t>({-1, -1, 3}));
  ASSERT_OK_AND_ASSIGN(Tensor before,
                       run_.One("RngReadAndSkip", {},
                                {state, Tensor::Scalar<int32_t>(1),
                                 Tensor::Scalar<uint64_t>((uint64_t{1} << 60) + 3)}));
  EXPECT_EQ(ValuesOf<int64_t>(before), (std::vector<int64_t>{-1, -1, 3}));
  EXPECT_EQ(ValuesOf<int64_t>(run_.ValueOf(state)), (std::vector<int64_t>{767, 0, 3}));
  ASSERT_THAT(
      run_.Op("RngSkip", {}, {state, Tensor::Scalar<int64_t>(1), Tensor::Scalar<int64_t>(-2)}),
      IsOk());
  EXPECT_EQ(ValuesOf<int64_t>(run_.ValueOf(state)), (std::vector<int64_t>{255, 0, 3}));
  EXPECT_THAT(run_.Op("RngReadAndSkip", {},
                      {state, Tensor::Scalar<int32_t>(2), Tensor::Scalar<uint64_t>(1)}),
              StatusIs(absl::StatusCode::kUnimplemented));
}

// A node with seeds goes on from run to run as TensorFlow's does.
TEST_F(VariableKernelsTest, SeededNodesGoOn) {
  KernelRunner::Attrs attrs = {
      {"dtype", DType::kFloat}, {"T", DType::kInt32}, {"seed", int64_t{1}}, {"seed2", int64_t{2}}};
  ASSERT_OK_AND_ASSIGN(KernelFn kernel,
                       run_.Make("RandomUniform", attrs, {DType::kInt32}, {DType::kFloat}));
  const Floats expected[] = {{0.406396746635437f, 0.8575996160507202f, 0.05539584159851074f},
                             {0.16840732097625732f, 0.8891061544418335f, 0.5354969501495361f}};
  for (const Floats& values : expected) {
    ASSERT_OK_AND_ASSIGN(std::vector<Tensor> outputs,
                         run_.Run(kernel, {VectorOf<int32_t>({3})}, 1));
    EXPECT_EQ(ValuesOf<float>(outputs[0]), values);
  }
}

// Four swaps of five rows take one group of four numbers, not two.
TEST_F(VariableKernelsTest, SeededShufflesGoOn) {
  KernelRunner::Attrs attrs = {{"T", DType::kInt32}, {"seed", int64_t{1}}, {"seed2", int64_t{2}}};
  ASSERT_OK_AND_ASSIGN(KernelFn kernel,
                       run_.Make("RandomShuffle", attrs, {DType::kInt32}, {DType::kInt32}));
  const std::vector<int32_t> expected[] = {{4, 0, 2, 1, 3}, {1, 3, 0, 4, 2}, {3, 4, 1, 2, 0}};
  for (const std::vector<int32_t>& values : expected) {
    ASSERT_OK_AND_ASSIGN(std::vector<Tensor> outputs,
                         run_.Run(kernel, {VectorOf<int32_t>({0, 1, 2, 3, 4})}, 1));
    EXPECT_EQ(ValuesOf<int32_t>(outputs[0]), values);
  }
}

TEST_F(VariableKernelsTest, ProductsOfUnsignedShortsWrapAround) {
  const KernelRunner::Attrs attrs = {{"dtype", DType::kUint16}, {"Tindices", DType::kInt32}};
  const Tensor v = run_.NewVariable("v", DType::kUint16, PartialShape(),
                                    VectorOf<uint16_t>({65535, 65535, 300}));
  ASSERT_THAT(run_.Op("ResourceScatterMul", attrs,
                      {v, VectorOf<int32_t>({0, 2, 2}), VectorOf<uint16_t>({65535, 300, 300})}),
              IsOk());
  EXPECT_EQ(ValuesOf<uint16_t>(run_.ValueOf(v)),
            (std::vector<uint16_t>{1, 65535, static_cast<uint16_t>(27000000)}));
}

// What a call that is to stop had begun is not assigned, and what it changes in place it finishes.
TEST_F(VariableKernelsTest, AStopLeavesNoVariableHalfWritten) {
  const int64_t n = int64_t{1} << 20;
  Tensor ones = *Tensor::Allocate(ProcessAllocator(), DType::kFloat, Shape({n}));
  for (float& x : ones.mutable_span<float>()) x = 1;
  const Tensor v =
      run_.NewVariable("v", DType::kFloat, PartialShape(), *ones.Clone(ProcessAllocator()));
  const KernelRunner::Attrs attrs = {{"dtype", DType::kFloat}};
  run_.stop().Cancel();
  const StopScope scope(&run_.stop());
  ASSERT_THAT(run_.Op("AssignAddVariableOp", attrs, {v, ones}), IsOk());
  const auto all_twos = [&] {
    const Tensor value = run_.ValueOf(v);
    const auto values = value.span<float>();
    return std::all_of(values.begin(), values.end(), [](float x) { return x == 2; });
  };
  EXPECT_TRUE(all_twos());
  EXPECT_TRUE(WorkIsCut());
  EXPECT_THAT(run_.Op("AssignAddVariableOp", attrs, {v, ones}),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(run_.Op("AssignVariableOp", attrs, {v, ones}),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_TRUE(all_twos());
}

Tensor Filled(int64_t n, float x) {
  Tensor tensor = *Tensor::Allocate(ProcessAllocator(), DType::kFloat, Shape({n}));
  std::fill_n(tensor.mutable_data<float>(), n, x);
  return tensor;
}

bool AllAre(const Tensor& tensor, float x) {
  const auto values = tensor.span<float>();
  return std::all_of(values.begin(), values.end(), [x](float value) { return value == x; });
}

// Of a delta that nobody else needs, in its memory; else in a copy of the variable.
TEST_F(VariableKernelsTest, AStopReachesALargeSum) {
  const int64_t n = int64_t{12} << 20;
  const Tensor v = run_.NewVariable("v", DType::kFloat, PartialShape(), Filled(n, 3));
  const KernelRunner::Attrs attrs = {{"dtype", DType::kFloat}};
  const Tensor shared = Filled(n, 2);
  ASSERT_THAT(run_.Op("AssignAddVariableOp", attrs, {v, shared}), IsOk());
  ASSERT_THAT(run_.Op("AssignSubVariableOp", attrs, Owned(v, Filled(n, 1))), IsOk());
  EXPECT_TRUE(AllAre(run_.ValueOf(v), 4));
  EXPECT_INVALID(run_.Op("AssignSubVariableOp", attrs, Owned(v, Filled(n + 1, 1))),
                 "shapes must be equal");
  const bool both[] = {false, true};
  for (const bool owned : both) {
    StopFlag stop;
    stop.Cancel();
    const StopScope scope(&stop);
    EXPECT_THAT(run_.Op("AssignSubVariableOp", attrs,
                        owned ? Owned(v, Filled(n, 1)) : std::vector<Tensor>{v, shared}),
                StatusIs(absl::StatusCode::kCancelled));
    EXPECT_TRUE(AllAre(run_.ValueOf(v), 4)) << owned;
  }
}

// One that is not near does not cost a copy.
TEST_F(VariableKernelsTest, ALargeSumIsMadeInPlaceWhereNoStopIsNear) {
  const int64_t n = int64_t{12} << 20;
  const Tensor v = run_.NewVariable("v", DType::kFloat, PartialShape(), Filled(n, 3));
  const Tensor shared = Filled(n, 2);
  const void* before = run_.ValueOf(v).raw();
  StopFlag stop(absl::Now() + absl::Minutes(1));
  const StopScope scope(&stop);
  ASSERT_THAT(run_.Op("AssignAddVariableOp", {{"dtype", DType::kFloat}}, {v, shared}), IsOk());
  EXPECT_EQ(run_.ValueOf(v).raw(), before);
}

// All the same the change is made, in place.
TEST(VariableKernels, AChangeForWhoseCopyThereIsNoMemoryIsMadeInPlace) {
  KernelRunner run(size_t{1} << 20);
  const int64_t n = int64_t{12} << 20;
  const Tensor v = run.NewVariable("v", DType::kFloat, PartialShape(), Filled(n, 3));
  const Tensor shared = Filled(n, 2);
  const void* before = run.ValueOf(v).raw();
  StopFlag stop;
  stop.Cancel();
  const StopScope scope(&stop);
  ASSERT_THAT(run.Op("AssignAddVariableOp", {{"dtype", DType::kFloat}}, {v, shared}), IsOk());
  Tensor indices = *Tensor::Allocate(ProcessAllocator(), DType::kInt32, Shape({n}));
  std::iota(indices.mutable_data<int32_t>(), indices.mutable_data<int32_t>() + n, 0);
  ASSERT_THAT(run.Op("ResourceScatterAdd", {{"dtype", DType::kFloat}, {"Tindices", DType::kInt32}},
                     {v, indices, shared}),
              IsOk());
  EXPECT_TRUE(AllAre(run.ValueOf(v), 7));
  EXPECT_EQ(run.ValueOf(v).raw(), before);
}

TEST_F(VariableKernelsTest, AStopReachesManyScatteredUpdates) {
  const int64_t n = int64_t{1} << 21;
  const Tensor v = run_.NewVariable("v", DType::kFloat, PartialShape(), VectorOf<float>({1, 2}));
  Tensor indices = *Tensor::Allocate(ProcessAllocator(), DType::kInt32, Shape({n}));
  for (int64_t i = 0; i < n; ++i) indices.mutable_span<int32_t>()[i] = i % 4 == 0;
  const KernelRunner::Attrs attrs = Typed(DType::kFloat, {{"Tindices", DType::kInt32}});
  ASSERT_THAT(run_.Op("ResourceScatterAdd", attrs, {v, indices, Tensor::Scalar(1.0f)}), IsOk());
  EXPECT_EQ(Of(v), (Floats{1 + 0.75f * n, 2 + 0.25f * n}));
  run_.stop().Cancel();
  const StopScope scope(&run_.stop());
  EXPECT_THAT(run_.Op("ResourceScatterAdd", attrs, {v, indices, Tensor::Scalar(1.0f)}),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(Of(v), (Floats{1 + 0.75f * n, 2 + 0.25f * n}));
}

}  // namespace
}  // namespace formwork::testing
