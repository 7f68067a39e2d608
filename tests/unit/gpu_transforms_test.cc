// What GPUs do of projective transforms of images (gpu/transform_functions.h), item by item, on the
// host against the op cases.

#include <map>

#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/register_ops.h"
#include "gpu/transform_items.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

absl::StatusOr<KernelFn> MakeTransform(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const TransformAttrs attrs, TransformAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.input_dtypes()[0];
  FORMWORK_RETURN_IF_ERROR(TransformItemName(dtype).status());
  return KernelFn([attrs, dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const TransformGeometry s, PrepareTransformCall(ctx));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape,
                              Shape::Make({s.batch, s.out_rows, s.out_cols, s.channels}));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), dtype, shape));
    const auto run = [&](auto t) {
      const auto item = TransformItemOf<decltype(t)>(attrs, s, ctx, out);
      for (int64_t i = out.num_elements(); i-- > 0;) item(static_cast<uint64_t>(i));
    };
    switch (dtype) {
      FORMWORK_REAL_CASES(run(T()); break)
      default:
        return Internal("no number");
    }
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

TEST(GpuTransformsTest, GiveWhatTensorFlowDoes) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  kernels.Add("ImageProjectiveTransformV2", &MakeTransform);
  kernels.Add("ImageProjectiveTransformV3", &MakeTransform);
  std::map<std::string, int> tried = RunGpuCases({.files = {"image"}}, ops, kernels);
  EXPECT_GT(tried["ImageProjectiveTransformV2"], 0);
  EXPECT_GT(tried["ImageProjectiveTransformV3"], 20);
}

}  // namespace
}  // namespace formwork::testing
