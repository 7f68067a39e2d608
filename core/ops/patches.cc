#include "core/ops/patches.h"

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/dims.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

// One of the lists, into a field of the windows. What it has behind its dimensions means nothing.
absl::Status ReadList(const AttrMap& attrs, absl::string_view name, int64_t WindowAttr::*field,
                      PatchAttrs& to) {
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<int64_t> list, attrs.Get<std::vector<int64_t>>(name));
  if (list.size() < static_cast<size_t>(to.spatial) + 2) {
    return InvalidArgument(name, " must have ", to.spatial + 2, " values");
  }
  for (const int64_t value : list) {
    if (value > std::numeric_limits<int32_t>::max() ||
        value < std::numeric_limits<int32_t>::min()) {
      return InvalidArgument("Attr ", name, " has value ", value, " out of range for an int32");
    }
  }
  if (list[0] != 1 || list[to.spatial + 1] != 1) {
    return Unimplemented("Only support ", name, " across space.");
  }
  for (int i = 0; i < to.spatial; ++i) {
    const int64_t value = list[i + 1];
    if (value < 1) return absl::OutOfRangeError(absl::StrCat(name, " is out of range."));
    to.windows[3 - to.spatial + i].*field = value;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PatchAttrs> PatchAttrs::FromAttrs(const AttrMap& attrs, int spatial) {
  PatchAttrs read;
  read.spatial = spatial;
  FORMWORK_RETURN_IF_ERROR(ReadList(attrs, "ksizes", &WindowAttr::size, read));
  FORMWORK_RETURN_IF_ERROR(ReadList(attrs, "strides", &WindowAttr::stride, read));
  if (spatial == 2) {
    FORMWORK_RETURN_IF_ERROR(ReadList(attrs, "rates", &WindowAttr::dilation, read));
  }
  FORMWORK_ASSIGN_OR_RETURN(const std::string padding, attrs.Get<std::string>("padding"));
  read.padding = padding == "SAME" ? Padding::kSame : Padding::kValid;
  return read;
}

Dims PatchGeometry::patches() const {
  Dims dims = {batch};
  for (int i = 3 - spatial; i < 3; ++i) dims.push_back(axes[i].output);
  dims.push_back(depth);
  return dims;
}

absl::StatusOr<PatchGeometry> PreparePatches(const PatchAttrs& attrs,
                                             absl::Span<const int64_t> input) {
  const int rank = attrs.spatial + 2;
  if (static_cast<int>(input.size()) != rank) {
    return InvalidArgument("input must be ", rank, "-dimensional", DimsText(input));
  }
  PatchGeometry s;
  s.spatial = attrs.spatial;
  s.batch = input[0];
  s.channels = input[rank - 1];
  s.depth = s.channels;
  for (int i = 0; i < 3; ++i) {
    PatchAxis& axis = s.axes[i];
    axis.window = attrs.windows[i];
    if (i >= 3 - attrs.spatial) {
      axis.input = input[i - 2 + attrs.spatial];
      FORMWORK_ASSIGN_OR_RETURN(const WindowedSize size, SlideWindow(axis.input, axis.window.size,
                                                                     axis.window, attrs.padding));
      axis.output = size.output;
      axis.pad_before = size.pad_before;
      if (attrs.spatial == 3 && attrs.padding == Padding::kSame) {
        // As TensorFlow's: where strides step over elements, the first of them are left out.
        const int64_t covered = (axis.output - 1) * axis.window.stride + axis.window.size;
        axis.pad_before = (covered - axis.input) / 2;
      }
    }
    const std::optional<int64_t> depth = MultiplyDims(s.depth, axis.window.size);
    if (!depth.has_value()) return InvalidArgument("patches of too many elements");
    s.depth = *depth;
  }
  return s;
}

namespace {

template <int kSpatial>
absl::Status InferPatches(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const PatchAttrs attrs, PatchAttrs::FromAttrs(c.attrs(), kSpatial));
  const PartialShape input = shapes::OrOfRank(c.input(0), kSpatial + 2);
  FORMWORK_ASSIGN_OR_RETURN(const PatchGeometry s, PreparePatches(attrs, input.dims()));
  return array_shapes::SetOutput(c, 0, s.patches());
}

}  // namespace

void RegisterPatchOps(OpRegistry& registry) {
  // Attrs size what they give: small images do not bound it.
  registry.Add(
      "ExtractImagePatches(images: T) -> (patches: T); ksizes: list(int) >= 4; strides: list(int) "
      ">= 4; rates: list(int) >= 4; T: {bfloat16, half, float, double, int8, int16, int32, int64, "
      "uint8, uint16, uint32, uint64, complex64, complex128, bool}; padding: {\"SAME\", \"VALID\"}",
      {.shape_fn = InferPatches<2>, .sized_by_value = true});
  registry.Add(
      "ExtractVolumePatches(input: T) -> (patches: T); ksizes: list(int) >= 5; strides: list(int) "
      ">= 5; T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, "
      "uint64}; padding: {\"SAME\", \"VALID\"}",
      {.shape_fn = InferPatches<3>, .sized_by_value = true});
}

}  // namespace formwork
