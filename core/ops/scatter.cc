#include "core/ops/scatter.h"

#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/dims.h"
#include "core/ops/host_values.h"
#include "core/ops/register_ops.h"

namespace formwork {

absl::StatusOr<BadIndices> BadIndices::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(const std::string policy, attrs.Get<std::string>("bad_indices_policy"));
  if (policy == "IGNORE") return BadIndices{.ignored = true};
  if (policy.empty() || policy == "DEFAULT" || policy == "ERROR") return BadIndices();
  return InvalidArgument("Unknown bad_indices_policy: ", policy);
}

namespace {

absl::Status CheckScatterNd(absl::Span<const int64_t> target, absl::Span<const int64_t> indices,
                            absl::Span<const int64_t> updates) {
  if (indices.empty()) {
    return InvalidArgument("Indices shape must have rank at least one. Found:", DimsText(indices));
  }
  if (updates.empty()) {
    return InvalidArgument("Updates shape must have rank at least one. Found:", DimsText(updates));
  }
  const size_t batch = indices.size() - 1;
  const int64_t depth = indices.back();
  if (updates.size() < batch || updates.first(batch) != indices.first(batch)) {
    return InvalidArgument("Dimensions [0,", batch, ") of indices[shape=", DimsText(indices),
                           "] must match dimensions [0,", batch,
                           ") of updates[shape=", DimsText(updates), "]");
  }
  if (depth > static_cast<int64_t>(target.size()) ||
      updates.subspan(batch) != target.subspan(static_cast<size_t>(depth))) {
    return InvalidArgument("Dimensions [", depth, ",", target.size(),
                           ") of input[shape=", DimsText(target), "] must match dimensions [",
                           batch, ",", updates.size(), ") of updates[shape=", DimsText(updates),
                           "]");
  }
  return absl::OkStatus();
}

// Of shapes that fit.
absl::StatusOr<ScatterGeometry> ScatterNdGeometry(absl::Span<const int64_t> target,
                                                  absl::Span<const int64_t> indices) {
  const size_t depth = static_cast<size_t>(indices.back());
  const ScatterGeometry geometry = {.depth = indices.back(),
                                    .rows = CountElements(target.first(depth)),
                                    .count = CountElements(indices.first(indices.size() - 1)),
                                    .inner = CountElements(target.subspan(depth))};
  if (geometry.count > 0 && CountElements(target) == 0) {
    return InvalidArgument("Indices and updates specified for empty output.  indices shape: ",
                           DimsText(indices));
  }
  return geometry;
}

// TensorFlow's rule: either there is nothing to scatter, or something in each of the three; so
// indices of no columns, which would name the whole target, are refused. ScatterNd's target is its
// shape operand here.
absl::Status CheckNothingEmpty(absl::Span<const int64_t> target, absl::Span<const int64_t> indices,
                               absl::Span<const int64_t> updates) {
  const bool no_indices = CountElements(indices) == 0, no_updates = CountElements(updates) == 0;
  if (no_indices && no_updates) return absl::OkStatus();
  if (!no_indices && !no_updates && CountElements(target) != 0) return absl::OkStatus();
  return InvalidArgument("Indices and updates specified for empty output shape");
}

}  // namespace

absl::StatusOr<ScatterGeometry> PrepareScatterNdUpdate(absl::Span<const int64_t> target,
                                                       absl::Span<const int64_t> indices,
                                                       absl::Span<const int64_t> updates) {
  FORMWORK_RETURN_IF_ERROR(CheckScatterNd(target, indices, updates));
  return ScatterNdGeometry(target, indices);
}

absl::StatusOr<ScatterGeometry> PrepareTensorScatter(absl::Span<const int64_t> target,
                                                     absl::Span<const int64_t> indices,
                                                     absl::Span<const int64_t> updates) {
  if (indices.empty() || updates.empty()) return CheckScatterNd(target, indices, updates);
  FORMWORK_RETURN_IF_ERROR(CheckNothingEmpty(target, indices, updates));
  const size_t batch = indices.size() - 1;
  if (updates.size() < batch || updates.first(batch) != indices.first(batch)) {
    return InvalidArgument("Outer dimensions of indices and update must match. Indices shape: ",
                           DimsText(indices), ", updates shape:", DimsText(updates));
  }
  const int64_t depth = indices.back();
  if (depth > static_cast<int64_t>(target.size()) ||
      updates.subspan(batch) != target.subspan(static_cast<size_t>(depth))) {
    return InvalidArgument("Inner dimensions of output shape must match inner dimensions of ",
                           "updates shape. Output: ", DimsText(target),
                           " updates: ", DimsText(updates));
  }
  return ScatterNdGeometry(target, indices);
}

