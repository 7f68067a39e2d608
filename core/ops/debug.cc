#include "core/ops/debug.h"

#include "absl/strings/match.h"
#include "core/base/status.h"
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
  registry.Add("MergeSummary(inputs: N*string) -> (summary: string); N: int >= 1",
               {.shape_fn = shapes::Scalar});
  registry.Add("CheckNumericsV2(tensor: T) -> (output: T); T: floattype; message: string",
               {.shape_fn = shapes::SameAsFirstInput, .effect = Effect::kExternal});
}

}  // namespace formwork
