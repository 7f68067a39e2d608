#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

void RegisterDebugOps(OpRegistry& registry) {
  registry.Add("Assert(condition: bool, data: T) -> (); T: list(type) >= 1; summarize: int = 3",
               {.effect = Effect::kExternal});
  registry.Add(
      "PrintV2(input: string) -> (); output_stream: string = \"stderr\"; end: string = \"\\n\"",
      {.effect = Effect::kExternal});
}

}  // namespace formwork
