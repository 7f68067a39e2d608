// What GPUs do of DynamicStitch (gpu/index_items.h), item by item, on the host against the op
// cases.

#include <map>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/register_ops.h"
#include "gpu/index_items.h"
#include "gpu/moves.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

absl::StatusOr<KernelFn> MakeStitch(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  if (!IsPlainData(dtype)) return Unimplemented("a dtype that a GPU leaves to the host");
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const StitchPlan plan, PlanStitch(ctx));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(plan.output));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), dtype, shape));
    if (out.bytes() > 0) {
      // What is not written shows.
      std::memset(out.mutable_raw(), plan.leaves_gaps ? 0 : 0xff, out.bytes());
      FORMWORK_ASSIGN_OR_RETURN(const auto rows, IndexRowsOf(shape, 1));
      const size_t slice = out.bytes() / static_cast<size_t>(shape.dim(0));
      const int32_t* to = plan.rows.data();
      const int n = ctx.num_inputs() / 2;
      for (int i = 0; i < n; ++i) {
        const auto count = static_cast<uint64_t>(ctx.input(i).num_elements());
        WithUnit(DTypeSize(dtype), [&](auto e) {
          const auto item = StitchItemOf<decltype(e)>(rows, slice, out, to, ctx.input(n + i));
          for (uint64_t k = count * item.inner; k-- > 0;) item(k);  // In any order.
        });
        to += count;
      }
    }
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

TEST(GpuStitchTest, GivesWhatTensorFlowDoes) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  kernels.Add("DynamicStitch", &MakeStitch);
  std::map<std::string, int> tried =
      RunGpuCases({.files = {"gather"}, .some_are_hosts = true}, ops, kernels);
  EXPECT_GT(tried["DynamicStitch"], 5);
}

}  // namespace
}  // namespace formwork::testing
