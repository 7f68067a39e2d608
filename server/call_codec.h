#pragma once

// The messages of a call on the wire <-> what the engine takes and gives.

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/engine.h"
#include "grpcpp/support/byte_buffer.h"

namespace formwork::server {

/// More inputs than this are refused, and more variables in one request, so that a small
/// message cannot ask for much memory or work.
inline constexpr size_t kMaxInputs = 65536;

struct DecodedCall {
  CallSpec spec;
  uint64_t expected_epoch = 0;
  uint64_t call_id = 0;
  std::optional<absl::Duration> timeout;
  bool in_parts = false;
  bool answers_client_functions = false;

  /// Whether its IDs have a meaning in one life of the server alone.
  bool names_by_id() const;
};

/// Takes any valid encoding of formwork.v1.CallRequest. What came before an error is in `call`.
/// Errors: kInvalidArgument if the message is malformed or a value is (the text names the input);
/// kResourceExhausted if there is no memory for a value.
absl::Status DecodeCallRequest(const grpc::ByteBuffer& message, Allocator& allocator,
                               DecodedCall* call);

/// What a CallRequest says in its first fields, as protobuf writes them: before its inputs.
struct CallHead {
  uint64_t call_id = 0;
  bool unordered = false;
  bool is_answer = false;  ///< No call, but an answer to what the server has asked.
};
/// Quick, however large the message is.
CallHead ReadCallHead(const grpc::ByteBuffer& message);

/// formwork.v1.CallResponse; with `error` where the call failed (its status and details, as
/// CallStream answers). Errors: kResourceExhausted if it is larger than `limit` bytes.
absl::Status EncodeCallResponse(const CallResult& result, uint64_t epoch, uint64_t call_id,
                                size_t limit, grpc::ByteBuffer* message);

}  // namespace formwork::server
