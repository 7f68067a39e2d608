// What GPUs do of values that are looked up among sorted ones (gpu/search_functions.h), item by
// item, on the host against the op cases.

#include <map>

#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/gather.h"
#include "core/ops/register_ops.h"
#include "gpu/search_items.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

template <bool kUpper>
absl::StatusOr<KernelFn> MakeBound(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0], index = init.output_dtypes()[0];
  if (!SearchItemName(init.op().name, dtype, index).ok()) {
    return Unimplemented("a dtype that a GPU leaves to the host");
  }
  return KernelFn([dtype, index](KernelContext& ctx) -> absl::Status {
    const Tensor& sorted = ctx.input(0);
    const Tensor& values = ctx.input(1);
    FORMWORK_RETURN_IF_ERROR(CheckBound(sorted.shape().dims(), values.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), index, values.shape()));
    const auto run = [&](auto t) {
      using T = decltype(t);
      if (index == DType::kInt32) {
        RunItems(BoundItemOf<T, int32_t>(sorted, values, kUpper, out), values.num_elements());
      } else {
        RunItems(BoundItemOf<T, int64_t>(sorted, values, kUpper, out), values.num_elements());
      }
    };
    switch (dtype) {
      FORMWORK_REAL_CASES(run(T()); break)
      FORMWORK_CASE(bool, run(T()); break)
      default:
        return Internal("no number");
    }
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeBucketize(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(BucketizeAttrs attrs, BucketizeAttrs::FromAttrs(init.attrs()));
  return KernelFn([boundaries = std::move(attrs.boundaries)](KernelContext& ctx) -> absl::Status {
    const Tensor& values = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(Tensor out,
                              Tensor::Allocate(ctx.allocator(), DType::kInt32, values.shape()));
    switch (values.dtype()) {
      FORMWORK_REAL_CASES(
          RunItems(BucketItemOf<T>(boundaries.data(), boundaries.size(), values, out),
                   values.num_elements());
          break)
      default:
        return Internal("no number");
    }
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

TEST(GpuSearchesTest, GiveWhatTensorFlowDoes) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  kernels.Add("Bucketize", &MakeBucketize);
  kernels.Add("LowerBound", &MakeBound<false>);
  kernels.Add("UpperBound", &MakeBound<true>);
  std::map<std::string, int> tried =
      RunGpuCases({.files = {"gather"}, .some_are_hosts = true}, ops, kernels);
  for (const std::string& op : kernels.Names()) EXPECT_GT(tried[op], 1) << op;
}

}  // namespace
}  // namespace formwork::testing
