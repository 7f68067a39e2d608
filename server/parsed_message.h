#pragma once

// Messages that protobuf parses and serializes, from and to gRPC's bytes: all but the hot ones.

#include "absl/status/status.h"
#include "core/base/status.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/value_codec.h"

namespace formwork::server {

/// False where it is malformed.
template <typename Message>
bool Parse(const grpc::ByteBuffer& bytes, Message* message) {
  grpc::ByteBuffer copy(bytes);  // Shares the slices; Deserialize clears what it is given.
  return grpc::SerializationTraits<Message>::Deserialize(&copy, message).ok();
}

/// Errors: kResourceExhausted if the message has more than `limit` bytes.
template <typename Message>
absl::Status Serialize(const Message& message, size_t limit, grpc::ByteBuffer* bytes) {
  const size_t size = message.ByteSizeLong();
  if (size > limit) return ResponseTooLarge(size, limit, "ask for smaller pages");
  bool own;
  const grpc::Status status = grpc::SerializationTraits<Message>::Serialize(message, bytes, &own);
  return status.ok() ? absl::OkStatus() : Internal("the response cannot be serialized");
}

}  // namespace formwork::server
