#include "core/ops/optional.h"

#include "core/base/status.h"
#include "core/ops/graph_dtype.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<OptionalAttrs> OptionalAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(OptionalAttrs read,
                            ReadAttrs<OptionalAttrs>(attrs, "output_types", &OptionalAttrs::dtypes,
                                                     "output_shapes", &OptionalAttrs::shapes));
  if (read.shapes.size() == read.dtypes.size()) return read;
  return InvalidArgument("OptionalGetValue: output_types and output_shapes must be as many: ",
                         read.dtypes.size(), " and ", read.shapes.size());
}

absl::Status CheckOptionalValue(const OptionalAttrs& attrs, absl::Span<const Tensor> components) {
  if (components.empty()) return InvalidArgument("The given optional does not have a value.");
  if (components.size() != attrs.dtypes.size()) {
    return InvalidArgument("The given optional has ", components.size(), " components, expected ",
                           attrs.dtypes.size());
  }
  for (size_t i = 0; i < components.size(); ++i) {
    if (components[i].dtype() != attrs.dtypes[i]) {
      return InvalidArgument("The given optional does not match the expected type for component ",
                             i, ". Expected: ", GraphDTypeName(attrs.dtypes[i]),
                             ". Actual: ", GraphDTypeName(components[i].dtype()), ".");
    }
    if (!attrs.shapes[i].Accepts(components[i].shape())) {
      return InvalidArgument("The given optional does not match the expected shape for component ",
                             i, ". Expected: ", attrs.shapes[i].ToString(),
                             ". Actual: ", components[i].shape().ToString(), ".");
    }
  }
  return absl::OkStatus();
}

namespace {

absl::Status GetValueShapes(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const OptionalAttrs attrs, OptionalAttrs::FromAttrs(c.attrs()));
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, attrs.shapes[i]);
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
