// What GPUs do of running sums and the like (gpu/scan_functions.h), item by item, on the host
// against the op cases: in one piece, and in chunks of chunks.

#include <cstring>
#include <map>
#include <type_traits>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/register_ops.h"
#include "gpu/scan_items.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

namespace element = formwork_element;

const ScanOp& OpNamed(absl::string_view name) {
  for (const ScanOp& op : ScanOps()) {
    if (op.op == name) return op;
  }
  return ScanOps()[0];
}

template <typename Op, typename E>
void RunScan(const ScanPlan& plan, const ScanAttrs& attrs, E first, const void* x, void* out) {
  std::vector<E> totals(plan.totals() + 1, E());
  const E guard = totals.back();
  for (const auto& step : ScanSteps<E, Op>(plan, attrs, first, x, out, totals.data(), sizeof(E))) {
    for (uint64_t i = step.n; i-- > 0;) step.item(i);  // In any order.
  }
  EXPECT_EQ(std::memcmp(&guard, &totals.back(), sizeof(E)), 0);
}

// `chunk`: how long one is, whatever the number of rows; 0: as a GPU has it.
template <typename Op, int chunk>
absl::StatusOr<KernelFn> MakeScan(KernelInit& init) {
  const ScanOp& op = OpNamed(init.op().name);
  const DType dtype = init.input_dtypes()[0];
  FORMWORK_ASSIGN_OR_RETURN(const ScanAttrs attrs, ScanAttrs::FromAttrs(init.attrs()));
  if (!ScanItemName(op, dtype).ok()) return Unimplemented("a dtype that a GPU leaves to the host");
  return KernelFn([&op, dtype, attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& x = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const int axis, PrepareScan(x.rank(), ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), dtype, x.shape()));
    if (x.num_elements() > 0) {
      const ReduceExtent extent = ExtentAlong(x.shape().dims(), axis);
      const ScanPlan plan = chunk == 0 ? PlanScan(extent) : PlanScan(extent, ~0ull, chunk);
      const auto run = [&](auto t) {
        RunScan<Op>(plan, attrs, FirstOfScan<decltype(t)>(op), x.raw(), out.mutable_raw());
      };
      if constexpr (std::is_same_v<Op, element::ScanLogSumExp>) {
        switch (dtype) {
          FORMWORK_FLOAT_CASES(run(T()); break)
          default:
            return Internal("no float");
        }
      } else {
        switch (dtype) {
          FORMWORK_REAL_CASES(run(T()); break)
          default:
            return Internal("no number");
        }
      }
    }
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

template <int chunk>
void RunCases() {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  kernels.Add("Cumsum", &MakeScan<element::ScanSum, chunk>);
  kernels.Add("Cumprod", &MakeScan<element::ScanProduct, chunk>);
  kernels.Add("CumulativeLogsumexp", &MakeScan<element::ScanLogSumExp, chunk>);
  std::map<std::string, int> tried =
      RunGpuCases({.files = {"reduction"}, .some_are_hosts = true}, ops, kernels);
  for (const std::string& op : kernels.Names()) EXPECT_GT(tried[op], 4) << op;
}

TEST(GpuScansTest, GiveWhatTensorFlowDoes) { RunCases<0>(); }
TEST(GpuScansTest, GiveItInChunks) { RunCases<2>(); }

// Lengths on both sides of what a chunk, and a chunk of chunks, takes.
TEST(GpuScansTest, ChunksOfChunksAddUp) {
  for (const int64_t length : {1, 6, 7, 9, 10, 26, 27, 28, 100, 333}) {
    for (const int64_t inner : {1, 3}) {
      for (const int way : {0, 1, 2, 3}) {
        const ScanAttrs attrs{.exclusive = (way & 1) != 0, .reverse = (way & 2) != 0};
        const ReduceExtent extent{2, length, inner};
        std::vector<int32_t> x, got(static_cast<size_t>(2 * length * inner), -1);
        for (size_t i = 0; i < got.size(); ++i) x.push_back(static_cast<int32_t>(i * i % 101));
        const ScanPlan plan = PlanScan(extent, kManyRows, 3);
        EXPECT_EQ(plan.levels.size() > 1, length > 6);
        RunScan<element::ScanSum>(plan, attrs, 0, x.data(), got.data());
        for (int64_t column = 0; column < 2 * inner; ++column) {
          int32_t running = 0;
          for (int64_t step = 0; step < length; ++step) {
            const int64_t r = attrs.reverse ? length - 1 - step : step;
            const auto at =
                static_cast<size_t>((column / inner * length + r) * inner + column % inner);
            const int32_t was = running;
            running += x[at];
            ASSERT_EQ(got[at], attrs.exclusive ? was : running) << length << " " << way;
          }
        }
      }
    }
  }
}

TEST(GpuScansTest, ManyRowsAreNotChunked) {
  EXPECT_EQ(PlanScan({1 << 14, 1 << 20, 1}).levels.size(), 1u);
  EXPECT_EQ(PlanScan({1, 128, 100}).levels.size(), 1u);
  const ScanPlan plan = PlanScan({1, 1 << 20, 1});
  ASSERT_EQ(plan.levels.size(), 4u);
  EXPECT_EQ(plan.levels[0].chunks, 1u << 14);
  EXPECT_EQ(plan.totals(), (1u << 14) + (1u << 8) + (1u << 2));
}

}  // namespace
}  // namespace formwork::testing
