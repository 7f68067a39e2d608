#include "core/ops/staging.h"

#include "absl/strings/str_cat.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

template <const ResourceKind& kind>
absl::StatusOr<ResourceType> TypeOfStaging(const AttrMap&) {
  return ResourceType{&kind, {{DType::kVariant, PartialShape()}}};
}

}  // namespace

void RegisterStagingOps(OpRegistry& registry) {
  registry.Add(
      "_StagingArea() -> (handle: resource); container: string = \"\"; shared_name: string = \"\"",
      {.shape_fn = shapes::Scalar, .handle_of = TypeOfStaging<kStagingAreaKind>});
  registry.Add(
      "_StagingMap() -> (handle: resource); container: string = \"\"; shared_name: string = \"\"",
      {.shape_fn = shapes::Scalar, .handle_of = TypeOfStaging<kStagingMapKind>});
  registry.Add(
      "_TensorsMap() -> (handle: resource); container: string = \"\"; shared_name: string = \"\"",
      {.shape_fn = shapes::Scalar, .handle_of = TypeOfStaging<kTensorsMapKind>});
  // The names of the outputs are those of the ops that they stand for.
  registry.Add("_AddToTensorsMap(handle: resource, rows: variant) -> (sparse_handle: int64)",
               {.effect = Effect::kWrite});
  registry.Add("_AddManyToTensorsMap(handle: resource, rows: variant) -> (sparse_handles: int64)",
               {.effect = Effect::kWrite});
  registry.Add("_TakeFromTensorsMap(handle: resource, numbers: int64) -> (rows: variant)",
               {.effect = Effect::kWrite});
  const auto add = [&registry](absl::string_view spec, OpTraits traits) {
    registry.Add(absl::StrCat(spec, "; capacity: int >= 0 = 0; memory_limit: int >= 0 = 0"),
                 traits);
  };
  const OpTraits waits = {.effect = Effect::kWrite, .waits = true};
  const OpTraits reads = {.shape_fn = shapes::Scalar, .effect = Effect::kRead};
  add("_Stage(handle: resource, values: dtypes) -> (); dtypes: list(type) >= 1", waits);
  add("_Unstage(handle: resource) -> (values: dtypes); dtypes: list(type) >= 1", waits);
  add("_StagePeek(handle: resource, index: host int32) -> (values: dtypes); dtypes: list(type) >= "
      "1",
      waits);
  add("_MapStage(handle: resource, key: host int64, indices: host int32, values: fake_dtypes) -> "
      "(); dtypes: list(type) >= 0; fake_dtypes: list(type) >= 1",
      waits);
  for (absl::string_view op : {"_MapUnstage", "_MapPeek"}) {
    add(absl::StrCat(op,
                     "(handle: resource, key: host int64, indices: host int32) -> (values: "
                     "dtypes); dtypes: list(type) >= 1"),
        waits);
  }
  add("_MapUnstageNoKey(handle: resource, indices: host int32) -> (key: host int64, values: "
      "dtypes); dtypes: list(type) >= 1",
      waits);
  for (absl::string_view op : {"_StageSize", "_MapSize", "_MapIncompleteSize"}) {
    add(absl::StrCat(op, "(handle: resource) -> (size: host int32); dtypes: list(type) >= 0"),
        reads);
  }
  for (absl::string_view op : {"_StageClear", "_MapClear"}) {
    add(absl::StrCat(op, "(handle: resource) -> (); dtypes: list(type) >= 0"),
        {.effect = Effect::kWrite});
  }
}

}  // namespace formwork
