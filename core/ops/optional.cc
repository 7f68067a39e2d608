#include "core/base/status.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

absl::Status GetValueShapes(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const auto shapes,
                            c.attrs().Get<std::vector<PartialShape>>("output_shapes"));
  for (size_t i = 0; i < shapes.size() && i < c.outputs().size(); ++i) {
    c.set_output(static_cast<int>(i), shapes[i]);
  }
  return absl::OkStatus();
}

}  // namespace

void RegisterOptionalOps(OpRegistry& registry) {
  registry.Add(
      "OptionalFromValue(components: Toutput_types) -> (optional: variant); Toutput_types: "
      "list(type) >= 1",
      {.shape_fn = shapes::Scalar});
  registry.Add("OptionalNone() -> (optional: variant)", {.shape_fn = shapes::Scalar});
  registry.Add("OptionalHasValue(optional: variant) -> (has_value: host bool)",
               {.shape_fn = shapes::Scalar});
  registry.Add(
      "OptionalGetValue(optional: variant) -> (components: output_types); output_types: list(type) "
      ">= 1; output_shapes: list(shape) >= 1",
      {.shape_fn = GetValueShapes});
}

}  // namespace formwork
