#include "server/call_codec.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/reason.h"
#include "core/base/status.h"
#include "core/base/utf8.h"
#include "formwork/v1/calls.pb.h"
#include "server/request_scope.h"
#include "server/status_to_grpc.h"
#include "server/timeline_codec.h"
#include "server/value_codec.h"
#include "server/wire_format.h"

namespace formwork::server {
namespace {

// As many as a CallRequest has.
constexpr int kFieldsBeforeInputs = 21;

absl::Status AddInput(WireReader value, Allocator& allocator, CallSpec* spec) {
  if (spec->inputs.size() >= kMaxInputs) {
    return InField(InvalidArgument("Call: too many inputs: limit=", kMaxInputs), "inputs");
  }
  ValueParts parts;
  if (!parts.Parse(value)) return Malformed("CallRequest");
  absl::StatusOr<Argument> argument = parts.Build(allocator);
  if (!argument.ok()) {
    const size_t i = spec->inputs.size();
    return InField(Annotate(argument.status(), absl::StrCat("input ", i)),
                   absl::StrCat("inputs[", i, "]"));
  }
  spec->inputs.push_back(*std::move(argument));
  return absl::OkStatus();
}

}  // namespace

bool DecodedCall::names_by_id() const {
  return spec.function.id != 0 ||
         std::any_of(spec.inputs.begin(), spec.inputs.end(),
                     [](const Argument& input) { return input.kind != Argument::Kind::kTensor; });
}

absl::Status DecodeCallRequest(const grpc::ByteBuffer& message, Allocator& allocator,
                               DecodedCall* call) {
  const ReceivedMessage received(message);
  WireReader reader(received.chunks(), received.size());
  CallSpec& spec = call->spec;
  while (!reader.done()) {
    uint32_t tag;
    uint64_t value = 0;
    WireReader nested;
    if (!reader.ReadTag(&tag)) return Malformed("CallRequest");
    bool read = true;
    switch (tag) {
      case MakeTag(v1::CallRequest::kNamespaceFieldNumber, WireType::kBytes):
        read = reader.ReadString(&spec.name_space);
        break;
      case MakeTag(v1::CallRequest::kClientIdFieldNumber, WireType::kBytes):
        read = reader.ReadString(&spec.request.client);
        break;
      case MakeTag(v1::CallRequest::kSequenceFieldNumber, WireType::kVarint):
        read = reader.ReadVarint(&spec.request.sequence);
        break;
      case MakeTag(v1::CallRequest::kAcknowledgedFieldNumber, WireType::kVarint):
        read = reader.ReadVarint(&spec.request.acknowledged);
        break;
      case MakeTag(v1::CallRequest::kFirstSentMsAgoFieldNumber, WireType::kVarint):
        read = reader.ReadVarint(&value);
        spec.request.age = AgeFrom(value);
        break;
      case MakeTag(v1::CallRequest::kAtomicFieldNumber, WireType::kVarint):
        read = reader.ReadVarint(&value);
        spec.atomic = value != 0;
        break;
      case MakeTag(v1::CallRequest::kRelaxedFieldNumber, WireType::kVarint):
        read = reader.ReadVarint(&value);
        spec.relaxed = value != 0;
        break;
      case MakeTag(v1::CallRequest::kExpectedEpochFieldNumber, WireType::kVarint):
        read = reader.ReadVarint(&call->expected_epoch);
        break;
      case MakeTag(v1::CallRequest::kFunctionIdFieldNumber,
                   WireType::kVarint):  // Of a oneof: the last one counts.
        read = reader.ReadVarint(&spec.function.id);
        spec.function.name.clear();
        break;
      case MakeTag(v1::CallRequest::kFunctionNameFieldNumber, WireType::kBytes):
        read = reader.ReadString(&spec.function.name);
        spec.function.id = 0;
        break;
      case MakeTag(v1::CallRequest::kKeepOutputsFieldNumber, WireType::kVarint):
        read = reader.ReadVarint(&value);
        spec.keep_outputs = value != 0;
        break;
      case MakeTag(v1::CallRequest::kKeepForFieldNumber, WireType::kBytes):
        read = reader.ReadNested(&nested) && ReadDuration(nested, &spec.kept_ttl);
        break;
      case MakeTag(v1::CallRequest::kCallIdFieldNumber, WireType::kVarint):
        read = reader.ReadVarint(&call->call_id);
        break;
      case MakeTag(v1::CallRequest::kTimeoutFieldNumber, WireType::kBytes):
        read = reader.ReadNested(&nested) && ReadDuration(nested, &call->timeout.emplace());
        break;
      case MakeTag(v1::CallRequest::kInPartsFieldNumber, WireType::kVarint):
        read = reader.ReadVarint(&value);
        call->in_parts = value != 0;
        break;
      case MakeTag(v1::CallRequest::kKeepFromFieldNumber, WireType::kVarint):
        read = reader.ReadVarint(&value);
        spec.keep_from = value;
        break;
      case MakeTag(v1::CallRequest::kTimelineFieldNumber, WireType::kVarint):
        read = reader.ReadVarint(&value);
        spec.timeline = value != 0;
        break;
      case MakeTag(v1::CallRequest::kAnswersClientFunctionsFieldNumber, WireType::kVarint):
        read = reader.ReadVarint(&value);
        call->answers_client_functions = value != 0;
        break;
      case MakeTag(v1::CallRequest::kClientFunctionFieldNumber, WireType::kBytes):
        return InvalidArgument("Call: an answer of the client's (client_function) is no call");
      case MakeTag(kValues, WireType::kBytes):
        read = reader.ReadNested(&nested);
        if (read) FORMWORK_RETURN_IF_ERROR(AddInput(nested, allocator, &spec));
        break;
      default:
        read = reader.SkipField(tag);
    }
    if (!read) return Malformed("CallRequest");
  }
  return absl::OkStatus();
}

CallHead ReadCallHead(const grpc::ByteBuffer& message) {
  const ReceivedMessage received(message);
  WireReader reader(received.chunks(), received.size());
  CallHead head;
  for (int i = 0; i < kFieldsBeforeInputs && !reader.done(); ++i) {
    uint32_t tag;
    uint64_t value;
    if (!reader.ReadTag(&tag) || tag >> 3 == kValues) return head;
    if (tag == MakeTag(v1::CallRequest::kCallIdFieldNumber, WireType::kVarint)) {
      if (!reader.ReadVarint(&head.call_id)) return head;
    } else if (tag == MakeTag(v1::CallRequest::kUnorderedFieldNumber, WireType::kVarint)) {
      if (!reader.ReadVarint(&value)) return head;
      head.unordered = value != 0;
    } else if (tag == MakeTag(v1::CallRequest::kClientFunctionFieldNumber, WireType::kBytes)) {
      head.is_answer = true;
      return head;
    } else if (!reader.SkipField(tag)) {
      return head;
    }
  }
  return head;
}

absl::Status EncodeCallResponse(const CallResult& result, uint64_t epoch, uint64_t call_id,
                                size_t limit, grpc::ByteBuffer* message) {
  size_t total = 64;  // Of the fields with numbers.
  for (const CallOutput& output : result.outputs) total += BytesFieldSize(EncodedValueSize(output));
  for (const std::string& text : result.printed) total += BytesFieldSize(text.size());
  if (total > limit) {
    return ResponseTooLarge(total, limit,
                            "ask for it in parts, or keep the outputs and read ranges of them");
  }
  WireWriter writer;
  writer.VarintField(1, epoch);
  writer.VarintField(2, call_id);
  writer.VarintField(3, result.function_id);
  for (const std::string& text : result.printed) writer.StringField(4, ToValidUtf8(text));
  if (!result.status.ok()) {
    writer.StringField(5, ToErrorMessage(result.status, result.details, epoch).SerializeAsString());
  }
  if (result.timeline != nullptr) {
    const std::string timeline = EncodeTimeline(*result.timeline);
    // A call does not fail for want of room for what is beside its outputs.
    const bool fits = BytesFieldSize(timeline.size()) <= limit - total;
    if (fits && !timeline.empty()) writer.StringField(9, timeline);
  }
  for (const CallOutput& output : result.outputs) WriteValue(output, &writer);
  *message = writer.Finish();
  return absl::OkStatus();
}

}  // namespace formwork::server
