#include "core/ops/stack.h"

#include "core/base/status.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

absl::StatusOr<ResourceType> TypeOfStack(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(const DType dtype, attrs.Get<DType>("elem_type"));
  // The planner would not know whose handle is taken off again.
  if (dtype == DType::kResource) return Unimplemented("a stack of handles");
  return ResourceType{&kStackKind, {{dtype, PartialShape()}}};
}

}  // namespace

void RegisterStackOps(OpRegistry& registry) {
  // Its kernel runs behind the handle and begins the stack.
  registry.Add(
      "StackV2(max_size: host int32) -> (handle: resource); elem_type: type; stack_name: string = "
      "\"\"",
      {.shape_fn = shapes::Scalar, .handle_of = TypeOfStack});
  registry.Add(
      "StackPushV2(handle: resource, elem: T) -> (output: T); T: type; swap_memory: bool = false",
      {.shape_fn =
           [](InferenceContext& c) {
             c.set_output(0, c.input(1));
             return absl::OkStatus();
           },
       .effect = Effect::kWrite});
  registry.Add("StackPopV2(handle: resource) -> (elem: elem_type); elem_type: type",
               {.effect = Effect::kWrite});
  registry.Add("StackCloseV2(handle: resource) -> ()", {.effect = Effect::kWrite});
}

}  // namespace formwork
