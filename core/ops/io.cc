// Ops that read and write files, and values as bytes.

#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

absl::Status VectorOfAnySize(InferenceContext& c) {
  c.set_output(0, PartialShape::OfRank(1));
  return absl::OkStatus();
}

}  // namespace

void RegisterIoOps(OpRegistry& registry) {
  registry.Add(
      "SaveV2(prefix: string, tensor_names: string, shape_and_slices: string, tensors: dtypes) -> "
      "(); dtypes: list(type) >= 1",
      {.effect = Effect::kExternal});
  registry.Add(
      "RestoreV2(prefix: string, tensor_names: string, shape_and_slices: string) -> (tensors: "
      "dtypes); dtypes: list(type) >= 1",
      {.effect = Effect::kExternal});
  registry.Add(
      "MergeV2Checkpoints(checkpoint_prefixes: string, destination_prefix: string) -> (); "
      "delete_old_dirs: bool = true; allow_missing_files: bool = false",
      {.effect = Effect::kExternal});
  registry.Add(
      "ShardedFilename(basename: string, shard: host int32, num_shards: host int32) -> (filename: "
      "string)",
      {.shape_fn = shapes::Scalar});
  // Another time the file may have changed.
  registry.Add("ReadFile(filename: string) -> (contents: string)",
               {.shape_fn = shapes::Scalar, .effect = Effect::kRandom, .sized_by_value = true});
  // Elements that stand for all others may be few for a large value.
  registry.Add("ParseTensor(serialized: string) -> (output: out_type); out_type: type",
               {.sized_by_value = true});
  registry.Add("SerializeTensor(tensor: T) -> (serialized: string); T: type",
               {.shape_fn = shapes::Scalar});
  registry.Add("MatchingFiles(pattern: string) -> (filenames: string)",
               {.shape_fn = VectorOfAnySize, .effect = Effect::kRandom, .sized_by_value = true});
}

}  // namespace formwork
