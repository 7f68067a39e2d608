#include "core/ops/pad.h"

#include <string>

#include "core/base/status.h"
#include "core/ops/dims.h"

namespace formwork {
namespace {

// Without the output.
absl::StatusOr<PadGeometry> ReadPaddings(absl::Span<const int64_t> input, const Tensor& paddings) {
  if (paddings.rank() != 2 || paddings.dim(1) != 2) {
    return InvalidArgument("paddings must be a matrix with 2 columns: ",
                           paddings.shape().ToString());
  }
  if (paddings.dim(0) != static_cast<int64_t>(input.size())) {
    return InvalidArgument("The first dimension of paddings must be the rank of inputs",
                           paddings.shape().ToString(), " ", DimsText(input));
  }
  FORMWORK_ASSIGN_OR_RETURN(const Dims flat, IntegersOf(paddings, "paddings"));
  PadGeometry geometry;
  for (size_t i = 0; i < flat.size(); i += 2) {
    if (flat[i] < 0 || flat[i + 1] < 0) {
      return InvalidArgument("Paddings must be non-negative: ", flat[i], " ", flat[i + 1]);
    }
    geometry.before.push_back(flat[i]);
    geometry.after.push_back(flat[i + 1]);
  }
  return geometry;
}

absl::Status AddPaddings(absl::Span<const int64_t> input, PadGeometry& geometry) {
  for (size_t d = 0; d < input.size(); ++d) {
    int64_t dim = input[d];
    if (dim >= 0 && (__builtin_add_overflow(dim, geometry.before[d], &dim) ||
                     __builtin_add_overflow(dim, geometry.after[d], &dim))) {
      return InvalidArgument("paddings overflow dimension ", d, ": ", input[d], " + ",
                             geometry.before[d], " + ", geometry.after[d]);
    }
    geometry.output.push_back(dim);
  }
  return absl::OkStatus();
}

// `dim`: without the paddings.
absl::Status CheckMirrored(const MirrorAttrs& attrs, const PadGeometry& geometry, size_t d,
                           int64_t dim) {
  const int64_t most = dim - attrs.offset;
  if (dim < 0 || (geometry.before[d] <= most && geometry.after[d] <= most)) {
    return absl::OkStatus();
  }
  return InvalidArgument(attrs.offset == 0 ? "paddings must be no greater than the dimension size: "
                                           : "paddings must be less than the dimension size: ",
                         geometry.before[d], ", ", geometry.after[d],
                         attrs.offset == 0 ? " greater than " : " not less than ", dim);
}

}  // namespace

absl::StatusOr<PadGeometry> PreparePad(absl::Span<const int64_t> input, const Tensor& paddings) {
  FORMWORK_ASSIGN_OR_RETURN(PadGeometry geometry, ReadPaddings(input, paddings));
  FORMWORK_RETURN_IF_ERROR(AddPaddings(input, geometry));
  return geometry;
}

absl::StatusOr<MirrorAttrs> MirrorAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(const std::string mode, attrs.Get<std::string>("mode"));
  return MirrorAttrs{.offset = mode == "REFLECT" ? 1 : 0};
}

absl::StatusOr<PadGeometry> PrepareMirrorPad(const MirrorAttrs& attrs,
                                             absl::Span<const int64_t> input,
                                             const Tensor& paddings) {
  FORMWORK_ASSIGN_OR_RETURN(PadGeometry geometry, ReadPaddings(input, paddings));
  for (size_t d = 0; d < input.size(); ++d) {
    FORMWORK_RETURN_IF_ERROR(CheckMirrored(attrs, geometry, d, input[d]));
  }
  FORMWORK_RETURN_IF_ERROR(AddPaddings(input, geometry));
  return geometry;
}

absl::StatusOr<PadGeometry> PrepareMirrorPadGrad(const MirrorAttrs& attrs,
                                                 absl::Span<const int64_t> input,
                                                 const Tensor& paddings) {
  FORMWORK_ASSIGN_OR_RETURN(PadGeometry geometry, ReadPaddings(input, paddings));
  for (size_t d = 0; d < input.size(); ++d) {
    int64_t dim = input[d];
    if (dim >= 0) {
      if (__builtin_sub_overflow(dim, geometry.before[d], &dim) ||
          __builtin_sub_overflow(dim, geometry.after[d], &dim) || dim < 0) {
        return InvalidArgument("MirrorPadGrad: paddings exceed dimension ", d, ": ", input[d]);
      }
      FORMWORK_RETURN_IF_ERROR(CheckMirrored(attrs, geometry, d, dim));
    }
    geometry.output.push_back(dim);
  }
  return geometry;
}

}  // namespace formwork
