// Ops that only pass values on.

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/function.h"
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
  FORMWORK_ASSIGN_OR_RETURN(const ShapeAttrs attrs, ShapeAttrs::FromAttrs(init.attrs()));
  std::string text =
      absl::StrCat("You must feed a value for placeholder tensor '", init.node_name(),
                   "' with dtype ", GraphDTypeName(init.output_dtypes()[0]));
  if (attrs.shape.rank() > 0) {
    absl::StrAppend(&text, " and shape ", attrs.shape.ToString());
  }
  return KernelFn([text = std::move(text)](KernelContext&) { return InvalidArgument(text); });
}

absl::StatusOr<KernelFn> MakeConst(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ConstAttrs attrs, ConstAttrs::FromAttrs(init.attrs()));
  return KernelFn([value = std::move(attrs.value)](KernelContext& ctx) {
    ctx.SetOutput(0, value);
    return absl::OkStatus();
  });
}

// Runs only where nobody fed it. Plans rely on the declared shape.
absl::StatusOr<KernelFn> MakeDefault(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ShapeAttrs attrs, ShapeAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs = std::move(attrs)](KernelContext& ctx) -> absl::Status {
    if (!attrs.shape.Accepts(ctx.input(0).shape())) {
      return InvalidArgument("the default of the placeholder has another shape: declared=",
                             attrs.shape.ToString(), " default=", ctx.input(0).shape().ToString());
    }
    ctx.SetOutput(0, ctx.TakeInput(0));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeEnsureShape(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(ShapeAttrs attrs, ShapeAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs = std::move(attrs)](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckEnsureShape(attrs, ctx.input(0).shape()));
    ctx.SetOutput(0, ctx.TakeInput(0));
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterFunctionCpuKernels(KernelRegistry& registry) {
  for (absl::string_view op : {"Identity", "StopGradient", "PreventGradient", "Snapshot",
                               "GuaranteeConst", "DeepCopy", "XlaSharding"}) {
    registry.Add(op, MakeIdentity);
  }
  registry.Add("IdentityN", MakeIdentityN);
  registry.Add("XlaOptimizationBarrier", MakeIdentityN);
  registry.Add("NoOp", MakeNoOp);
  registry.Add("ControlTrigger", MakeNoOp);
  registry.Add("Placeholder", MakePlaceholder);
  registry.Add("Const", MakeConst);
  registry.Add("EnsureShape", MakeEnsureShape);
  registry.Add("PlaceholderWithDefault", MakeDefault);
}

}  // namespace formwork
