#include "core/ops/raw_bytes.h"

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/ops/array_shapes.h"
#include "core/ops/dims.h"
#include "core/ops/graph_dtype.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {

absl::StatusOr<int64_t> PrepareDecodeRaw(const Tensor& texts, DType dtype) {
  if (texts.num_elements() == 0) return 0;
  const std::string* text = texts.data<std::string>();
  const size_t bytes = text[0].size();
  for (int64_t i = 1; i < texts.num_elements(); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    if (text[i].size() == bytes) continue;
    return InvalidArgument("DecodeRaw requires input strings to all be the same size, but element ",
                           i, " has size ", bytes, " != ", text[i].size());
  }
  const size_t width = DTypeSize(dtype);
  if (bytes % width != 0) {
    return InvalidArgument("Input to DecodeRaw has length ", bytes, " that is not a multiple of ",
                           width, ", the size of ", GraphDTypeName(dtype));
  }
  return static_cast<int64_t>(bytes / width);
}

absl::StatusOr<int64_t> PrepareDecodePaddedRaw(const Tensor& fixed_length, DType dtype) {
  if (fixed_length.rank() != 0) {
    return InvalidArgument("k must be scalar, got shape ", fixed_length.shape().ToString());
  }
  const int32_t bytes = fixed_length.scalar<int32_t>();
  if (bytes <= 0) {
    return InvalidArgument("fixed_length (", bytes, ") must be greater than zero.");
  }
  const auto width = static_cast<int32_t>(DTypeSize(dtype));
  if (bytes % width != 0) {
    return InvalidArgument("fixed_length (", bytes,
                           ") must be a multiple of the size of out_type (", width, ")");
  }
  return bytes / width;
}

absl::Status CheckCompressionType(absl::string_view type) {
  if (type.empty() || type == "ZLIB" || type == "GZIP") return absl::OkStatus();
  if (type == "ZSTD") return Unimplemented("compression_type ZSTD is not supported");
  return InvalidArgument("Only ZLIB, ZSTD, GZIP or NONE are supported compressions");
}

namespace {

// The strings' shape, and one dimension more, of that size.
absl::Status ElementsShape(InferenceContext& c, int64_t size) {
  if (!c.input(0).known_rank()) return absl::OkStatus();
  Dims dims(c.input(0).dims().begin(), c.input(0).dims().end());
  dims.push_back(size);
  return array_shapes::SetOutput(c, 0, dims);
}

absl::Status DecodeRawShape(InferenceContext& c) { return ElementsShape(c, -1); }

absl::Status DecodePaddedRawShape(InferenceContext& c) {
  if (c.constant(1) == nullptr) return ElementsShape(c, -1);
  FORMWORK_ASSIGN_OR_RETURN(const DType dtype, c.attrs().Get<DType>("out_type"));
  FORMWORK_ASSIGN_OR_RETURN(const int64_t size, PrepareDecodePaddedRaw(*c.constant(1), dtype));
  return ElementsShape(c, size);
}

}  // namespace

void RegisterRawBytesOps(OpRegistry& registry) {
  registry.Add(
      "DecodeRaw(bytes: string) -> (output: out_type); out_type: {half, float, double, int32, "
      "uint16, uint8, int16, int8, int64, complex64, complex128, bool, bfloat16}; little_endian: "
      "bool = true",
      {.shape_fn = DecodeRawShape, .sized_by_value = true});
  registry.Add(
      "DecodeCompressed(bytes: string) -> (output: string); compression_type: string = \"\"",
      {.shape_fn = shapes::SameAsFirstInput, .sized_by_value = true});
  registry.Add(
      "DecodePaddedRaw(input_bytes: string, fixed_length: int32) -> (output: out_type); out_type: "
      "{half, float, double, int32, uint16, uint8, int16, int8, int64, bfloat16}; little_endian: "
      "bool = true",
      {.shape_fn = DecodePaddedRawShape, .sized_by_value = true});
}

}  // namespace formwork
