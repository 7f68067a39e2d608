#include "core/base/status.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

// Scalars join with every element of the others, which have one shape.
absl::Status StringJoinShape(InferenceContext& c) {
  PartialShape joined = Shape();
  for (int i = 0; i < c.num_inputs(); ++i) {
    const PartialShape& input = c.input(i);
    if (!input.known_rank()) {
      joined = PartialShape::Unknown();
      break;
    }
    if (input.rank() == 0) continue;
    if (joined.rank() == 0) {
      joined = input;
      continue;
    }
    std::optional<PartialShape> merged = joined.Merge(input);
    if (!merged) {
      return InvalidArgument("Input shapes do not match: ", joined.ToString(), " vs. ",
                             input.ToString());
    }
    joined = *merged;
  }
  c.set_output(0, joined);
  return absl::OkStatus();
}

absl::Status SubstrShape(InferenceContext& c) {
  absl::StatusOr<PartialShape> shape = shapes::BroadcastShapes(c.input(0), c.input(1));
  if (!shape.ok()) return shape.status();
  c.set_output(0, *std::move(shape));
  return absl::OkStatus();
}

}  // namespace

void RegisterStringOps(OpRegistry& registry) {
  registry.Add(
      "StringJoin(inputs: N*string) -> (output: string); N: int >= 0; separator: string = "
      "\"\"",
      {.shape_fn = StringJoinShape});
  registry.Add(
      "StringFormat(inputs: T) -> (output: string); T: list(type) >= 0; template: string = "
      "\"%s\"; placeholder: string = \"%s\"; summarize: int = 3",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "AsString(input: T) -> (output: string); T: {realnumbertype, complextype, bool, variant, "
      "string}; precision: int = -1; scientific: bool = false; shortest: bool = false; width: int "
      "= -1; fill: string = \"\"",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "StringLength(input: string) -> (output: int32); unit: {\"BYTE\", \"UTF8_CHAR\"} = \"BYTE\"",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add("StringLower(input: string) -> (output: string); encoding: string = \"\"",
               {.shape_fn = shapes::SameAsFirstInput});
  registry.Add("StringUpper(input: string) -> (output: string); encoding: string = \"\"",
               {.shape_fn = shapes::SameAsFirstInput});
  registry.Add("StringStrip(input: string) -> (output: string)",
               {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "Substr(input: string, pos: T, len: T) -> (output: string); T: indextype; unit: {\"BYTE\", "
      "\"UTF8_CHAR\"} = \"BYTE\"",
      {.shape_fn = SubstrShape});
}

}  // namespace formwork
