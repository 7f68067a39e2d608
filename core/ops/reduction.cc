#include "core/base/status.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

// Input 0 without the dimensions that input 1 names, or with 1 in their place.
absl::Status ReductionShape(InferenceContext& c) {
  const PartialShape& x = c.input(0);
  const bool keep_dims = c.attrs().GetOr("keep_dims", false);
  const Tensor* axes = c.constant(1);
  if (!x.known_rank()) return absl::OkStatus();
  if (axes == nullptr) {
    if (keep_dims) c.set_output(0, PartialShape::OfRank(x.rank()));
    return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(Dims values, IntegersOf(*axes, "reduction_indices"));
  absl::InlinedVector<bool, 8> reduced(static_cast<size_t>(x.rank()), false);
  for (int64_t axis : values) {
    if (axis < -x.rank() || axis >= x.rank()) {
      return InvalidArgument("Invalid reduction dimension ", axis, " for input with ", x.rank(),
                             " dimensions.");
    }
    reduced[axis < 0 ? axis + x.rank() : axis] = true;
  }
  Dims dims;
  for (int d = 0; d < x.rank(); ++d) {
    if (!reduced[d]) {
      dims.push_back(x.dim(d));
    } else if (keep_dims) {
      dims.push_back(1);
    }
  }
  c.set_output(0, PartialShape::Trusted(dims));
  return absl::OkStatus();
}

// Input 0 without the one dimension that input 1 names.
absl::Status ArgReductionShape(InferenceContext& c) {
  const PartialShape& x = c.input(0);
  if (!x.known_rank() || x.rank() == 0) return absl::OkStatus();
  const Tensor* axis_tensor = c.constant(1);
  if (axis_tensor == nullptr || axis_tensor->dtype() == DType::kInt16 ||
      axis_tensor->num_elements() != 1) {
    c.set_output(0, PartialShape::OfRank(x.rank() - 1));
    return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(Dims axis, IntegersOf(*axis_tensor, "dimension"));
  if (axis[0] < -x.rank() || axis[0] >= x.rank()) {
    return InvalidArgument("Dimension (", axis[0], ") must be in the range [", -x.rank(), ", ",
                           x.rank(), "), where ", x.rank(),
                           " is the number of dimensions in the input.");
  }
  Dims dims(x.dims().begin(), x.dims().end());
  dims.erase(dims.begin() + (axis[0] < 0 ? axis[0] + x.rank() : axis[0]));
  c.set_output(0, PartialShape::Trusted(dims));
  return absl::OkStatus();
}

absl::Status BincountShape(InferenceContext& c) {
  const PartialShape& values = c.input(0);
  if (!values.known_rank()) return absl::OkStatus();
  int64_t size = -1;
  if (const Tensor* tensor = c.constant(1); tensor != nullptr && tensor->num_elements() == 1) {
    FORMWORK_ASSIGN_OR_RETURN(Dims sizes, IntegersOf(*tensor, "size"));
    if (sizes[0] < 0) return InvalidArgument("size (", sizes[0], ") must be non-negative");
    size = sizes[0];
  }
  Dims dims;
  if (values.rank() == 2) dims.push_back(values.dim(0));
  dims.push_back(size);
  c.set_output(0, PartialShape::Trusted(dims));
  return absl::OkStatus();
}

}  // namespace

void RegisterReductionOps(OpRegistry& registry) {
  registry.Add(
      "Sum(input: T, reduction_indices: Tidx) -> (output: T); keep_dims: bool = false; T: "
      "numbertype; Tidx: indextype = int32",
      {.shape_fn = ReductionShape});
  registry.Add(
      "Prod(input: T, reduction_indices: Tidx) -> (output: T); keep_dims: bool = false; T: "
      "numbertype; Tidx: indextype = int32",
      {.shape_fn = ReductionShape});
  registry.Add(
      "Mean(input: T, reduction_indices: Tidx) -> (output: T); keep_dims: bool = false; T: "
      "numbertype; Tidx: indextype = int32",
      {.shape_fn = ReductionShape});
  registry.Add(
      "Max(input: T, reduction_indices: Tidx) -> (output: T); keep_dims: bool = false; T: "
      "{realnumbertype, quantizedtype}; Tidx: indextype = int32",
      {.shape_fn = ReductionShape});
  registry.Add(
      "Min(input: T, reduction_indices: Tidx) -> (output: T); keep_dims: bool = false; T: "
      "{realnumbertype, quantizedtype}; Tidx: indextype = int32",
      {.shape_fn = ReductionShape});
  registry.Add(
      "All(input: bool, reduction_indices: Tidx) -> (output: bool); keep_dims: bool = false; Tidx: "
      "indextype = int32",
      {.shape_fn = ReductionShape});
  registry.Add(
      "Any(input: bool, reduction_indices: Tidx) -> (output: bool); keep_dims: bool = false; Tidx: "
      "indextype = int32",
      {.shape_fn = ReductionShape});
  registry.Add(
      "ArgMax(input: T, dimension: Tidx) -> (output: output_type); T: {realnumbertype, "
      "quantizedtype, bool}; Tidx: {int16, int32, int64} = int32; output_type: {int16, uint16, "
      "int32, int64} = int64",
      {.shape_fn = ArgReductionShape});
  registry.Add(
      "Cumsum(x: T, axis: Tidx) -> (out: T); exclusive: bool = false; reverse: bool = false; T: "
      "numbertype; Tidx: indextype = int32",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "DenseBincount(input: Tidx, size: Tidx, weights: T) -> (output: T); Tidx: indextype; T: "
      "{int32, int64, float, double}; binary_output: bool = false",
      {.shape_fn = BincountShape, .sized_by_value = true});
  registry.Add("L2Loss(t: T) -> (output: T); T: floattype", {.shape_fn = shapes::Scalar});
  registry.Add(
      "ArgMin(input: T, dimension: Tidx) -> (output: output_type); T: {realnumbertype, "
      "quantizedtype, bool}; Tidx: indextype = int32; output_type: indextype = int64",
      {.shape_fn = ArgReductionShape});
  registry.Add(
      "Cumprod(x: T, axis: Tidx) -> (out: T); exclusive: bool = false; reverse: bool = false; T: "
      "numbertype; Tidx: indextype = int32",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "EuclideanNorm(input: T, reduction_indices: Tidx) -> (output: T); keep_dims: bool = false; "
      "T: numbertype; Tidx: indextype = int32",
      {.shape_fn = ReductionShape});
}

}  // namespace formwork
