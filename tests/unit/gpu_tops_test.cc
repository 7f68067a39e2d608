// What GPUs do of TopKV2 and InTopKV2 (gpu/top_functions.h), thread by thread, on the host against
// the op cases.

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/register_ops.h"
#include "gpu/top_items.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

namespace element = formwork_element;
using Way = TopPlan::Way;

template <typename T, typename Index>
void RunTop(Way way, const element::TopRows<T, Index>& rows) {
  using Key = typename element::TopRows<T, Index>::Key;
  const auto run = [](const auto& item, uint64_t n) {
    for (uint64_t i = n; i-- > 0;) item(i);  // In any order.
  };
  if (way == Way::kByRank) return run(element::RankItem<T, Index>{rows}, rows.rows * rows.n);
  element::TopShared<Key> shared;
  for (uint64_t row = rows.rows; row-- > 0;) element::TopOfRow(rows, row, shared);
  if (way == Way::kByBlock) return;
  const uint64_t candidates = rows.rows * rows.padded;
  for (const OrderStep& step : OrderSteps(rows.padded)) {
    const element::OrderItem<Key> item{rows.picked, rows.padded, step.size, step.stride};
    if (step.by_chunks) {
      for (uint64_t i = candidates / element::kTopSorted; i-- > 0;) {
        element::OrderChunk(item, i, step.from, shared.best);
      }
    } else {
      run(item, candidates / 2);
    }
  }
  run(element::PickedItem<T, Index>{rows}, rows.rows * rows.k);
}

// Whichever way a GPU would go: more candidates than a block orders are none of a row.
TopPlan Forced(Way way, int64_t k) {
  uint64_t padded = 1;
  while (padded < static_cast<uint64_t>(k)) padded *= 2;
  return {way, way == Way::kByNetwork ? std::max(padded, 4 * element::kTopSorted) : padded};
}

template <Way way>
absl::StatusOr<KernelFn> MakeTop(KernelInit& init) {
  return KernelFn([index = init.output_dtypes()[1]](KernelContext& ctx) -> absl::Status {
    const Tensor& x = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const TopKGeometry geometry,
                              PrepareTopK(x.shape().dims(), &ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.output));
    FORMWORK_ASSIGN_OR_RETURN(Tensor values, Tensor::Allocate(ctx.allocator(), x.dtype(), shape));
    FORMWORK_ASSIGN_OR_RETURN(Tensor indices, Tensor::Allocate(ctx.allocator(), index, shape));
    if (shape.num_elements() > 0) {
      const TopPlan plan = Forced(way, geometry.k);
      const auto rows = static_cast<uint64_t>(shape.num_elements() / geometry.k);
      std::vector<element::Bytes16> picked(plan.picked(rows) * CandidateBytes(x.dtype()) /
                                           sizeof(element::Bytes16));
      const auto run = [&](auto t, auto i) {
        RunTop(way, TopRowsOf<decltype(t), decltype(i)>(geometry, plan, x, values, indices,
                                                        picked.empty() ? nullptr : picked.data()));
      };
      switch (x.dtype()) {
        FORMWORK_REAL_CASES(index == DType::kInt16   ? run(T(), int16_t())
                            : index == DType::kInt32 ? run(T(), int32_t())
                                                     : run(T(), int64_t());
                            break)
        default:
          return Internal("no number");
      }
    }
    ctx.SetOutput(0, std::move(values));
    ctx.SetOutput(1, std::move(indices));
    return absl::OkStatus();
  });
}

