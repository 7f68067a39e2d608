#include "core/ops/string.h"

#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/ops/array_shapes.h"
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

absl::StatusOr<StrongHashAttrs> StrongHashAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(
      StrongHashAttrs read,
      ReadAttrs<StrongHashAttrs>(attrs, "num_buckets", &StrongHashAttrs::num_buckets, "key",
                                 &StrongHashAttrs::key));
  if (read.key.size() != 2) return InvalidArgument("Key must have 2 elements");
  return read;
}

absl::StatusOr<Dims> PrepareFingerprint(absl::Span<const int64_t> data, const Tensor* method) {
  if (data.empty()) {
    return InvalidArgument("`data` should have at least one dimension: ", DimsText(data));
  }
  if (method != nullptr) {
    if (method->rank() != 0) {
      return InvalidArgument("`method` should be a scalar string: ", method->shape().ToString());
    }
    if (method->scalar<std::string>() != "farmhash64") {
      return InvalidArgument("Unsupported fingerprint method: ", method->scalar<std::string>());
    }
  }
  return Dims{data[0], method == nullptr ? -1 : 8};
}

absl::Status CheckStringSplit(absl::Span<const int64_t> input, absl::string_view what,
                              absl::Span<const int64_t> separator) {
  if (input.size() != 1) {
    return InvalidArgument("input must be a vector, got shape: ", DimsText(input));
  }
  if (!separator.empty()) {
    return InvalidArgument(what, " must be a scalar, got shape: ", DimsText(separator));
  }
  return absl::OkStatus();
}

absl::StatusOr<NGramsAttrs> NGramsAttrs::FromAttrs(const AttrMap& attrs) {
  using A = NGramsAttrs;
  FORMWORK_ASSIGN_OR_RETURN(
      A read,
      ReadAttrs<A>(attrs, "separator", &A::separator, "ngram_widths", &A::ngram_widths, "left_pad",
                   &A::left_pad, "right_pad", &A::right_pad, "pad_width", &A::pad_width,
                   "preserve_short_sequences", &A::preserve_short_sequences));
  // Far beyond any use, so that the counts that follow from them do not overflow.
  constexpr int64_t kMaxWidth = int64_t{1} << 31;
  for (const int64_t width : read.ngram_widths) {
    if (width <= 0) return InvalidArgument("ngram_widths must contain positive values");
    if (width > kMaxWidth) return InvalidArgument("ngram_widths must be at most ", kMaxWidth);
  }
  if (read.pad_width > kMaxWidth) return InvalidArgument("pad_width must be at most ", kMaxWidth);
  return read;
}

absl::StatusOr<ReduceJoinGeometry> PrepareReduceJoin(absl::Span<const int64_t> input,
                                                     const Tensor* axes, bool keep_dims) {
  ReduceJoinGeometry geometry;
  if (axes == nullptr) return geometry;
  FORMWORK_ASSIGN_OR_RETURN(const Dims given, IntegersOf(*axes, "reduction_indices"));
  const int rank = static_cast<int>(input.size());
  std::vector<bool> joined(input.size());
  for (const int64_t axis : given) {
    const int front = FrontAxis(axis, rank);
    if (front < 0) {
      return absl::OutOfRangeError(absl::StrCat("Invalid reduction dimension ", axis,
                                                " for input with ", rank, " dimension(s)"));
    }
    if (joined[static_cast<size_t>(front)]) {
      return InvalidArgument("Duplicate reduction dimension ", axis);
    }
    joined[static_cast<size_t>(front)] = true;
    geometry.joined.insert(geometry.joined.begin(), front);
  }
  for (size_t d = 0; d < input.size(); ++d) {
    if (!joined[d]) {
      geometry.kept.push_back(static_cast<int64_t>(d));
      geometry.output.push_back(input[d]);
    } else if (keep_dims) {
      geometry.output.push_back(1);
    }
  }
  return geometry;
}

absl::StatusOr<SegmentGeometry> PrepareSegmentJoin(absl::Span<const int64_t> input,
                                                   absl::Span<const int64_t> ids,
                                                   const Tensor* num_segments) {
  if (num_segments != nullptr && num_segments->num_elements() == 0) {
    return InvalidArgument("Number of segments cannot be empty.");
  }
  if (ids.empty()) return InvalidArgument("Segment_id cannot have rank 0");
  if (ids.size() > input.size()) {
    return absl::OutOfRangeError(absl::StrCat("Invalid segment_id rank ", ids.size(),
                                              " for input with ", input.size(), " dimension(s)"));
  }
  for (size_t d = 0; d < ids.size(); ++d) {
    if (MayBeEqual(ids[d], input[d])) continue;
    return InvalidArgument("Segment dimension is ", ids[d], " while input dimension is ",
                           input.size(), " in rank ", d);
  }
  return PrepareUnsortedSegment(input, ids, num_segments);
}

