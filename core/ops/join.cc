#include "core/ops/join.h"

#include <optional>
#include <utility>

#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/host_values.h"
#include "core/ops/read_attrs.h"

namespace formwork {

absl::StatusOr<PackAttrs> PackAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<PackAttrs>(attrs, "axis", &PackAttrs::axis);
}

absl::StatusOr<JoinGeometry> PreparePack(const PackAttrs& attrs, int n, DimsOfValue dims) {
  const absl::Span<const int64_t> first = dims(0);
  const int rank = static_cast<int>(first.size()) + 1;
  const int axis = FrontAxis(attrs.axis, rank);
  if (axis < 0) {
    return InvalidArgument("axis = ", attrs.axis, " not in [-", rank, ", ", rank, ")");
  }
  for (int i = 1; i < n; ++i) {
    if (MayBeEqual(dims(i), first)) continue;
    return InvalidArgument("Shapes of all inputs must match: values[0].shape = ", DimsText(first),
                           " != values[", i, "].shape = ", DimsText(dims(i)));
  }
  JoinGeometry geometry = {axis, Dims(first.begin(), first.end())};
  geometry.output.insert(geometry.output.begin() + axis, n);
  return geometry;
}

absl::StatusOr<JoinGeometry> PrepareConcat(int n, DimsOfValue dims, int64_t axis) {
  const absl::Span<const int64_t> first = dims(0);
  const int rank = static_cast<int>(first.size());
  if (rank == 0) {
    return InvalidArgument("ConcatOp : Can't concatenate scalars (use tf.stack instead)");
  }
  const int at = FrontAxis(axis, rank);
  if (at < 0) {
    return InvalidArgument("ConcatOp : Expected concatenating dimensions in the range [-", rank,
                           ", ", rank, "), but got ", axis);
  }
  JoinGeometry geometry = {at, Dims(first.begin(), first.end())};
  Dims& output = geometry.output;
  for (int i = 1; i < n; ++i) {
    const absl::Span<const int64_t> other = dims(i);
    if (static_cast<int>(other.size()) != rank) {
      return InvalidArgument("ConcatOp : Ranks of all input tensors should match: shape[0] = ",
                             DimsText(first), " vs. shape[", i, "] = ", DimsText(other));
    }
    for (int d = 0; d < rank; ++d) {
      if (d == at) continue;
      if (!MayBeEqual(other[d], output[d])) {
        return InvalidArgument("ConcatOp : Dimension ", d,
                               " in both shapes must be equal: shape[0] = ", DimsText(first),
                               " vs. shape[", i, "] = ", DimsText(other));
      }
      if (output[d] < 0) output[d] = other[d];
    }
    const std::optional<int64_t> sum = AddDims(output[at], other[at]);
    if (!sum) return InvalidArgument("ConcatOp : the concatenated dimension overflows");
    output[at] = *sum;
  }
  return geometry;
}

absl::StatusOr<JoinGeometry> PrepareConcat(int n, DimsOfValue dims, const Tensor& axis) {
  if (axis.num_elements() != 1) {
    return InvalidArgument("axis tensor should be a scalar integer, but got shape ",
                           axis.shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(const int64_t at, IntegerFromTensor(axis, "axis"));
  return PrepareConcat(n, dims, at);
}

absl::StatusOr<Shape> PrepareParallelConcat(const PartialShape& shape, int n, DimsOfValue dims) {
  const std::optional<Shape> output = shape.ToShape();
  if (!output) return InvalidArgument("shape attr must be fully defined.");
  if (output->rank() == 0 || output->dim(0) != n) {
    return InvalidArgument("shape attr must have as many rows as there are values: shape=",
                           output->ToString(), " values=", n);
  }
  Dims row(output->dims().begin(), output->dims().end());
  row[0] = 1;
  for (int i = 0; i < n; ++i) {
    const absl::Span<const int64_t> value = dims(i);
    if (value.size() == row.size() && MayBeEqual(value, row)) continue;
    return InvalidArgument(
        "All input shapes must be fully defined, and a row of the output: value ", i, " has shape ",
        DimsText(value), ", not ", DimsText(row));
  }
  return *output;
}

}  // namespace formwork
