#include "core/ops/unicode.h"

#include <limits>

#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<UnicodeErrorAttrs> UnicodeErrorAttrs::FromAttrs(const AttrMap& attrs) {
  struct Given {
    std::string errors;
    int64_t replacement = 0;
  };
  FORMWORK_ASSIGN_OR_RETURN(
      const Given given,
      ReadAttrs<Given>(attrs, "errors", &Given::errors, "replacement_char", &Given::replacement));
  if (given.replacement < 0 || given.replacement > 0x10ffff) {
    return InvalidArgument("replacement_char out of unicode codepoint range");
  }
  UnicodeErrorAttrs read;
  read.replacement = static_cast<int32_t>(given.replacement);
  if (given.errors == "strict") read.errors = Errors::kStrict;
  if (given.errors == "ignore") read.errors = Errors::kIgnore;
  read.replace_controls =
      attrs.GetOr("replace_control_characters", false);  // Not of UnicodeEncode.
  return read;
}

absl::StatusOr<UnicodeEncoding> OutputEncodingOf(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(const std::string name, attrs.Get<std::string>("output_encoding"));
  if (name == "UTF-8") return UnicodeEncoding::kUtf8;
  return name == "UTF-16-BE" ? UnicodeEncoding::kUtf16 : UnicodeEncoding::kUtf32;
}

absl::Status CheckUnicodeEncode(absl::Span<const int64_t> values,
                                absl::Span<const int64_t> splits) {
  if (values.size() == 1 && splits.size() == 1) return absl::OkStatus();
  return InvalidArgument("Both the input_tensor and input_splits should be of rank 1. ",
                         DimsText(values), " vs. ", DimsText(splits));
}

namespace {

absl::Status DecodeShape(InferenceContext& c) {
  const PartialShape& input = c.input(0);
  const int64_t texts = input.known_rank() ? CountElements(input.dims()) : -1;
  const bool countable = texts >= 0 && texts < std::numeric_limits<int64_t>::max();
  c.set_output(0, PartialShape::Trusted({countable ? texts + 1 : -1}));
  for (int i = 1; i < c.num_outputs(); ++i) c.set_output(i, PartialShape::OfRank(1));
  return absl::OkStatus();
}

absl::Status EncodeShape(InferenceContext& c) {
  const PartialShape values = shapes::OrOfRank(c.input(0), 1);
  const PartialShape splits = shapes::OrOfRank(c.input(1), 1);
  FORMWORK_RETURN_IF_ERROR(CheckUnicodeEncode(values.dims(), splits.dims()));
  const int64_t n = splits.dims()[0];
  c.set_output(0, n > 0 ? PartialShape::Trusted({n - 1}) : PartialShape::OfRank(1));
  return absl::OkStatus();
}

}  // namespace

void RegisterUnicodeOps(OpRegistry& registry) {
  registry.Add(
      "UnicodeDecode(input: string) -> (row_splits: Tsplits, char_values: int32); input_encoding: "
      "string; errors: {\"strict\", \"replace\", \"ignore\"} = \"replace\"; replacement_char: int "
      "= 65533; replace_control_characters: bool = false; Tsplits: indextype = int64",
      {.shape_fn = DecodeShape});
  registry.Add(
      "UnicodeDecodeWithOffsets(input: string) -> (row_splits: Tsplits, char_values: int32, "
      "char_to_byte_starts: int64); input_encoding: string; errors: {\"strict\", \"replace\", "
      "\"ignore\"} = \"replace\"; replacement_char: int = 65533; replace_control_characters: bool "
      "= false; Tsplits: indextype = int64",
      {.shape_fn = DecodeShape});
  registry.Add(
      "UnicodeEncode(input_values: int32, input_splits: Tsplits) -> (output: string); errors: "
      "{\"ignore\", \"replace\", \"strict\"} = \"replace\"; output_encoding: {\"UTF-8\", "
      "\"UTF-16-BE\", \"UTF-32-BE\"}; replacement_char: int = 65533; Tsplits: indextype = int64",
      {.shape_fn = EncodeShape});
  registry.Add(
      "UnicodeTranscode(input: string) -> (output: string); input_encoding: string; "
      "output_encoding: {\"UTF-8\", \"UTF-16-BE\", \"UTF-32-BE\"}; errors: {\"strict\", "
      "\"replace\", \"ignore\"} = \"replace\"; replacement_char: int = 65533; "
      "replace_control_characters: bool = false",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add("UnicodeScript(input: int32) -> (output: int32)",
               {.shape_fn = shapes::SameAsFirstInput});
}

}  // namespace formwork
