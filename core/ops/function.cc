#include "core/ops/function.h"

#include <algorithm>

#include "core/base/status.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<ShapeAttrs> ShapeAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<ShapeAttrs>(attrs, "shape", &ShapeAttrs::shape);
}

absl::StatusOr<ConstAttrs> ConstAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<ConstAttrs>(attrs, "value", &ConstAttrs::value);
}

absl::Status CheckEnsureShape(const ShapeAttrs& attrs, const Shape& input) {
  if (attrs.shape.Accepts(input)) return absl::OkStatus();
  return InvalidArgument("Shape of tensor input ", input.ToString(),
                         " is not compatible with expected shape ", attrs.shape.ToString(), ".");
}

absl::StatusOr<Shape> PrepareFakeParam(const ShapeAttrs& attrs) {
  Dims dims(attrs.shape.dims().begin(), attrs.shape.dims().end());
  for (int64_t& dim : dims) dim = std::max<int64_t>(dim, 0);
  absl::StatusOr<Shape> shape = Shape::Make(dims);
  if (shape.ok()) return shape;
  return InvalidArgument("FakeParam: shape is too large: ", attrs.shape.ToString());
}

namespace {

absl::Status EachAsInput(InferenceContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.input(i));
  return absl::OkStatus();
}

// Of each input of the function, which come before the gradients of its results.
absl::Status GradientShape(InferenceContext& c) {
  if (c.num_inputs() < c.num_outputs()) {
    return InvalidArgument("len(inputs) < len(outputs)");
  }
  return EachAsInput(c);
}

// Tracing records the shapes that the branches have in common.
absl::Status FromOutputShapes(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const auto shapes,
                            c.attrs().Get<std::vector<PartialShape>>("output_shapes"));
  if (static_cast<int>(shapes.size()) != c.num_outputs()) return absl::OkStatus();
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, shapes[i]);
  return absl::OkStatus();
}

absl::Status EnsureShapeShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const ShapeAttrs attrs, ShapeAttrs::FromAttrs(c.attrs()));
  // Shapes that contradict each other are an error of the run, and only if it gets there.
  c.set_output(0, c.input(0).Merge(attrs.shape).value_or(attrs.shape));
  return absl::OkStatus();
}

absl::Status ConstShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const ConstAttrs attrs, ConstAttrs::FromAttrs(c.attrs()));
  c.set_output(0, attrs.value.shape());
  return absl::OkStatus();
}

}  // namespace

