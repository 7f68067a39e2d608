#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

void RegisterFunctionOps(OpRegistry& registry) {
  registry.Add("Identity(input: T) -> (output: T); T: type", {});
  registry.Add("Placeholder() -> (output: dtype); dtype: type; shape: shape = ?", {});
  registry.Add("Const() -> (output: dtype); value: tensor; dtype: type", {});
  registry.Add("NoOp() -> ()", {});
  registry.Add(
      "StatefulPartitionedCall(args: Tin) -> (output: Tout); Tin: list(type) >= 0; Tout: "
      "list(type) >= 0; f: func; config: string = \"\"; config_proto: string = \"\"; "
      "executor_type: string = \"\"",
      {.effect = Effect::kExternal});
  registry.Add("IdentityN(input: T) -> (output: T); T: list(type) >= 1", {});
  registry.Add("StopGradient(input: T) -> (output: T); T: type", {});
  registry.Add(
      "While(input: T) -> (output: T); T: list(type) >= 0; cond: func; body: func; "
      "output_shapes: list(shape) = []; parallel_iterations: int = 10",
      {.effect = Effect::kExternal});
  registry.Add(
      "StatelessWhile(input: T) -> (output: T); T: list(type) >= 0; cond: func; body: func;"
      " output_shapes: list(shape) = []; parallel_iterations: int = 10",
      {});
  registry.Add(
      "If(cond: Tcond, input: Tin) -> (output: Tout); Tcond: type; Tin: list(type) >= 0; "
      "Tout: list(type) >= 0; then_branch: func; else_branch: func; output_shapes: "
      "list(shape) = []",
      {.effect = Effect::kExternal});
  registry.Add(
      "StatelessIf(cond: Tcond, input: Tin) -> (output: Tout); Tcond: type; Tin: list(type)"
      " >= 0; Tout: list(type) >= 0; then_branch: func; else_branch: func; output_shapes: "
      "list(shape) = []",
      {});
  registry.Add(
      "PartitionedCall(args: Tin) -> (output: Tout); Tin: list(type) >= 0; Tout: list(type)"
      " >= 0; f: func; config: string = \"\"; config_proto: string = \"\"; executor_type: "
      "string = \"\"",
      {});
  registry.Add("PlaceholderWithDefault(input: dtype) -> (output: dtype); dtype: type; shape: shape",
               {});
  registry.Add(
      "StatelessCase(branch_index: int32, input: Tin) -> (output: Tout); Tin: list(type) >="
      " 0; Tout: list(type) >= 0; branches: list(func) >= 1; output_shapes: list(shape) = "
      "[]",
      {});
  registry.Add(
      "Case(branch_index: int32, input: Tin) -> (output: Tout); Tin: list(type) >= 0; Tout:"
      " list(type) >= 0; branches: list(func) >= 1; output_shapes: list(shape) = []",
      {.effect = Effect::kExternal});
  registry.Add("EnsureShape(input: T) -> (output: T); shape: shape; T: type", {});
}

}  // namespace formwork
