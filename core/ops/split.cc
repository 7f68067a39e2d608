#include "core/ops/split.h"

#include <utility>

#include "core/base/status.h"
#include "core/ops/read_attrs.h"

namespace formwork {
namespace {

absl::StatusOr<int> SplitAxis(const Tensor& split_dim, size_t num_dims) {
  if (!split_dim.shape().is_scalar()) {
    return InvalidArgument("split_dim must be a scalar but has rank ", split_dim.rank());
  }
  FORMWORK_ASSIGN_OR_RETURN(Dims values, IntegersOf(split_dim, "split_dim"));
  const auto rank = static_cast<int64_t>(num_dims);
  const int64_t axis = values[0] < 0 ? values[0] + rank : values[0];
  if (axis < 0 || axis >= rank) {
    return InvalidArgument("-input rank(-", rank, ") <= split_dim < input rank (", rank,
                           "), but got ", values[0]);
  }
  return static_cast<int>(axis);
}

// `total` is -1 where it is not known.
absl::StatusOr<Dims> SplitSizes(const Tensor& sizes, int parts, int64_t total) {
  if (sizes.rank() != 1 || sizes.num_elements() != parts) {
    return InvalidArgument(
        "size of the split_tensor must be 1-D and have the same elements as outputs got ",
        sizes.rank(), " -D and ", sizes.num_elements(), " elements");
  }
  Dims values;
  if (sizes.dtype() == DType::kInt8) {
    for (int8_t size : sizes.span<int8_t>()) values.push_back(size);
  } else {
    FORMWORK_ASSIGN_OR_RETURN(values, IntegersOf(sizes, "SplitV: size_splits"));
  }
  int open = -1;
  int64_t sum = 0;
  for (int i = 0; i < parts; ++i) {
    if (values[i] == -1) {
      if (open >= 0) return InvalidArgument("There can only be one -1 in the input.");
      open = i;
      continue;
    }
    if (values[i] < 0) {
      return InvalidArgument("Split size at index ", i, " must be >= 0. Got: ", values[i]);
    }
    if (__builtin_add_overflow(sum, values[i], &sum)) {
      return InvalidArgument("SplitV: the sum of the sizes overflows");
    }
  }
  if (total < 0) return values;
  if (open >= 0 ? sum > total : sum != total) {
    return InvalidArgument(
        "Determined shape must either match input shape along split_dim exactly if fully "
        "specified, or be less than the size of the input along split_dim if not fully specified. "
        " Got: ",
        sum);
  }
  if (open >= 0) values[open] = total - sum;
  return values;
}

}  // namespace

absl::StatusOr<EqualParts> PrepareSplit(absl::Span<const int64_t> dims, const Tensor& split_dim,
                                        int parts) {
  FORMWORK_ASSIGN_OR_RETURN(int axis, SplitAxis(split_dim, dims.size()));
  if (dims[axis] < 0) return EqualParts{axis, -1};
  if (dims[axis] % parts != 0) {
    return InvalidArgument(
        "Number of ways to split should evenly divide the split dimension, but got split_dim ",
        axis, " (size = ", dims[axis], ") and num_split ", parts);
  }
  return EqualParts{axis, dims[axis] / parts};
}

absl::StatusOr<SizedParts> PrepareSplitV(absl::Span<const int64_t> dims, const Tensor* sizes,
                                         const Tensor& split_dim, int parts) {
  FORMWORK_ASSIGN_OR_RETURN(int axis, SplitAxis(split_dim, dims.size()));
  if (sizes == nullptr) return SizedParts{axis, Dims(static_cast<size_t>(parts), -1)};
  FORMWORK_ASSIGN_OR_RETURN(Dims values, SplitSizes(*sizes, parts, dims[axis]));
  return SizedParts{axis, std::move(values)};
}

absl::StatusOr<UnpackAttrs> UnpackAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<UnpackAttrs>(attrs, "axis", &UnpackAttrs::axis);
}

absl::StatusOr<UnpackGeometry> PrepareUnpack(const UnpackAttrs& attrs,
                                             absl::Span<const int64_t> dims, int parts) {
  const auto rank = static_cast<int64_t>(dims.size());
  const int64_t axis = attrs.axis < 0 ? attrs.axis + rank : attrs.axis;
  if (axis < 0 || axis >= rank) {
    return InvalidArgument("axis = ", attrs.axis, " not in [", -rank, ", ", rank, ")");
  }
  if (dims[axis] >= 0 && dims[axis] != parts) {
    return InvalidArgument("Input shape axis ", axis, " must equal ", parts, ", got shape ",
                           PartialShape::Trusted(dims).ToString());
  }
  UnpackGeometry geometry = {static_cast<int>(axis), Dims(dims.begin(), dims.end())};
  geometry.output.erase(geometry.output.begin() + axis);
  return geometry;
}

}  // namespace formwork
