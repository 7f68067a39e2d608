// Ops that only pass values on.

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/graph_dtype.h"

namespace formwork {
namespace {

absl::StatusOr<KernelFn> MakeIdentity(KernelInit&) {
  return KernelFn([](KernelContext& ctx) {
    ctx.SetOutput(0, ctx.TakeInput(0));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeIdentityN(KernelInit&) {
  return KernelFn([](KernelContext& ctx) {
    for (int i = 0; i < ctx.num_inputs(); ++i) ctx.SetOutput(i, ctx.TakeInput(i));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeNoOp(KernelInit&) {
  return KernelFn([](KernelContext&) { return absl::OkStatus(); });
}

// Runs only where nobody fed it.
absl::StatusOr<KernelFn> MakePlaceholder(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape shape, init.attrs().Get<PartialShape>("shape"));
  std::string text =
      absl::StrCat("You must feed a value for placeholder tensor '", init.node_name(),
                   "' with dtype ", GraphDTypeName(init.output_dtypes()[0]));
  if (shape.rank() > 0) absl::StrAppend(&text, " and shape ", shape.ToString());
  return KernelFn([text = std::move(text)](KernelContext&) { return InvalidArgument(text); });
}

absl::StatusOr<KernelFn> MakeConst(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor value, init.attrs().Get<Tensor>("value"));
  return KernelFn([value = std::move(value)](KernelContext& ctx) {
    ctx.SetOutput(0, value);
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeEnsureShape(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, init.attrs().Get<PartialShape>("shape"));
  return KernelFn([shape = std::move(shape)](KernelContext& ctx) -> absl::Status {
    if (!shape.Accepts(ctx.input(0).shape())) {
      return InvalidArgument("Shape of tensor input ", ctx.input(0).shape().ToString(),
                             " is not compatible with expected shape ", shape.ToString(), ".");
    }
    ctx.SetOutput(0, ctx.TakeInput(0));
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterFunctionCpuKernels(KernelRegistry& registry) {
  for (absl::string_view op :
       {"Identity", "StopGradient", "PreventGradient", "PlaceholderWithDefault", "Snapshot"}) {
    registry.Add(op, MakeIdentity);
  }
  registry.Add("IdentityN", MakeIdentityN);
  registry.Add("NoOp", MakeNoOp);
  registry.Add("Placeholder", MakePlaceholder);
  registry.Add("Const", MakeConst);
  registry.Add("EnsureShape", MakeEnsureShape);
}

}  // namespace formwork
