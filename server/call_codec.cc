#include "server/call_codec.h"

#include <limits>
#include <optional>
#include <utility>

#include "core/base/status.h"
#include "server/info_messages.h"
#include "server/status_to_grpc.h"
#include "server/tensor_codec.h"
#include "server/utf8.h"
#include "server/wire_format.h"

namespace formwork::server {
namespace {

// Protobuf's own limit.
constexpr size_t kMaxMessageBytes = std::numeric_limits<int32_t>::max();

// formwork.v1.Value's fields.
constexpr uint32_t kTensor = 1;
constexpr uint32_t kResourceId = 2;
constexpr uint32_t kKeptTensorId = 3;
constexpr uint32_t kOpaque = 4;
// The one field number that requests and responses share for their values.
constexpr uint32_t kValues = 15;

absl::Status Malformed(absl::string_view what) {
  return InvalidArgument("malformed message: ", std::string(what));
}

absl::Status TooLarge(size_t bytes) {
  return ResourceExhausted("the response is too large to send: bytes=", bytes,
                           " limit=", kMaxMessageBytes);
}

// One Value as it is met; its kind is that of the last field of the oneof.
struct ValueParts {
  uint32_t kind = 0;
  TensorParts tensor;
  uint64_t id = 0;

  bool Parse(WireReader message);
  absl::StatusOr<Argument> Build(Allocator& allocator) const;
};

bool ValueParts::Parse(WireReader message) {
  while (!message.done()) {
    uint32_t tag;
    WireReader nested;
    if (!message.ReadTag(&tag)) return false;
    switch (tag) {
      case MakeTag(kTensor, WireType::kBytes):
        // A tensor again merges with the one before, unless another kind came between.
        if (kind != kTensor) tensor = TensorParts();
        if (!message.ReadNested(&nested) || !tensor.Parse(nested)) return false;
        kind = kTensor;
        break;
      case MakeTag(kResourceId, WireType::kVarint):
      case MakeTag(kKeptTensorId, WireType::kVarint):
        if (!message.ReadVarint(&id)) return false;
        kind = tag >> 3;
        break;
      case MakeTag(kOpaque, WireType::kBytes):
        if (!message.ReadNested(&nested)) return false;
        kind = kOpaque;
        break;
      default:
        if (!message.SkipField(tag)) return false;
    }
  }
  return true;
}

absl::StatusOr<Argument> ValueParts::Build(Allocator& allocator) const {
  Argument argument;
  argument.id = id;
  switch (kind) {
    case kTensor: {
      FORMWORK_ASSIGN_OR_RETURN(argument.tensor, tensor.Build(allocator));
      return argument;
    }
    case kResourceId:
      argument.kind = Argument::Kind::kResource;
      return argument;
    case kKeptTensorId:
      argument.kind = Argument::Kind::kKeptTensor;
      return argument;
    case kOpaque:
      return InvalidArgument("Value: an opaque value cannot be an input");
    default:
      return InvalidArgument("Value: it holds nothing");
  }
}

absl::Status AddInput(WireReader value, Allocator& allocator, CallSpec* spec) {
  if (spec->inputs.size() >= kMaxInputs) {
    return InvalidArgument("Call: too many inputs: limit=", kMaxInputs);
  }
  ValueParts parts;
  if (!parts.Parse(value)) return Malformed("CallRequest");
  absl::StatusOr<Argument> argument = parts.Build(allocator);
  if (!argument.ok()) {
    return Annotate(argument.status(), absl::StrCat("input ", spec->inputs.size()));
  }
  spec->inputs.push_back(*std::move(argument));
  return absl::OkStatus();
}

bool CanLeave(const CallOutput& output) {
  return output.opaque == DType::kInvalid &&
         (IsPlainData(output.tensor.dtype()) || output.tensor.dtype() == DType::kString);
}

// The Opaque message of an output that cannot leave: its dtype, where there is one.
uint64_t OpaqueDtype(const CallOutput& output) {
  return static_cast<uint64_t>(output.opaque != DType::kInvalid ? output.opaque
                                                                : output.tensor.dtype());
}

size_t OutputSize(const CallOutput& output) {
  if (output.kept_id != 0) return 1 + VarintSize(output.kept_id);
  if (CanLeave(output)) return BytesFieldSize(EncodedTensorSize(output.tensor));
  const uint64_t dtype = OpaqueDtype(output);
  return BytesFieldSize(dtype == 0 ? 0 : 1 + VarintSize(dtype));
}

void WriteOutput(const CallOutput& output, WireWriter* writer) {
  writer->BytesHeader(kValues, OutputSize(output));
  if (output.kept_id != 0) {
    writer->VarintField(kKeptTensorId, output.kept_id);
  } else if (CanLeave(output)) {
    writer->BytesHeader(kTensor, EncodedTensorSize(output.tensor));
    WriteTensor(output.tensor, writer);
  } else {
    const uint64_t dtype = OpaqueDtype(output);
    writer->BytesHeader(kOpaque, dtype == 0 ? 0 : 1 + VarintSize(dtype));
    writer->VarintField(1, dtype);
  }
}

}  // namespace

absl::Status DecodeCallRequest(const grpc::ByteBuffer& message, Allocator& allocator,
                               DecodedCall* call) {
  const ReceivedMessage received(message);
  WireReader reader(received.chunks(), received.size());
  while (!reader.done()) {
    uint32_t tag;
    uint64_t value = 0;
    WireReader nested;
    if (!reader.ReadTag(&tag)) return Malformed("CallRequest");
    bool read = true;
    switch (tag) {
      case MakeTag(1, WireType::kBytes):
        read = reader.ReadString(&call->spec.name_space);
        break;
      case MakeTag(2, WireType::kVarint):
        read = reader.ReadVarint(&call->spec.function.id);
        break;
      case MakeTag(3, WireType::kBytes):
        read = reader.ReadString(&call->spec.function.name);
        break;
      case MakeTag(4, WireType::kVarint):
        read = reader.ReadVarint(&value);
        call->spec.keep_outputs = value != 0;
        break;
      case MakeTag(5, WireType::kVarint):
        read = reader.ReadVarint(&call->call_id);
        break;
      case MakeTag(6, WireType::kVarint):
        read = reader.ReadVarint(&value);
        call->timeout_us = static_cast<int64_t>(value);
        break;
      case MakeTag(kValues, WireType::kBytes):
        read = reader.ReadNested(&nested);
        if (read) FORMWORK_RETURN_IF_ERROR(AddInput(nested, allocator, &call->spec));
        break;
      default:
        read = reader.SkipField(tag);
    }
    if (!read) return Malformed("CallRequest");
  }
  return absl::OkStatus();
}

absl::Status EncodeCallResponse(const CallResult& result, uint64_t epoch, uint64_t call_id,
                                grpc::ByteBuffer* message) {
  size_t total = 0;
  for (const CallOutput& output : result.outputs) total += BytesFieldSize(OutputSize(output));
  for (const std::string& text : result.printed) total += BytesFieldSize(text.size());
  if (total > kMaxMessageBytes - 1024) return TooLarge(total);
  WireWriter writer;
  writer.VarintField(1, epoch);
  writer.VarintField(2, call_id);
  writer.VarintField(3, result.function_id);
  for (const std::string& text : result.printed) writer.StringField(4, ToValidUtf8(text));
  if (!result.status.ok()) {
    writer.StringField(5, ToErrorMessage(result.status, result.details, epoch).SerializeAsString());
  }
  for (const CallOutput& output : result.outputs) WriteOutput(output, &writer);
  *message = writer.Finish();
  return absl::OkStatus();
}

absl::Status DecodeAssignRequest(const grpc::ByteBuffer& message, Allocator& allocator,
                                 DecodedAssign* assign) {
  const ReceivedMessage received(message);
  WireReader reader(received.chunks(), received.size());
  std::optional<TensorParts> parts;
  while (!reader.done()) {
    uint32_t tag;
    WireReader nested;
    if (!reader.ReadTag(&tag)) return Malformed("AssignVariableRequest");
    bool read = true;
    switch (tag) {
      case MakeTag(1, WireType::kBytes):
        read = reader.ReadString(&assign->name_space);
        break;
      case MakeTag(2, WireType::kVarint):
        read = reader.ReadVarint(&assign->id);
        break;
      case MakeTag(3, WireType::kBytes):
        read = reader.ReadString(&assign->name);
        break;
      case MakeTag(kValues, WireType::kBytes):
        if (!parts) parts.emplace();
        read = reader.ReadNested(&nested) && parts->Parse(nested);
        break;
      default:
        read = reader.SkipField(tag);
    }
    if (!read) return Malformed("AssignVariableRequest");
  }
  if (!parts) return InvalidArgument("AssignVariable: there is no value");
  FORMWORK_ASSIGN_OR_RETURN(assign->value, parts->Build(allocator));
  return absl::OkStatus();
}

absl::Status DecodeReadRequest(const grpc::ByteBuffer& message, DecodedRead* read) {
  const ReceivedMessage received(message);
  WireReader reader(received.chunks(), received.size());
  while (!reader.done()) {
    uint32_t tag;
    if (!reader.ReadTag(&tag)) return Malformed("request");
    bool ok = true;
    switch (tag) {
      case MakeTag(1, WireType::kBytes):
        ok = reader.ReadString(&read->name_space);
        break;
      case MakeTag(2, WireType::kVarint):
        ok = reader.ReadVarint(&read->id);
        break;
      case MakeTag(3, WireType::kBytes):
        ok = reader.ReadString(&read->name);
        break;
      default:
        ok = reader.SkipField(tag);
    }
    if (!ok) return Malformed("request");
  }
  return absl::OkStatus();
}

absl::Status EncodeReadResponse(uint64_t epoch, const VariableInfo* variable, const Tensor& value,
                                grpc::ByteBuffer* message) {
  if (!IsPlainData(value.dtype()) && value.dtype() != DType::kString) {
    return InvalidArgument("a value of this dtype cannot leave the server: ",
                           std::string(DTypeName(value.dtype())));
  }
  const size_t bytes = EncodedTensorSize(value);
  if (bytes > kMaxMessageBytes - 4096) return TooLarge(bytes);
  WireWriter writer;
  writer.VarintField(1, epoch);
  if (variable != nullptr) {
    v1::VariableInfo info;
    ToMessage(*variable, &info);
    writer.StringField(2, info.SerializeAsString());
  }
  writer.BytesHeader(kValues, bytes);
  WriteTensor(value, &writer);
  *message = writer.Finish();
  return absl::OkStatus();
}

}  // namespace formwork::server