template <typename Index>
void RunInTop(const element::InTopRows<Index>& rows) {
  element::InTopShared shared;
  for (uint64_t row = rows.rows; row-- > 0;) element::InTopOfRow(rows, row, shared);
}
absl::Status InTop(KernelContext& ctx) {
  const Tensor& predictions = ctx.input(0);
  const Tensor& targets = ctx.input(1);
  const Tensor& k = ctx.input(2);
  FORMWORK_RETURN_IF_ERROR(
      CheckInTopK(predictions.shape().dims(), targets.shape().dims(), k.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor out,
                            Tensor::Allocate(ctx.allocator(), DType::kBool, targets.shape()));
  if (targets.dtype() == DType::kInt32) {
    RunInTop(InTopRowsOf<int32_t>(predictions, targets, k, out));
  } else {
    RunInTop(InTopRowsOf<int64_t>(predictions, targets, k, out));
  }
  ctx.SetOutput(0, std::move(out));
  return absl::OkStatus();
}
absl::StatusOr<KernelFn> MakeInTop(KernelInit&) { return KernelFn(&InTop); }

template <Way way>
void RunCases() {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  kernels.Add("TopKV2", &MakeTop<way>);
  kernels.Add("InTopKV2", &MakeInTop);
  std::map<std::string, int> tried = RunGpuCases(
      {.files = {"nn"}, .edit = [](OpCase& of) { return !IsOrderOpen(of); }}, ops, kernels);
  EXPECT_GT(tried["TopKV2"], 30);
  EXPECT_GT(tried["InTopKV2"], 5);
}

TEST(GpuTopsTest, GiveWhatTensorFlowDoesByRank) { RunCases<Way::kByRank>(); }
TEST(GpuTopsTest, GiveItByBlock) { RunCases<Way::kByBlock>(); }
TEST(GpuTopsTest, GiveItByNetwork) { RunCases<Way::kByNetwork>(); }

// Rows of several chunks, with many equal elements, against a stable sort.
TEST(GpuTopsTest, LongRowsAreInOrder) {
  constexpr int64_t n = 5000;
  for (const int32_t values : {1, 7, 1 << 20}) {
    std::vector<float> x;
    for (int64_t i = 0; i < 2 * n; ++i) {
      x.push_back(static_cast<float>(static_cast<int32_t>(i * i % 65537 * 37 % values) - 3));
    }
    for (const int64_t k : {1, 2, 1000, 1024, 1025, 3000, 5000}) {
      ASSERT_OK_AND_ASSIGN(const TopPlan plan, PlanTop(n, k));
      EXPECT_EQ(plan.way, k <= 1024 ? Way::kByBlock : Way::kByNetwork);
      std::vector<float> best(static_cast<size_t>(2 * k));
      std::vector<int32_t> indices(static_cast<size_t>(2 * k));
      std::vector<element::Candidate<uint32_t>> picked(plan.picked(2));
      RunTop(plan.way, element::TopRows<float, int32_t>{x.data(), best.data(), indices.data(),
                                                        picked.empty() ? nullptr : picked.data(), 2,
                                                        n, static_cast<uint64_t>(k), plan.padded,
                                                        /*nan_first=*/true});
      for (int64_t row = 0; row < 2; ++row) {
        const float* const of = x.data() + row * n;
        std::vector<int32_t> order(n);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [of](int32_t a, int32_t b) { return of[a] > of[b]; });
        for (int64_t i = 0; i < k; ++i) {
          const auto at = static_cast<size_t>(row * k + i);
          ASSERT_EQ(indices[at], order[static_cast<size_t>(i)]) << values << " " << k << " " << i;
          ASSERT_EQ(best[at], of[indices[at]]);
        }
      }
    }
  }
}

TEST(GpuTopsTest, KeysAreOrderedAsNumbersAre) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float ordered[] = {-infinity, -3e38f, -1, -1e-45f, 0, 1e-45f, 1, 3e38f, infinity};
  for (size_t i = 1; i < std::size(ordered); ++i) {
    EXPECT_LT(element::KeyOf(ordered[i - 1], true), element::KeyOf(ordered[i], true));
  }
  EXPECT_EQ(element::KeyOf(-0.0, true), element::KeyOf(0.0, true));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float any : {nan, -nan}) {
    EXPECT_GT(element::KeyOf(any, true), element::KeyOf(infinity, true));
    EXPECT_LT(element::KeyOf(any, false), element::KeyOf(-infinity, false));
  }
  EXPECT_LT(element::KeyOf(int8_t{-128}, true), element::KeyOf(int8_t{-1}, true));
  EXPECT_LT(element::KeyOf(int64_t{-1}, true), element::KeyOf(int64_t{0}, true));
  EXPECT_LT(element::KeyOf(uint16_t{1}, true), element::KeyOf(uint16_t{65535}, true));
}

TEST(GpuTopsTest, RowsLongerThanPlacesAreTheHosts) {
  EXPECT_OK(PlanTop((int64_t{1} << 32) - 2, 5));
  EXPECT_THAT(PlanTop((int64_t{1} << 32) - 1, 5), StatusIs(absl::StatusCode::kUnimplemented));
}

}  // namespace
}  // namespace formwork::testing
