// Maps from tensors to tensors, as one element of dtype variant.

#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

void RegisterTensorMapOps(OpRegistry& registry) {
  registry.Add("EmptyTensorMap() -> (handle: variant)", {.shape_fn = shapes::Scalar});
  registry.Add("TensorMapSize(input_handle: variant) -> (size: int32)",
               {.shape_fn = shapes::Scalar});
  registry.Add(
      "TensorMapInsert(input_handle: variant, key: key_dtype, value: value_dtype) -> "
      "(output_handle: variant); key_dtype: type; value_dtype: type",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "TensorMapErase(input_handle: variant, key: key_dtype) -> (output_handle: variant); "
      "key_dtype: type; value_dtype: type",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "TensorMapHasKey(input_handle: variant, key: key_dtype) -> (has_key: bool); key_dtype: type",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "TensorMapLookup(input_handle: variant, key: key_dtype) -> (value: value_dtype); key_dtype: "
      "type; value_dtype: type");
  registry.Add("TensorMapStackKeys(input_handle: variant) -> (keys: key_dtype); key_dtype: type");
}

}  // namespace formwork