absl::StatusOr<ScatterGeometry> PrepareScatterRows(absl::Span<const int64_t> target,
                                                   absl::Span<const int64_t> indices,
                                                   absl::Span<const int64_t> updates) {
  if (target.empty()) {
    return InvalidArgument("params must be at least 1-D, got shape ", DimsText(target));
  }
  const absl::Span<const int64_t> slice = target.subspan(1);
  const size_t rank = indices.size();
  if (!updates.empty() && (updates.size() != rank + slice.size() ||
                           updates.first(rank) != indices || updates.subspan(rank) != slice)) {
    return InvalidArgument("Must have updates.shape = indices.shape + params.shape[1:] or ",
                           "updates.shape = [], got updates.shape ", DimsText(updates),
                           ", indices.shape ", DimsText(indices), ", params.shape ",
                           DimsText(target));
  }
  return ScatterGeometry{.depth = 1,
                         .rows = target[0],
                         .count = CountElements(indices),
                         .inner = CountElements(slice),
                         .scalar_update = updates.empty()};
}

absl::StatusOr<ScatterGeometry> PrepareInplace(absl::Span<const int64_t> target,
                                               absl::Span<const int64_t> indices,
                                               absl::Span<const int64_t> updates) {
  if (indices.size() != 1) return InvalidArgument("i must be a vector. ", DimsText(indices));
  if (target.size() != updates.size() || target.empty()) {
    return InvalidArgument("x and v shape doesn't match (ranks differ): ", DimsText(target),
                           " vs. ", DimsText(updates));
  }
  for (size_t d = 1; d < target.size(); ++d) {
    if (target[d] == updates[d]) continue;
    return InvalidArgument("x and v shape doesn't match at index ", d, " : ", DimsText(target),
                           " vs. ", DimsText(updates));
  }
  if (indices[0] != updates[0]) {
    return InvalidArgument("i and x shape doesn't match at index 0: ", DimsText(indices), " vs. ",
                           DimsText(updates));
  }
  return ScatterGeometry{.depth = 1,
                         .rows = target[0],
                         .count = indices[0],
                         .inner = CountElements(target.subspan(1))};
}

absl::StatusOr<NewScatterGeometry> PrepareScatterNd(const Tensor& shape,
                                                    absl::Span<const int64_t> indices,
                                                    absl::Span<const int64_t> updates) {
  if (shape.rank() != 1) return InvalidArgument("Shape must be a vector");
  FORMWORK_ASSIGN_OR_RETURN(Shape output, ShapeFromTensor(shape, "shape"));
  FORMWORK_RETURN_IF_ERROR(CheckScatterNd(output.dims(), indices, updates));
  FORMWORK_RETURN_IF_ERROR(CheckNothingEmpty(shape.shape().dims(), indices, updates));
  FORMWORK_ASSIGN_OR_RETURN(const ScatterGeometry scatter,
                            ScatterNdGeometry(output.dims(), indices));
  return NewScatterGeometry{std::move(output), scatter};
}

namespace {

absl::Status ScatterNdShape(InferenceContext& c) {
  if (c.constant(2) == nullptr) {
    c.set_output(0, array_shapes::OfLength(c.input(2)));
    return absl::OkStatus();
  }
  const PartialShape& indices = c.input(0);
  const PartialShape& updates = c.input(1);
  if (!indices.fully_known() || !updates.fully_known()) {
    FORMWORK_ASSIGN_OR_RETURN(Shape shape, ShapeFromTensor(*c.constant(2), "shape"));
    c.set_output(0, std::move(shape));
    return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(const NewScatterGeometry geometry,
                            PrepareScatterNd(*c.constant(2), indices.dims(), updates.dims()));
  c.set_output(0, geometry.output);
  return absl::OkStatus();
}

}  // namespace

void RegisterScatterOps(OpRegistry& registry) {
  registry.Add("InplaceUpdate(x: T, i: int32, v: T) -> (y: T); T: type",
               {.shape_fn = shapes::SameAsFirstInput});
  registry.Add("InplaceAdd(x: T, i: int32, v: T) -> (y: T); T: type",
               {.shape_fn = shapes::SameAsFirstInput});
  registry.Add("InplaceSub(x: T, i: int32, v: T) -> (y: T); T: type",
               {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "TensorScatterUpdate(tensor: T, indices: Tindices, updates: T) -> (output: T); T: type; "
      "Tindices: {int16, int32, int64, uint16}; bad_indices_policy: string = \"\"",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "ScatterNd(indices: Tindices, updates: T, shape: host Tindices) -> (output: T); T: type; "
      "Tindices: {int16, int32, int64}; bad_indices_policy: string = \"\"",
      {.shape_fn = ScatterNdShape, .sized_by_value = true});
  registry.Add(
      "TensorScatterAdd(tensor: T, indices: Tindices, updates: T) -> (output: T); T: type; "
      "Tindices: indextype; bad_indices_policy: string = \"\"",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "TensorScatterSub(tensor: T, indices: Tindices, updates: T) -> (output: T); T: type; "
      "Tindices: indextype; bad_indices_policy: string = \"\"",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "TensorScatterMax(tensor: T, indices: Tindices, updates: T) -> (output: T); T: type; "
      "Tindices: indextype; bad_indices_policy: string = \"\"",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "TensorScatterMin(tensor: T, indices: Tindices, updates: T) -> (output: T); T: type; "
      "Tindices: indextype; bad_indices_policy: string = \"\"",
      {.shape_fn = shapes::SameAsFirstInput});
}

}  // namespace formwork
