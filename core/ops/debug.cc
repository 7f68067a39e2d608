#include "core/ops/debug.h"

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/graph_dtype.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<PrintAttrs> PrintAttrs::FromAttrs(const AttrMap& attrs) {
  return ReadAttrs<PrintAttrs>(attrs, "message", &PrintAttrs::message, "first_n",
                               &PrintAttrs::first_n, "summarize", &PrintAttrs::summarize);
}

absl::StatusOr<PrintV2Attrs> PrintV2Attrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(PrintV2Attrs read,
                            ReadAttrs<PrintV2Attrs>(attrs, "output_stream", &PrintV2Attrs::stream,
                                                    "end", &PrintV2Attrs::end));
  for (absl::string_view known : {"stdout", "stderr", "log(info)", "log(warning)", "log(error)"}) {
    if (read.stream == known) return read;
  }
  if (absl::StartsWith(read.stream, "file://")) return read;
  return InvalidArgument("Unknown output stream: ", read.stream,
                         ", Valid streams are: stdout stderr log(info) log(warning) log(error)");
}

absl::StatusOr<ImageSummaryAttrs> ImageSummaryAttrs::FromAttrs(const AttrMap& attrs) {
  ImageSummaryAttrs read;
  FORMWORK_ASSIGN_OR_RETURN(read.max_images, attrs.Get<int64_t>("max_images"));
  FORMWORK_ASSIGN_OR_RETURN(const Tensor color, attrs.Get<Tensor>("bad_color"));
  if (read.max_images >= int64_t{1} << 31) return InvalidArgument("max_images must be < 2^31");
  if (color.dtype() != DType::kUint8) {
    return InvalidArgument("bad_color must be uint8, got ", GraphDTypeName(color.dtype()));
  }
  if (color.rank() != 1) {
    return InvalidArgument("bad_color must be a vector, got shape ", color.shape().ToString());
  }
  const uint8_t* const channels = color.data<uint8_t>();
  read.bad_color.assign(channels, channels + color.num_elements());
  return read;
}

absl::Status CheckImageSummary(absl::Span<const int64_t> tag, absl::Span<const int64_t> images) {
  if (!tag.empty()) return InvalidArgument("Tags must be a scalar");
  if (images.size() != 4 || (images[3] != 1 && images[3] != 3 && images[3] != 4)) {
    return InvalidArgument("Tensor must be 4-D with last dim 1, 3, or 4, not ", DimsText(images));
  }
  constexpr int64_t kMost = int64_t{1} << 31, kMostPixels = int64_t{1} << 29;
  if (images[0] >= kMost || images[1] >= kMost || images[2] >= kMost ||
      images[1] * images[2] >= kMostPixels) {
    return InvalidArgument("Tensor too large for summary ", DimsText(images));
  }
  if (images[0] > 0 && images[1] * images[2] == 0) {
    return InvalidArgument("input tensor must have non-zero dims. Found: [",
                           absl::StrJoin(images, ", "), "].");
  }
  return absl::OkStatus();
}

void RegisterDebugOps(OpRegistry& registry) {
  registry.Add(
      "Assert(condition: host bool, data: host T) -> (); T: list(type) >= 1; summarize: int = 3",
      {.effect = Effect::kExternal});
  registry.Add(
      "PrintV2(input: string) -> (); output_stream: string = \"stderr\"; end: string = \"\\n\"",
      {.effect = Effect::kExternal});
  registry.Add(
      "Print(input: T, data: U) -> (output: T); T: type; U: list(type) >= 0; message: string = "
      "\"\"; first_n: int = -1; summarize: int = 3",
      {.shape_fn = shapes::SameAsFirstInput, .effect = Effect::kExternal});
  registry.Add("CheckNumerics(tensor: T) -> (output: T); T: floattype; message: string",
               {.shape_fn = shapes::SameAsFirstInput, .effect = Effect::kExternal});
  registry.Add("Timestamp() -> (ts: double)",
               {.shape_fn = shapes::Scalar, .effect = Effect::kExternal});
  registry.Add("ScalarSummary(tags: string, values: T) -> (summary: string); T: realnumbertype",
               {.shape_fn = shapes::Scalar});
  registry.Add(
      "HistogramSummary(tag: string, values: T) -> (summary: string); T: realnumbertype = float",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "ImageSummary(tag: string, tensor: T) -> (summary: string); max_images: int >= 1 = 3; T: "
      "{uint8, float, half, double} = float; bad_color: tensor = uint8[255, 0, 0, 255]",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "TensorSummary(tensor: T) -> (summary: string); T: type; description: string = \"\"; "
      "labels: list(string) = []; display_name: string = \"\"",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "TensorSummaryV2(tag: string, tensor: T, serialized_summary_metadata: string) -> (summary: "
      "string); T: type",
      {.shape_fn = shapes::Scalar});
  registry.Add("MergeSummary(inputs: N*string) -> (summary: string); N: int >= 1",
               {.shape_fn = shapes::Scalar});
  registry.Add("CheckNumericsV2(tensor: T) -> (output: T); T: floattype; message: string",
               {.shape_fn = shapes::SameAsFirstInput, .effect = Effect::kExternal});
}

}  // namespace formwork
