// Values that may be missing: what a branch that was not taken leaves for its gradient.

#include <memory>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/variant/optional.h"
#include "core/kernels/variant/variant_nesting.h"

namespace formwork {
namespace {

// The one that a scalar handle holds; lives as long as the handle's tensor.
absl::StatusOr<const Optional*> OptionalOf(const Tensor& handle) {
  if (handle.rank() != 0) {
    return InvalidArgument("Optional: the input must be a scalar: ", handle.shape().ToString());
  }
  const auto* optional = dynamic_cast<const Optional*>(handle.scalar<Variant>().get());
  if (optional == nullptr) return InvalidArgument("Optional: the input is not an optional");
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
    FORMWORK_ASSIGN_OR_RETURN(const Optional* optional, OptionalOf(ctx.input(0)));
    ctx.SetOutput(0, Tensor::Scalar(optional->has_value()));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeGetValue(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(std::vector<PartialShape> shapes,
                            init.attrs().Get<std::vector<PartialShape>>("output_shapes"));
  std::vector<DType> dtypes(init.output_dtypes().begin(), init.output_dtypes().end());
  if (shapes.size() != dtypes.size()) {
    return InvalidArgument("OptionalGetValue: output_types and output_shapes must be as many: ",
                           dtypes.size(), " and ", shapes.size());
  }
  return KernelFn(
      [shapes = std::move(shapes), dtypes = std::move(dtypes)](KernelContext& ctx) -> absl::Status {
        FORMWORK_ASSIGN_OR_RETURN(const Optional* optional, OptionalOf(ctx.input(0)));
        const std::vector<Tensor>& components = optional->components;
        if (!optional->has_value())
          return InvalidArgument("The given optional does not have a value.");
        if (components.size() != dtypes.size()) {
          return InvalidArgument("The given optional has ", components.size(),
                                 " components, expected ", dtypes.size());
        }
        for (size_t i = 0; i < components.size(); ++i) {
          if (components[i].dtype() != dtypes[i]) {
            return InvalidArgument("The given optional component at index ", i,
                                   " has a wrong dtype: expected=", DTypeName(dtypes[i]),
                                   " given=", DTypeName(components[i].dtype()));
          }
          if (!shapes[i].Accepts(components[i].shape())) {
            return InvalidArgument("The given optional component at index ", i,
                                   " has a wrong shape: expected=", shapes[i].ToString(),
                                   " given=", components[i].shape().ToString());
          }
        }
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
