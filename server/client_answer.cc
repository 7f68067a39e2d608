#include "server/client_answer.h"

#include <string>
#include <utility>

#include "core/base/status.h"
#include "formwork/rpc/status.pb.h"
#include "formwork/v1/calls.pb.h"
#include "server/call_codec.h"
#include "server/value_codec.h"
#include "server/wire_format.h"

namespace formwork::server {
namespace {

// The status that a client gives. False where it is malformed.
bool ReadError(WireReader message, absl::Status* error) {
  uint64_t code = static_cast<uint64_t>(absl::StatusCode::kUnknown);
  std::string text;
  while (!message.done()) {
    uint32_t tag;
    if (!message.ReadTag(&tag)) return false;
    const bool read = tag == MakeTag(rpc::Status::kCodeFieldNumber, WireType::kVarint)
                          ? message.ReadVarint(&code)
                      : tag == MakeTag(rpc::Status::kMessageFieldNumber, WireType::kBytes)
                          ? message.ReadString(&text)
                          : message.SkipField(tag);
    if (!read) return false;
  }
  // An error has a text: without one kUnavailable would mean to wait again.
  if (text.empty()) text = "the client's function failed";
  const bool known = code >= 1 && code <= 16;
  *error =
      absl::Status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown, text);
  return true;
}

absl::Status ReadAnswer(WireReader answer, Allocator& allocator, DecodedAnswer* decoded) {
  const absl::Status malformed = Malformed("ClientFunctionResponse");
  while (!answer.done()) {
    uint32_t tag;
    WireReader nested;
    absl::Status error;
    if (!answer.ReadTag(&tag)) return malformed;
    if (tag == MakeTag(v1::ClientFunctionResponse::kIdFieldNumber, WireType::kVarint)) {
      if (!answer.ReadVarint(&decoded->id)) return malformed;
    } else if (tag == MakeTag(v1::ClientFunctionResponse::kErrorFieldNumber, WireType::kBytes)) {
      if (!answer.ReadNested(&nested) || !ReadError(nested, &error)) return malformed;
      if (decoded->results.ok()) decoded->results = error;
    } else if (tag == MakeTag(kValues, WireType::kBytes)) {
      ValueParts parts;
      if (!answer.ReadNested(&nested) || !parts.Parse(nested)) return malformed;
      if (!decoded->results.ok()) continue;
      if (decoded->results->size() >= kMaxInputs) {
        return InvalidArgument("too many results of a client's function: limit=", kMaxInputs);
      }
      FORMWORK_ASSIGN_OR_RETURN(Argument value, parts.Build(allocator));
      if (value.kind != Argument::Kind::kTensor) {
        return InvalidArgument("a client's function can give tensors alone: result ",
                               decoded->results->size());
      }
      decoded->results->push_back(std::move(value.tensor));
    } else if (!answer.SkipField(tag)) {
      return malformed;
    }
  }
  return absl::OkStatus();
}

}  // namespace

DecodedAnswer DecodeClientAnswer(const grpc::ByteBuffer& message, Allocator& allocator) {
  DecodedAnswer decoded;
  const ReceivedMessage received(message);
  WireReader reader(received.chunks(), received.size());
  absl::Status read = Malformed("CallRequest");
  while (!reader.done()) {
    uint32_t tag;
    WireReader nested;
    if (!reader.ReadTag(&tag)) break;
    if (tag != MakeTag(v1::CallRequest::kClientFunctionFieldNumber, WireType::kBytes)) {
      if (!reader.SkipField(tag)) break;
      continue;
    }
    if (reader.ReadNested(&nested)) read = ReadAnswer(nested, allocator, &decoded);
    break;
  }
  if (!read.ok()) decoded.results = read;
  return decoded;
}

}  // namespace formwork::server
