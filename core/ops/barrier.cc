#include "core/ops/barrier.h"

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

absl::StatusOr<ResourceType> TypeOfBarrier(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(const auto dtypes, attrs.Get<std::vector<DType>>("component_types"));
  FORMWORK_ASSIGN_OR_RETURN(const auto shapes, attrs.Get<std::vector<PartialShape>>("shapes"));
  FORMWORK_ASSIGN_OR_RETURN(const int64_t capacity, attrs.Get<int64_t>("capacity"));
  if (!shapes.empty() && shapes.size() != dtypes.size()) {
    return InvalidArgument("Different number of component types.  Types: ", dtypes.size(),
                           ", Shapes: ", shapes.size());
  }
  if (capacity != -1) {
    return InvalidArgument(
        "Barrier only accepts capacity=-1.  Feed the inputs to your Barrier through a queue to "
        "enforce a limited capacity.");
  }
  ResourceType type;
  type.kind = &kBarrierKind;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    if (!IsPlainData(dtypes[i]) && dtypes[i] != DType::kString) {
      return Unimplemented("a barrier of components of dtype ", DTypeName(dtypes[i]));
    }
    type.parts.push_back({dtypes[i], shapes.empty() ? PartialShape() : shapes[i]});
  }
  return type;
}

}  // namespace

void RegisterBarrierOps(OpRegistry& registry) {
  // Its kernel runs behind the handle and begins the barrier.
  registry.Add(
      "Barrier() -> (handle: resource); component_types: list(type) >= 1; shapes: list(shape) >= 0 "
      "= []; capacity: int = -1; container: string = \"\"; shared_name: string = \"\"",
      {.shape_fn = shapes::Scalar, .handle_of = TypeOfBarrier});
  registry.Add(
      "BarrierInsertMany(handle: resource, keys: string, values: T) -> (); T: type; "
      "component_index: int",
      {.effect = Effect::kWrite});
  registry.Add(
      "BarrierTakeMany(handle: resource, num_elements: int32) -> (indices: int64, keys: string, "
      "values: component_types); component_types: list(type) >= 1; allow_small_batch: bool = "
      "false; wait_for_incomplete: bool = false; timeout_ms: int = -1",
      {.effect = Effect::kWrite, .waits = true});
  registry.Add("BarrierClose(handle: resource) -> (); cancel_pending_enqueues: bool = false",
               {.effect = Effect::kWrite});
  for (absl::string_view op : {"BarrierReadySize", "BarrierIncompleteSize"}) {
    registry.Add(absl::StrCat(op, "(handle: resource) -> (size: int32)"),
                 {.shape_fn = shapes::Scalar, .effect = Effect::kRead});
  }
}

}  // namespace formwork
