#include "core/ops/accumulator.h"

#include <string>

#include "core/base/status.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<int64_t> StepFromTensor(const Tensor& step, absl::string_view name) {
  if (step.rank() == 0) return step.scalar<int64_t>();
  return InvalidArgument("Argument ", name, " must be scalar, but had bad shape ",
                         step.shape().ToString());
}

absl::Status CheckGradientApplied(const ResourceType& type, const Tensor& sum,
                                  const Tensor& gradient) {
  const ResourceType::Part& part = type.parts[0];
  if (gradient.dtype() != part.dtype) {
    return InvalidArgument("the accumulator is of another dtype than the gradient: accumulator=",
                           DTypeName(part.dtype), " gradient=", DTypeName(gradient.dtype()));
  }
  if (!part.shape.Accepts(gradient.shape())) {
    return InvalidArgument("Shape mismatch: expected ", part.shape.ToString(), ", got ",
                           gradient.shape().ToString());
  }
  if (sum.has_value() && sum.shape() != gradient.shape()) {
    return InvalidArgument("Shape mismatch: expected ", sum.shape().ToString(), ", got ",
                           gradient.shape().ToString());
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> GradientsRequired(const Tensor& num_required) {
  if (num_required.rank() != 0) {
    return InvalidArgument("Argument num_required must be scalar, but had bad shape ",
                           num_required.shape().ToString());
  }
  const int32_t required = num_required.scalar<int32_t>();
  if (required <= 0) {
    return InvalidArgument("Argument num_required must be positive, but was ", required);
  }
  return required;
}

namespace {

absl::StatusOr<ResourceType> TypeOfAccumulator(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(const DType dtype, attrs.Get<DType>("dtype"));
  if (dtype != DType::kFloat && dtype != DType::kDouble && dtype != DType::kHalf) {
    return Unimplemented("ResourceConditionalAccumulator: dtype ", DTypeName(dtype),
                         " is not supported");
  }
  FORMWORK_ASSIGN_OR_RETURN(const PartialShape shape, attrs.Get<PartialShape>("shape"));
  FORMWORK_ASSIGN_OR_RETURN(const std::string reduction, attrs.Get<std::string>("reduction_type"));
  return ResourceType{reduction == "SUM" ? &kSumAccumulatorKind : &kMeanAccumulatorKind,
                      {{dtype, shape}}};
}

}  // namespace

void RegisterAccumulatorOps(OpRegistry& registry) {
  registry.Add(
      "ResourceConditionalAccumulator() -> (handle: resource); dtype: numbertype; shape: shape; "
      "container: string = \"\"; shared_name: string = \"\"; reduction_type: {\"MEAN\", \"SUM\"} = "
      "\"MEAN\"",
      {.shape_fn = shapes::Scalar, .handle_of = TypeOfAccumulator});
  registry.Add(
      "ResourceAccumulatorApplyGradient(handle: resource, local_step: int64, gradient: dtype) -> "
      "(); dtype: numbertype",
      {.effect = Effect::kWrite});
  registry.Add("ResourceAccumulatorNumAccumulated(handle: resource) -> (num_accumulated: int32)",
               {.shape_fn = shapes::Scalar, .effect = Effect::kRead});
  registry.Add("ResourceAccumulatorSetGlobalStep(handle: resource, new_global_step: int64) -> ()",
               {.effect = Effect::kWrite});
  registry.Add(
      "ResourceAccumulatorTakeGradient(handle: resource, num_required: int32) -> (average: dtype); "
      "dtype: numbertype",
      {.effect = Effect::kWrite, .waits = true});
}

}  // namespace formwork
