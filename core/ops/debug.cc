#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

void RegisterDebugOps(OpRegistry& registry) {
  registry.Add(
      "Assert(condition: host bool, data: host T) -> (); T: list(type) >= 1; summarize: int = 3",
      {.effect = Effect::kExternal});
  registry.Add(
      "PrintV2(input: string) -> (); output_stream: string = \"stderr\"; end: string = \"\\n\"",
      {.effect = Effect::kExternal});
  registry.Add(
      "Print(input: T, data: U) -> (output: T); T: type; U: list(type) >= 0; message: string = "
      "\"\"; first_n: int = -1; summarize: int = 3",
      {.shape_fn = shapes::SameAsFirstInput, .effect = Effect::kExternal});
  registry.Add("CheckNumerics(tensor: T) -> (output: T); T: floattype; message: string",
               {.shape_fn = shapes::SameAsFirstInput, .effect = Effect::kExternal});
  registry.Add("CheckNumericsV2(tensor: T) -> (output: T); T: floattype; message: string",
               {.shape_fn = shapes::SameAsFirstInput, .effect = Effect::kExternal});
}

}  // namespace formwork
