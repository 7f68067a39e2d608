#include "core/ops/string.h"

#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/graph_dtype.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<Dims> PrepareStringJoin(int n, DimsOfValue dims) {
  Dims joined;
  for (int i = 0; i < n; ++i) {
    const absl::Span<const int64_t> input = dims(i);
    if (input.empty()) continue;
    if (joined.empty()) {
      joined.assign(input.begin(), input.end());
      continue;
    }
    if (!MayBeEqual(joined, input)) {
      return InvalidArgument("Input shapes do not match: ", DimsText(joined), " vs. ",
                             DimsText(input));
    }
    for (size_t d = 0; d < joined.size(); ++d) {
      if (joined[d] < 0) joined[d] = input[d];
    }
  }
  return joined;
}

absl::StatusOr<StringFormatAttrs> StringFormatAttrs::FromAttrs(const AttrMap& attrs,
                                                               size_t num_inputs) {
  struct Given {
    std::string form;
    std::string placeholder;
    int64_t summarize = 3;
  };
  FORMWORK_ASSIGN_OR_RETURN(const Given given,
                            ReadAttrs<Given>(attrs, "template", &Given::form, "placeholder",
                                             &Given::placeholder, "summarize", &Given::summarize));
  StringFormatAttrs read;
  read.summarize = given.summarize;
  size_t begin = 0;
  while (!given.placeholder.empty()) {
    const size_t end = given.form.find(given.placeholder, begin);
    if (end == std::string::npos) break;
    read.pieces.push_back(given.form.substr(begin, end - begin));
    begin = end + given.placeholder.size();
  }
  read.pieces.push_back(given.form.substr(begin));
  if (read.pieces.size() - 1 != num_inputs) {
    return InvalidArgument("num placeholders in template and num inputs must match: ",
                           read.pieces.size() - 1, " vs. ", num_inputs);
  }
  return read;
}

absl::StatusOr<AsStringAttrs> AsStringAttrs::FromAttrs(const AttrMap& attrs, DType dtype) {
  using A = AsStringAttrs;
  FORMWORK_ASSIGN_OR_RETURN(
      A read, ReadAttrs<A>(attrs, "precision", &A::precision, "scientific", &A::scientific,
                           "shortest", &A::shortest, "width", &A::width, "fill", &A::fill));
  if (!IsFloating(dtype) && !IsComplex(dtype) && dtype != DType::kString) {
    if (read.scientific || read.shortest) {
      return InvalidArgument("scientific and shortest format not supported for datatype ",
                             GraphDTypeName(dtype));
    }
    if (read.precision >= 0) {
      return InvalidArgument("precision not supported for datatype ", GraphDTypeName(dtype));
    }
  }
  if (read.fill.size() > 1) return InvalidArgument("Fill string must be one or fewer characters");
  if (read.scientific && read.shortest) {
    return InvalidArgument("Cannot select both scientific and shortest notation");
  }
  if (!read.fill.empty() && !absl::StrContains(" +-0#", read.fill)) {
    return InvalidArgument("Fill argument not supported: \"", absl::CEscape(read.fill), "\"");
  }
  // Bounds what one element takes, far beyond any use.
  constexpr int64_t kMaxWidth = 1 << 16;
  if (read.width > kMaxWidth || read.precision > kMaxWidth) {
    return InvalidArgument("AsString: width or precision is too large: width=", read.width,
                           " precision=", read.precision, " limit=", kMaxWidth);
  }
  return read;
}

absl::StatusOr<CharacterAttrs> CharacterAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(const std::string unit, attrs.Get<std::string>("unit"));
  return CharacterAttrs{unit == "UTF8_CHAR"};
}

absl::StatusOr<CaseAttrs> CaseAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(const std::string encoding, attrs.Get<std::string>("encoding"));
  if (!encoding.empty() && encoding != "utf-8") {
    return InvalidArgument("only utf-8 or '' (no encoding) is supported, received ", encoding);
  }
  return CaseAttrs{!encoding.empty()};
}

absl::StatusOr<Dims> PrepareSubstr(absl::Span<const int64_t> input, absl::Span<const int64_t> pos,
                                   absl::Span<const int64_t> len) {
  if (!MayBeEqual(pos, len)) {
    return InvalidArgument("pos and len should have the same shape, got: ", DimsText(pos), " vs. ",
                           DimsText(len));
  }
  std::optional<Dims> output = BroadcastDims(input, pos);
  if (!output) {
    return InvalidArgument("Incompatible shapes: ", DimsText(input), " vs. ", DimsText(pos));
  }
  return *std::move(output);
}

namespace {

absl::Status StringJoinShape(InferenceContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.input(i).known_rank()) return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(
      const Dims dims, PrepareStringJoin(c.num_inputs(), [&](int i) { return c.input(i).dims(); }));
  c.set_output(0, PartialShape::Trusted(dims));
  return absl::OkStatus();
}

absl::Status SubstrShape(InferenceContext& c) {
  for (int i = 0; i < 3; ++i) {
    if (!c.input(i).known_rank()) return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims,
                            PrepareSubstr(c.input(0).dims(), c.input(1).dims(), c.input(2).dims()));
  c.set_output(0, PartialShape::Trusted(dims));
  return absl::OkStatus();
}

}  // namespace

void RegisterStringOps(OpRegistry& registry) {
  registry.Add(
      "StringJoin(inputs: N*string) -> (output: string); N: int >= 0; separator: string = "
      "\"\"",
      {.shape_fn = StringJoinShape});
  registry.Add(
      "StringFormat(inputs: T) -> (output: string); T: list(type) >= 0; template: string = "
      "\"%s\"; placeholder: string = \"%s\"; summarize: int = 3",
      {.shape_fn = shapes::Scalar});
  registry.Add(
      "AsString(input: T) -> (output: string); T: {realnumbertype, complextype, bool, variant, "
      "string}; precision: int = -1; scientific: bool = false; shortest: bool = false; width: int "
      "= -1; fill: string = \"\"",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "StringLength(input: string) -> (output: int32); unit: {\"BYTE\", \"UTF8_CHAR\"} = \"BYTE\"",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add("StringLower(input: string) -> (output: string); encoding: string = \"\"",
               {.shape_fn = shapes::SameAsFirstInput});
  registry.Add("StringUpper(input: string) -> (output: string); encoding: string = \"\"",
               {.shape_fn = shapes::SameAsFirstInput});
  registry.Add("StringStrip(input: string) -> (output: string)",
               {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "Substr(input: string, pos: T, len: T) -> (output: string); T: indextype; unit: {\"BYTE\", "
      "\"UTF8_CHAR\"} = \"BYTE\"",
      {.shape_fn = SubstrShape});
}

}  // namespace formwork
