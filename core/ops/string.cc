#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

void RegisterStringOps(OpRegistry& registry) {
  registry.Add(
      "StringJoin(inputs: N*string) -> (output: string); N: int >= 0; separator: string = "
      "\"\"",
      {});
  registry.Add(
      "StringFormat(inputs: T) -> (output: string); T: list(type) >= 0; template: string = "
      "\"%s\"; placeholder: string = \"%s\"; summarize: int = 3",
      {});
  registry.Add(
      "AsString(input: T) -> (output: string); T: {float, double, int32, uint8, int16, "
      "int8, int64, bfloat16, uint16, half, uint32, uint64, complex64, complex128, bool, "
      "variant, string}; precision: int = -1; scientific: bool = false; shortest: bool = "
      "false; width: int = -1; fill: string = \"\"",
      {});
}

}  // namespace formwork
