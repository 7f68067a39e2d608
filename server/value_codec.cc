#include "server/value_codec.h"

#include <algorithm>

#include "core/base/status.h"

namespace formwork::server {
namespace {

// Copying this much takes about a tenth of a millisecond.
constexpr size_t kSlowBytes = size_t{1} << 20;
constexpr int64_t kSlowStrings = 16384;

bool Leaves(const CallOutput& output) {
  return output.opaque == DType::kInvalid && CanLeave(output.tensor);
}

// The Opaque message of an output that cannot leave: its dtype, where there is one.
uint64_t OpaqueDtype(const CallOutput& output) {
  return static_cast<uint64_t>(output.opaque != DType::kInvalid ? output.opaque
                                                                : output.tensor.dtype());
}

}  // namespace

absl::Status Malformed(absl::string_view message_name) {
  return InvalidArgument("malformed message: ", message_name);
}

bool ValueParts::Parse(WireReader message) {
  while (!message.done()) {
    uint32_t tag;
    WireReader nested;
    if (!message.ReadTag(&tag)) return false;
    switch (tag) {
      case MakeTag(v1::Value::kTensorFieldNumber, WireType::kBytes):
        // A tensor again merges with the one before, unless another kind came between.
        if (kind_ != v1::Value::kTensorFieldNumber) tensor_ = TensorParts();
        if (!message.ReadNested(&nested) || !tensor_.Parse(nested)) return false;
        kind_ = v1::Value::kTensorFieldNumber;
        break;
      case MakeTag(v1::Value::kResourceIdFieldNumber, WireType::kVarint):
      case MakeTag(v1::Value::kKeptTensorIdFieldNumber, WireType::kVarint):
        if (!message.ReadVarint(&id_)) return false;
        kind_ = tag >> 3;
        break;
      case MakeTag(v1::Value::kOpaqueFieldNumber, WireType::kBytes):
        if (!message.ReadNested(&nested)) return false;
        kind_ = v1::Value::kOpaqueFieldNumber;
        break;
      default:
        if (!message.SkipField(tag)) return false;
    }
  }
  return true;
}

absl::StatusOr<Argument> ValueParts::Build(Allocator& allocator) const {
  Argument argument;
  argument.id = id_;
  switch (kind_) {
    case v1::Value::kTensorFieldNumber: {
      FORMWORK_ASSIGN_OR_RETURN(argument.tensor, tensor_.Build(allocator));
      return argument;
    }
    case v1::Value::kResourceIdFieldNumber:
      argument.kind = Argument::Kind::kResource;
      return argument;
    case v1::Value::kKeptTensorIdFieldNumber:
      argument.kind = Argument::Kind::kKeptTensor;
      return argument;
    case v1::Value::kOpaqueFieldNumber:
      return InvalidArgument("Value: an opaque value cannot be an input");
    default:
      return InvalidArgument("Value: it holds nothing");
  }
}

bool ReadDuration(WireReader message, absl::Duration* duration) {
  int64_t seconds = 0;
  int64_t nanos = 0;
  while (!message.done()) {
    uint32_t tag;
    uint64_t value;
    if (!message.ReadTag(&tag)) return false;
    if (tag == MakeTag(1, WireType::kVarint)) {
      if (!message.ReadVarint(&value)) return false;
      seconds = static_cast<int64_t>(value);
    } else if (tag == MakeTag(2, WireType::kVarint)) {
      if (!message.ReadVarint(&value)) return false;
      nanos = static_cast<int32_t>(value);
    } else if (!message.SkipField(tag)) {
      return false;
    }
  }
  *duration = absl::Seconds(seconds) + absl::Nanoseconds(nanos);
  return true;
}

bool CanLeave(const Tensor& tensor) {
  return IsPlainData(tensor.dtype()) || tensor.dtype() == DType::kString;
}

size_t EncodedValueSize(const CallOutput& output) {
  if (output.kept_id != 0) return 1 + VarintSize(output.kept_id);
  if (Leaves(output)) return BytesFieldSize(EncodedTensorSize(output.tensor));
  const uint64_t dtype = OpaqueDtype(output);
  return BytesFieldSize(dtype == 0 ? 0 : 1 + VarintSize(dtype));
}

void WriteValue(const CallOutput& output, WireWriter* writer) {
  writer->BytesHeader(kValues, EncodedValueSize(output));
  if (output.kept_id != 0) {
    writer->VarintField(v1::Value::kKeptTensorIdFieldNumber, output.kept_id);
  } else if (Leaves(output)) {
    writer->BytesHeader(v1::Value::kTensorFieldNumber, EncodedTensorSize(output.tensor));
    WriteTensor(output.tensor, writer);
  } else {
    const uint64_t dtype = OpaqueDtype(output);
    writer->BytesHeader(v1::Value::kOpaqueFieldNumber, dtype == 0 ? 0 : 1 + VarintSize(dtype));
    writer->VarintField(1, dtype);
  }
}

void WriteValueWithoutContent(const Tensor& tensor, WireWriter* writer) {
  const uint64_t dtype = static_cast<uint64_t>(tensor.dtype());
  size_t dims = 0;
  for (int64_t dim : tensor.shape().dims()) dims += VarintSize(static_cast<uint64_t>(dim));
  const size_t bytes = 1 + VarintSize(dtype) + (tensor.rank() == 0 ? 0 : BytesFieldSize(dims));
  writer->BytesHeader(kValues, BytesFieldSize(bytes));
  writer->BytesHeader(v1::Value::kTensorFieldNumber, bytes);
  writer->VarintField(1, dtype);
  if (tensor.rank() == 0) return;
  writer->BytesHeader(2, dims);
  for (int64_t dim : tensor.shape().dims()) writer->Varint(static_cast<uint64_t>(dim));
}

bool SlowToEncode(const Tensor& tensor) {
  if (tensor.dtype() != DType::kString) return false;
  if (tensor.num_elements() > kSlowStrings) return true;
  size_t bytes = 0;
  for (const std::string& element : tensor.span<std::string>()) bytes += element.size();
  return bytes > kSlowBytes;
}

bool SlowToEncode(const CallResult& result) {
  if (result.timeline != nullptr) return true;
  return std::any_of(result.outputs.begin(), result.outputs.end(),
                     [](const CallOutput& output) { return SlowToEncode(output.tensor); });
}

absl::Status ResponseTooLarge(size_t bytes, size_t limit, absl::string_view instead) {
  return ResourceExhausted("the response is larger than a message may be: bytes=", bytes,
                           " limit=", limit, "; ", instead);
}

}  // namespace formwork::server
