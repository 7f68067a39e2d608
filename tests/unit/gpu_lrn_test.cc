// What GPUs do of local response normalisation (gpu/lrn_functions.h), item by item, on the host
// against the op cases.

#include <map>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/register_ops.h"
#include "gpu/lrn_items.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

namespace element = formwork_element;

template <typename E>
void Forward(KernelContext& ctx, const LrnAttrs& attrs, Tensor& out) {
  RunItems(element::LrnItem<E>{ctx.input(0).data<E>(), out.mutable_data<E>(),
                               LrnSizesOf(attrs, out.dim(3))},
           out.num_elements());
}

template <typename E>
void Gradient(KernelContext& ctx, const LrnAttrs& attrs, Tensor& out) {
  const element::LrnSizes sizes = LrnSizesOf(attrs, out.dim(3));
  std::vector<float> norms(static_cast<size_t>(out.num_elements()));
  const E* const in = ctx.input(1).data<E>();
  RunItems(element::LrnNormItem<E>{in, norms.data(), sizes}, out.num_elements());
  RunItems(element::LrnGradItem<E>{ctx.input(0).data<E>(), in, ctx.input(2).data<E>(), norms.data(),
                                   out.mutable_data<E>(), sizes},
           out.num_elements());
}

template <bool kGradient>
absl::StatusOr<KernelFn> Make(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const LrnAttrs attrs, LrnAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.input_dtypes()[0];
  if (!LrnItemName("LrnItem", attrs, dtype).ok()) {
    return Unimplemented("what a GPU leaves to the host");
  }
  return KernelFn([attrs, dtype](KernelContext& ctx) -> absl::Status {
    const Shape& shape = ctx.input(0).shape();
    FORMWORK_RETURN_IF_ERROR(kGradient ? CheckLrnGrad(shape.dims(), ctx.input(1).shape().dims(),
                                                      ctx.input(2).shape().dims())
                                       : CheckLrn(shape.dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), dtype, shape));
    if (dtype == DType::kFloat) {
      (kGradient ? &Gradient<float> : &Forward<float>)(ctx, attrs, out);
    } else {
      (kGradient ? &Gradient<half> : &Forward<half>)(ctx, attrs, out);
    }
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

TEST(GpuLrnTest, GivesWhatTensorFlowDoes) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  kernels.Add("LRN", &Make<false>);
  kernels.Add("LRNGrad", &Make<true>);
  std::map<std::string, int> tried =
      RunGpuCases({.files = {"lrn"}, .some_are_hosts = true}, ops, kernels);
  for (const std::string& op : kernels.Names()) EXPECT_GT(tried[op], 2) << op;
}

TEST(GpuLrnTest, ManyNeighboursAreTheHosts) {
  LrnAttrs attrs;
  EXPECT_OK(LrnItemName("LrnItem", attrs, DType::kHalf));
  attrs.depth_radius = 1025;
  EXPECT_THAT(LrnItemName("LrnItem", attrs, DType::kHalf),
              StatusIs(absl::StatusCode::kUnimplemented));
}

}  // namespace
}  // namespace formwork::testing
