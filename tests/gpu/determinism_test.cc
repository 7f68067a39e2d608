// RequireDeterminism: the ops whose kernels are of an open order are the host's, and what is left
// to a GPU gives the same bits each time. The first needs no GPU.

#include <algorithm>
#include <cstring>
#include <iterator>

#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/register_ops.h"
#include "tests/gpu/cuda_engine.h"

namespace formwork::testing {
namespace {

constexpr const char* kOfOpenOrder[] = {"CropAndResizeGradBoxes",
                                        "CropAndResizeGradImage",
                                        "DenseBincount",
                                        "ResizeBilinearGrad",
                                        "ResizeNearestNeighborGrad",
                                        "ResourceScatterAdd",
                                        "ResourceScatterMax",
                                        "ResourceScatterMin",
                                        "ResourceScatterMul",
                                        "ResourceScatterNdAdd",
                                        "ResourceScatterNdMax",
                                        "ResourceScatterNdMin",
                                        "ResourceScatterNdSub",
                                        "ResourceScatterNdUpdate",
                                        "ResourceScatterSub",
                                        "ResourceScatterUpdate",
                                        "ScatterNd",
                                        "SparseSegmentMeanGrad",
                                        "SparseSegmentSqrtNGrad",
                                        "SparseSegmentSumGrad",
                                        "TensorScatterAdd",
                                        "TensorScatterMax",
                                        "TensorScatterMin",
                                        "TensorScatterSub",
                                        "TensorScatterUpdate",
                                        "UnsortedSegmentMax",
                                        "UnsortedSegmentMin",
                                        "UnsortedSegmentProd",
                                        "UnsortedSegmentSum"};

class DeterminismTest : public CudaEngineTest {
 protected:
  void SetUp() override { RequireDeterminism(true); }
  void TearDown() override {
    CudaEngineTest::TearDown();
    RequireDeterminism(false);
  }
  static std::vector<std::string> GpuKernels() {
    OpRegistry ops;
    RegisterOps(ops);
    KernelRegistry kernels(ops);
    RegisterCudaKernels(kernels);
    return kernels.Names();
  }
};

TEST_F(DeterminismTest, OpsOfOpenOrderAreTheHosts) {
  const std::vector<std::string> with = GpuKernels();
  RequireDeterminism(false);
  const std::vector<std::string> without = GpuKernels();
  EXPECT_TRUE(std::includes(without.begin(), without.end(), with.begin(), with.end()));
  std::vector<std::string> missing;
  std::set_difference(without.begin(), without.end(), with.begin(), with.end(),
                      std::back_inserter(missing));
  EXPECT_THAT(missing, ::testing::ElementsAreArray(kOfOpenOrder));

  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry of_host(ops);
  RegisterCpuKernels(of_host);
  for (const char* op : kOfOpenOrder) EXPECT_NE(of_host.Find(op), nullptr) << op;
}

// Many rows for each element, some of them large: another order would give other bits. With a
// product whose sums are worth being split.
TEST_F(DeterminismTest, AGpuGivesTheSameBitsEachTime) {
  if (!StartOnGpu()) return;
  constexpr int64_t kRows = 20'000, kColumns = 64, kPlaces = 7;
  const Shape places({kPlaces, kColumns});
  ASSERT_OK(
      engine_->CreateVariable("ns", "v", DType::kFloat, places,
                              TensorOf<float>(places, std::vector<float>(kPlaces * kColumns, 0))));
  ASSERT_OK_AND_ASSIGN(const Registered made, Register("f", R"(
    x = Placeholder dtype=float
    i = Placeholder dtype=int32
    v = Placeholder dtype=resource
    count = Const int32[] 7
    one = Const int32[] 1
    shape = Const int32[2] 7 64
    nought = Const float[] 0
    zeros = Fill(shape, nought) T=float index_type=int32
    rows = ExpandDims(i, one) T=int32 Tdim=int32
    a = AssignVariableOp(v, zeros) dtype=float
    b = ResourceScatterAdd(v, i, x, ^a) dtype=float Tindices=int32
    in_variable = ReadVariableOp(v, ^b) dtype=float
    summed = UnsortedSegmentSum(x, i, count) T=float Tindices=int32 Tnumsegments=int32
    added = ScatterNd(rows, x, shape) T=float Tindices=int32
    last = TensorScatterUpdate(zeros, rows, x) T=float Tindices=int32
    product = MatMul(x, x) T=float transpose_a=true transpose_b=false
    rows_dim = Const int32[] 0
    columns = Sum(x, rows_dim) T=float Tidx=int32 keep_dims=false
  )",
                                                       {Spec("x:0"), Spec("i:0", DType::kInt32)},
                                                       {"in_variable:0", "summed:0", "added:0",
                                                        "last:0", "product:0", "columns:0"},
                                                       {{"v:0", "v"}}, {"a", "b"}));
  std::vector<float> values(kRows * kColumns);
  for (size_t k = 0; k < values.size(); ++k) {
    values[k] = static_cast<float>(k * 7919 % 1009) * (k % 13 == 0 ? 1e6f : 1e-3f);
  }
  std::vector<int32_t> indices(kRows);
  for (size_t k = 0; k < indices.size(); ++k) indices[k] = static_cast<int32_t>(k * 31 % kPlaces);
  const Tensor x = TensorOf<float>(Shape({kRows, kColumns}), values);
  const Tensor i = VectorOf<int32_t>(indices);
  const CallResult first = Run(made.function.id, Owned(Tensor(x), Tensor(i)));
  ASSERT_OK(first.status);
  for (int round = 0; round < 10; ++round) {
    const CallResult again = Run(made.function.id, Owned(Tensor(x), Tensor(i)));
    ASSERT_OK(again.status);
    for (size_t k = 0; k < first.outputs.size(); ++k) {
      const Tensor& wanted = first.outputs[k].tensor;
      ASSERT_EQ(again.outputs[k].tensor.bytes(), wanted.bytes());
      EXPECT_EQ(std::memcmp(again.outputs[k].tensor.raw(), wanted.raw(), wanted.bytes()), 0) << k;
    }
  }
  std::vector<std::string> on_host;
  for (const auto& [op, nodes] : engine_->Stats().fallbacks) on_host.push_back(op);
  EXPECT_THAT(on_host, ::testing::IsSupersetOf({"ResourceScatterAdd", "ScatterNd",
                                                "TensorScatterUpdate", "UnsortedSegmentSum"}));
  EXPECT_THAT(on_host, ::testing::Not(::testing::Contains("MatMul")));
}

}  // namespace
}  // namespace formwork::testing