namespace {

absl::Status FingerprintShape(InferenceContext& c) {
  if (!c.input(0).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareFingerprint(c.input(0).dims(), c.constant(1)));
  c.set_output(0, PartialShape::Trusted(dims));
  return absl::OkStatus();
}

absl::Status StringSplitShape(InferenceContext& c) {
  c.set_output(0, PartialShape::Trusted({-1, 2}));
  c.set_output(1, PartialShape::OfRank(1));
  c.set_output(2, Shape({2}));
  return absl::OkStatus();
}

absl::Status NGramsShape(InferenceContext& c) {
  FORMWORK_RETURN_IF_ERROR(NGramsAttrs::FromAttrs(c.attrs()).status());
  if (c.input(0).rank() == 1) c.set_output(0, PartialShape::OfRank(1));
  if (c.input(1).rank() == 1) c.set_output(1, c.input(1));
  return absl::OkStatus();
}

absl::Status ReduceJoinShape(InferenceContext& c) {
  if (!c.input(0).known_rank() || c.constant(1) == nullptr) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const bool keep_dims, c.attrs().Get<bool>("keep_dims"));
  FORMWORK_ASSIGN_OR_RETURN(const ReduceJoinGeometry geometry,
                            PrepareReduceJoin(c.input(0).dims(), c.constant(1), keep_dims));
  c.set_output(0, PartialShape::Trusted(geometry.output));
  return absl::OkStatus();
}

absl::Status SegmentJoinShape(InferenceContext& c) {
  if (!c.input(0).known_rank() || !c.input(1).known_rank()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(
      const SegmentGeometry geometry,
      PrepareSegmentJoin(c.input(0).dims(), c.input(1).dims(), c.constant(2)));
  return array_shapes::SetOutput(c, 0, geometry.output);
}

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
  registry.Add(
      "StringToHashBucket(string_tensor: string) -> (output: int64); num_buckets: int >= 1",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add("StringToHashBucketFast(input: string) -> (output: int64); num_buckets: int >= 1",
               {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "StringToHashBucketStrong(input: string) -> (output: int64); num_buckets: int >= 1; key: "
      "list(int)",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add("Fingerprint(data: T, method: string) -> (fingerprint: uint8); T: type",
               {.shape_fn = FingerprintShape});
  registry.Add(
      "StringSplit(input: string, delimiter: string) -> (indices: int64, values: string, shape: "
      "int64); skip_empty: bool = true",
      {.shape_fn = StringSplitShape});
  registry.Add(
      "StringSplitV2(input: string, sep: string) -> (indices: int64, values: string, shape: "
      "int64); maxsplit: int = -1",
      {.shape_fn = StringSplitShape});
  registry.Add(
      "StaticRegexReplace(input: string) -> (output: string); pattern: string; rewrite: string; "
      "replace_global: bool = true",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "RegexReplace(input: string, pattern: string, rewrite: string) -> (output: string); "
      "replace_global: bool = true",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add("StaticRegexFullMatch(input: string) -> (output: bool); pattern: string",
               {.shape_fn = shapes::SameAsFirstInput});
  registry.Add("RegexFullMatch(input: string, pattern: string) -> (output: bool)",
               {.shape_fn = shapes::SameAsFirstInput});
  registry.Add(
      "ReduceJoin(inputs: string, reduction_indices: int32) -> (output: string); keep_dims: bool = "
      "false; separator: string = \"\"",
      {.shape_fn = ReduceJoinShape});
  registry.Add(
      "UnsortedSegmentJoin(inputs: string, segment_ids: Tindices, num_segments: Tnumsegments) -> "
      "(output: string); separator: string = \"\"; Tindices: indextype; Tnumsegments: indextype = "
      "int32",
      {.shape_fn = SegmentJoinShape, .sized_by_value = true});
  registry.Add(
      "StringNGrams(data: string, data_splits: Tsplits) -> (ngrams: string, ngrams_splits: "
      "Tsplits); separator: string; ngram_widths: list(int) >= 0; left_pad: string; right_pad: "
      "string; pad_width: int; preserve_short_sequences: bool; Tsplits: indextype = int64",
      {.shape_fn = NGramsShape});
  registry.Add(
      "StringToNumber(string_tensor: string) -> (output: out_type); out_type: {float, double, "
      "int32, int64, uint32, uint64} = float",
      {.shape_fn = shapes::SameAsFirstInput});
  registry.Add("EncodeBase64(input: string) -> (output: string); pad: bool = false",
               {.shape_fn = shapes::SameAsFirstInput});
  registry.Add("DecodeBase64(input: string) -> (output: string)",
               {.shape_fn = shapes::SameAsFirstInput});
}

}  // namespace formwork
