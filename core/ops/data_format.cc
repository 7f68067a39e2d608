#include "core/ops/data_format.h"

#include <algorithm>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

// A letter for each dimension, and no letter twice.
bool ArePermuted(std::string a, std::string b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b && std::adjacent_find(a.begin(), a.end()) == a.end();
}

std::string SpatialOf(absl::string_view format) {
  std::string spatial;
  for (const char c : format) {
    if (c == 'H' || c == 'W' || (c == 'D' && format.size() == 5)) spatial.push_back(c);
  }
  return spatial;
}

}  // namespace

absl::StatusOr<DataFormatAttrs> DataFormatAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(DataFormatAttrs read,
                            ReadAttrs<DataFormatAttrs>(attrs, "src_format", &DataFormatAttrs::src,
                                                       "dst_format", &DataFormatAttrs::dst));
  if (read.src.size() != 4 && read.src.size() != 5) {
    return InvalidArgument("Source format must be of length 4 or 5, received src_format = ",
                           read.src);
  }
  if (read.dst.size() != 4 && read.dst.size() != 5) {
    return InvalidArgument("Destination format must be of length 4 or 5, received dst_format = ",
                           read.dst);
  }
  if (!ArePermuted(read.src, read.dst)) {
    return InvalidArgument("Destination and source format must determine a permutation, got ",
                           read.src, " and ", read.dst);
  }
  return read;
}

Dims DataFormatAttrs::Map() const {
  Dims map;
  for (const char c : src) map.push_back(static_cast<int64_t>(dst.find(c)));
  return map;
}

absl::StatusOr<Dims> PrepareVecPermute(const DataFormatAttrs& attrs, absl::Span<const int64_t> x) {
  if (x.size() != 1 && x.size() != 2) {
    return InvalidArgument("input must be a vector or 2D tensor, but got shape ", DimsText(x));
  }
  const int64_t full = static_cast<int64_t>(attrs.src.size()), spatial = full - 2;
  if (!MayBeEqual(x[0], full) && !MayBeEqual(x[0], spatial)) {
    return InvalidArgument(x.size() == 1 ? "1D input" : "First dimension of 2D input",
                           " must be of size ", spatial, " or ", full, ", but got shape ",
                           DimsText(x));
  }
  if (x.size() == 2 && !MayBeEqual(x[1], 2)) {
    return InvalidArgument("Second dimension of 2D input must be of size 2, but got shape ",
                           DimsText(x));
  }
  std::string src = attrs.src, dst = attrs.dst;
  if (x[0] == spatial) {
    src = SpatialOf(src);
    dst = SpatialOf(dst);
    if (static_cast<int64_t>(src.size()) != spatial) {
      return InvalidArgument("Format specifier must contain ",
                             spatial == 2 ? "H and W for 2D" : "D, H and W for 3D", " case");
    }
  }
  Dims from;
  for (const char c : dst) from.push_back(static_cast<int64_t>(src.find(c)));
  return from;
}

namespace {

absl::Status DimMapShape(InferenceContext& c) {
  FORMWORK_RETURN_IF_ERROR(DataFormatAttrs::FromAttrs(c.attrs()).status());
  return shapes::SameAsFirstInput(c);
}

absl::Status VecPermuteShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const DataFormatAttrs attrs, DataFormatAttrs::FromAttrs(c.attrs()));
  if (c.input(0).known_rank()) {
    FORMWORK_RETURN_IF_ERROR(PrepareVecPermute(attrs, c.input(0).dims()).status());
  }
  return shapes::SameAsFirstInput(c);
}

}  // namespace

void RegisterDataFormatOps(OpRegistry& registry) {
  registry.Add(
      "DataFormatDimMap(x: T) -> (y: T); T: indextype = int32; src_format: string = \"NHWC\"; "
      "dst_format: string = \"NCHW\"",
      {.shape_fn = DimMapShape});
  registry.Add(
      "DataFormatVecPermute(x: T) -> (y: T); T: indextype = int32; src_format: string = "
      "\"NHWC\"; dst_format: string = \"NCHW\"",
      {.shape_fn = VecPermuteShape});
}

}  // namespace formwork