void RegisterFunctionOps(OpRegistry& registry) {
  registry.Add("Identity(input: T) -> (output: T); T: type",
               {.shape_fn = shapes::SameAsFirstInput, .forwards_inputs = true});
  registry.Add("Placeholder() -> (output: dtype); dtype: type; shape: shape = ?",
               {.shape_fn = shapes::FromShapeAttr});
  registry.Add("Const() -> (output: dtype); value: tensor; dtype: type", {.shape_fn = ConstShape});
  registry.Add("NoOp() -> ()", {});
  registry.Add("ControlTrigger() -> ()", {});
  registry.Add(
      "StatefulPartitionedCall(args: Tin) -> (output: Tout); Tin: list(type) >= 0; Tout: "
      "list(type) >= 0; f: func; config: string = \"\"; config_proto: string = \"\"; "
      "executor_type: string = \"\"",
      {.effect = Effect::kExternal, .control_flow = ControlFlow::kCall});
  registry.Add("IdentityN(input: T) -> (output: T); T: list(type) >= 1",
               {.shape_fn = EachAsInput, .forwards_inputs = true});
  registry.Add("StopGradient(input: T) -> (output: T); T: type",
               {.shape_fn = shapes::SameAsFirstInput, .forwards_inputs = true});
  registry.Add(
      "While(input: T) -> (output: T); T: list(type) >= 0; cond: func; body: func; output_shapes: "
      "list(shape) = []; parallel_iterations: int = 10",
      {.shape_fn = FromOutputShapes,
       .effect = Effect::kExternal,
       .control_flow = ControlFlow::kWhile});
  registry.Add(
      "StatelessWhile(input: T) -> (output: T); T: list(type) >= 0; cond: func; body: func; "
      "output_shapes: list(shape) = []; parallel_iterations: int = 10",
      {.shape_fn = FromOutputShapes, .control_flow = ControlFlow::kWhile});
  registry.Add(
      "If(cond: host Tcond, input: Tin) -> (output: Tout); Tcond: type; Tin: list(type) >= 0; "
      "Tout: list(type) >= 0; then_branch: func; else_branch: func; output_shapes: list(shape) = "
      "[]",
      {.shape_fn = FromOutputShapes,
       .effect = Effect::kExternal,
       .control_flow = ControlFlow::kIf});
  registry.Add(
      "StatelessIf(cond: host Tcond, input: Tin) -> (output: Tout); Tcond: type; Tin: list(type) "
      ">= 0; Tout: list(type) >= 0; then_branch: func; else_branch: func; output_shapes: "
      "list(shape) = []",
      {.shape_fn = FromOutputShapes, .control_flow = ControlFlow::kIf});
  registry.Add(
      "PartitionedCall(args: Tin) -> (output: Tout); Tin: list(type) >= 0; Tout: list(type) >= 0; "
      "f: func; config: string = \"\"; config_proto: string = \"\"; executor_type: string = \"\"",
      {.control_flow = ControlFlow::kCall});
  // The importer makes these two StatefulPartitionedCalls.
  registry.Add(
      "RemoteCall(target: string, args: Tin) -> (output: Tout); Tin: list(type) >= 1; Tout: "
      "list(type) >= 1; f: func",
      {.effect = Effect::kExternal, .control_flow = ControlFlow::kCall});
  registry.Add(
      "BatchFunction(in_tensors: Tin, captured_tensors: Tcaptured) -> (out_tensors: Tout); f: "
      "func; num_batch_threads: int; max_batch_size: int; batch_timeout_micros: int; "
      "max_enqueued_batches: int = 10; allowed_batch_sizes: list(int) = []; container: string = "
      "\"\"; shared_name: string = \"\"; batching_queue: string = \"\"; "
      "low_priority_max_batch_size: int = 0; low_priority_batch_timeout_micros: int = 0; "
      "low_priority_allowed_batch_sizes: list(int) = []; low_priority_max_enqueued_batches: int = "
      "0; mixed_priority_policy: {\"low_priority_padding_with_max_batch_size\", "
      "\"low_priority_padding_with_next_allowed_batch_size\", \"priority_isolation\", "
      "\"priority_merge\"} = \"low_priority_padding_with_max_batch_size\"; batch_padding_policy: "
      "{\"BATCH_DOWN\", \"MINIMIZE_TPU_COST_PER_REQUEST\", \"PAD_UP\"} = \"PAD_UP\"; Tin: "
      "list(type) >= 1; Tcaptured: list(type) >= 0; Tout: list(type) >= 1; "
      "enable_large_batch_splitting: bool = false",
      {.control_flow = ControlFlow::kCall});
  // The importer makes it a call of the function that the graph's library names as f's gradient.
  registry.Add(
      "SymbolicGradient(input: Tin) -> (output: Tout); Tin: list(type) >= 1; Tout: list(type) >= "
      "1; f: func",
      {.shape_fn = GradientShape, .control_flow = ControlFlow::kCall});
  registry.Add("PlaceholderWithDefault(input: dtype) -> (output: dtype); dtype: type; shape: shape",
               {.shape_fn = shapes::FromShapeAttr});
  registry.Add(
      "StatelessCase(branch_index: host int32, input: Tin) -> (output: Tout); Tin: list(type) >= "
      "0; Tout: list(type) >= 0; branches: list(func) >= 1; output_shapes: list(shape) = []",
      {.shape_fn = FromOutputShapes, .control_flow = ControlFlow::kCase});
  registry.Add(
      "Case(branch_index: host int32, input: Tin) -> (output: Tout); Tin: list(type) >= 0; Tout: "
      "list(type) >= 0; branches: list(func) >= 1; output_shapes: list(shape) = []",
      {.shape_fn = FromOutputShapes,
       .effect = Effect::kExternal,
       .control_flow = ControlFlow::kCase});
  registry.Add("EnsureShape(input: T) -> (output: T); shape: shape; T: type",
               {.shape_fn = EnsureShapeShape});
  registry.Add("PreventGradient(input: T) -> (output: T); T: type; message: string = \"\"",
               {.shape_fn = shapes::SameAsFirstInput, .forwards_inputs = true});
  registry.Add("GuaranteeConst(input: T) -> (output: T); T: type",
               {.shape_fn = shapes::SameAsFirstInput, .forwards_inputs = true});
  registry.Add("Snapshot(input: T) -> (output: T); T: type",
               {.shape_fn = shapes::SameAsFirstInput, .forwards_inputs = true});
  // Told to XLA, of processors and of the order of work.
  registry.Add("XlaOptimizationBarrier(input: T) -> (output: T); T: list(type) >= 0",
               {.shape_fn = EachAsInput, .forwards_inputs = true});
  registry.Add(
      "XlaSharding(input: T) -> (output: T); T: type; sharding: string = \"\"; unspecified_dims: "
      "list(int) = []",
      {.shape_fn = shapes::SameAsFirstInput, .forwards_inputs = true});
  registry.Add("DeepCopy(x: T) -> (y: T); T: type",
               {.shape_fn = shapes::SameAsFirstInput, .forwards_inputs = true});
  // Python, at the client: what it does there nobody knows.
  registry.Add(
      "PyFunc(input: Tin) -> (output: Tout); token: string; Tin: list(type) >= 0; Tout: list(type) "
      ">= 0",
      {.effect = Effect::kExternal, .waits = true});
  registry.Add(
      "PyFuncStateless(input: Tin) -> (output: Tout); token: string; Tin: list(type) >= 0; Tout: "
      "list(type) >= 0",
      {.effect = Effect::kRandom, .waits = true});
  registry.Add(
      "EagerPyFunc(input: Tin) -> (output: Tout); token: string; is_async: bool = false; Tin: "
      "list(type) >= 0; Tout: list(type) >= 0",
      {.effect = Effect::kExternal, .waits = true});
}

}  // namespace formwork
