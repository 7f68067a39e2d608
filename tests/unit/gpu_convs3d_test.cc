// What GPUs do of convolutions of volumes (gpu/conv3d_functions.h), stage by stage and item by
// item, on the host against the op cases. Products are made here.

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/kernel.h"
#include "core/ops/register_ops.h"
#include "gpu/conv3d_items.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"
#include "tests/unit/gpu_products.h"

namespace formwork::testing {
namespace {

enum class Kind { kForward, kInput, kFilter };

template <typename E>
absl::Status RunAs(Kind kind, const Conv3dShape& shape, const PatchPlan& plan, const char* first,
                   const char* second, char* out, char* memory) {
  switch (kind) {
    case Kind::kForward:
      return RunConvByPatches(shape, plan, first, second, nullptr, out, memory, kRun,
                              Multiplying<E>(false, false));
    case Kind::kInput:
      return RunConvInputByPatches<E>(shape, plan, first, second, out, memory, kRun,
                                      Multiplying<E>(false, true));
    default:
      return RunConvFilterByPatches(shape, plan, first, second, out, memory, kRun,
                                    Multiplying<E>(true, false));
  }
}

// `rows`: of patches at once, at most; 0: as a GPU has them.
template <Kind kKind, int64_t rows>
absl::StatusOr<KernelFn> Make(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const Conv3dAttrs attrs, Conv3dAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([attrs, dtype](KernelContext& ctx) -> absl::Status {
    const auto dims = [&ctx](int i) { return ctx.input(i).shape().dims(); };
    FORMWORK_ASSIGN_OR_RETURN(
        const Conv3dShape s,
        kKind == Kind::kForward ? PrepareConv3d(attrs, dims(0), dims(1))
        : kKind == Kind::kInput
            ? PrepareConv3dInputGradient(attrs, ctx.input(0), dims(1), dims(2))
            : PrepareConv3dFilterGradient(attrs, dims(0), ctx.input(1), dims(2)));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape,
                              Shape::Make(kKind == Kind::kForward ? s.output_dims()
                                          : kKind == Kind::kInput ? s.input_dims()
                                                                  : s.filter_dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, ZeroTensor(ctx.allocator(), dtype, shape));
    std::optional<PatchPlan> plan = PlanConv3d(s, DTypeSize(dtype));
    if (plan) {
      if (rows > 0 && !plan->are_images) {
        plan->chunk = std::min(rows, plan->rows);
        if (plan->chunk > plan->rows_of_image) plan->chunk -= plan->chunk % plan->rows_of_image;
      }
      Aligned first(ctx.input(kKind == Kind::kInput ? 1 : 0));
      Aligned second(ctx.input(kKind == Kind::kForward ? 1 : 2)), to(out);
      std::vector<element::Bytes16> memory(plan->MemoryBytes() / 16 + 1, {{~0ull, ~0ull}});
      const auto run = [&](auto e) {
        return RunAs<decltype(e)>(kKind, s, *plan, first.data(), second.data(), to.data(),
                                  reinterpret_cast<char*>(memory.data()));
      };
      switch (dtype) {
        FORMWORK_FLOAT_CASES(FORMWORK_RETURN_IF_ERROR(run(T())); break)
        default:
          return Internal("no float");
      }
      to.CopyTo(out);
    }
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

template <int64_t rows>
void RunCases() {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  kernels.Add("Conv3D", &Make<Kind::kForward, rows>);
  kernels.Add("Conv3DBackpropFilterV2", &Make<Kind::kFilter, rows>);
  kernels.Add("Conv3DBackpropInputV2", &Make<Kind::kInput, rows>);
  std::map<std::string, int> tried = RunGpuCases({.files = {"conv3d"}}, ops, kernels);
  for (const std::string& op : kernels.Names()) EXPECT_GT(tried[op], 10) << op;
}

TEST(GpuConvs3dTest, GiveWhatTensorFlowDoes) { RunCases<0>(); }
// Of half an image at once, and of some images.
TEST(GpuConvs3dTest, GiveItInChunks) {
  RunCases<3>();
  RunCases<50>();
}

}  // namespace
}  // namespace formwork::testing
