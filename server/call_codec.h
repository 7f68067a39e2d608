#pragma once

// The messages of the hot path on the wire <-> what the engine takes and gives: calls, and the
// values of variables.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "core/engine.h"
#include "grpcpp/support/byte_buffer.h"

namespace formwork::server {

/// More inputs than this are refused, so that a small message cannot ask for much memory.
inline constexpr size_t kMaxInputs = 65536;

struct DecodedCall {
  CallSpec spec;
  uint64_t call_id = 0;
  int64_t timeout_us = 0;
};

/// Takes any valid encoding of formwork.v1.CallRequest. What came before an error is in `call`.
/// Errors: kInvalidArgument if the message is malformed or a value is (the text names the input);
/// kResourceExhausted if there is no memory for a value.
absl::Status DecodeCallRequest(const grpc::ByteBuffer& message, Allocator& allocator,
                               DecodedCall* call);

/// formwork.v1.CallResponse; with `error` where the call failed (its status and details, as
/// CallStream answers). Errors: kResourceExhausted if it is larger than a message may be.
absl::Status EncodeCallResponse(const CallResult& result, uint64_t epoch, uint64_t call_id,
                                grpc::ByteBuffer* message);

struct DecodedAssign {
  std::string name_space;
  uint64_t id = 0;
  std::string name;
  Tensor value;
};

/// formwork.v1.AssignVariableRequest. Errors: as DecodeCallRequest.
absl::Status DecodeAssignRequest(const grpc::ByteBuffer& message, Allocator& allocator,
                                 DecodedAssign* assign);

/// A message of fields `namespace` = 1, `id` = 2 and `name` = 3, as ReadVariableRequest and
/// ReadTensorRequest. Errors: kInvalidArgument if it is malformed.
struct DecodedRead {
  std::string name_space;
  uint64_t id = 0;
  std::string name;
};
absl::Status DecodeReadRequest(const grpc::ByteBuffer& message, DecodedRead* read);

/// A message of `epoch` = 1, `variable` = 2 (left out where null) and `value` = 15, as
/// ReadVariableResponse and ReadTensorResponse. Errors: as EncodeCallResponse.
absl::Status EncodeReadResponse(uint64_t epoch, const VariableInfo* variable, const Tensor& value,
                                grpc::ByteBuffer* message);

}  // namespace formwork::server
