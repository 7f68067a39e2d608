// Values that may be missing: what a branch that was not taken leaves for its gradient.

#include <memory>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/variant/optional.h"
#include "core/kernels/variant/variant_nesting.h"
#include "core/ops/optional.h"

namespace formwork {
namespace {

// The one that input 0 of `op` holds; lives as long as its tensor.
absl::StatusOr<const Optional*> OptionalOf(absl::string_view op, const Tensor& handle) {
  if (handle.rank() != 0) {
    return InvalidArgument("Input to ", op,
                           " must be a scalar tensor containing an OptionalVariant "
                           "object: ",
                           handle.shape().ToString());
  }
  const auto* optional = dynamic_cast<const Optional*>(handle.scalar<Variant>().get());
  if (optional == nullptr) {
    return InvalidArgument("Input to ", op, " must be an OptionalVariant object.");
  }
  return optional;
}

absl::StatusOr<KernelFn> MakeFromValue(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    auto optional = std::make_shared<Optional>();
    optional->components.reserve(static_cast<size_t>(ctx.num_inputs()));
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      FORMWORK_RETURN_IF_ERROR(CountNesting(*optional, ctx.input(i)));
      optional->components.push_back(ctx.TakeInput(i));
    }
    ctx.SetOutput(0, Tensor::VariantScalar(std::move(optional)));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeNone(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    ctx.SetOutput(0, Tensor::VariantScalar(std::make_shared<Optional>()));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeHasValue(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Optional* optional,
                              OptionalOf("OptionalHasValue", ctx.input(0)));
    ctx.SetOutput(0, Tensor::Scalar(optional->has_value()));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeGetValue(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(OptionalAttrs attrs, OptionalAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs = std::move(attrs)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Optional* optional,
                              OptionalOf("OptionalGetValue", ctx.input(0)));
    const std::vector<Tensor>& components = optional->components;
    FORMWORK_RETURN_IF_ERROR(CheckOptionalValue(attrs, components));
    for (size_t i = 0; i < components.size(); ++i) {
      ctx.SetOutput(static_cast<int>(i), components[i]);
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterOptionalCpuKernels(KernelRegistry& registry) {
  registry.Add("OptionalFromValue", MakeFromValue);
  registry.Add("OptionalNone", MakeNone);
  registry.Add("OptionalHasValue", MakeHasValue);
  registry.Add("OptionalGetValue", MakeGetValue);
}

}  // namespace formwork
