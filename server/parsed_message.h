#pragma once

// Messages that protobuf parses and serializes, from and to gRPC's bytes: all but the hot ones.

#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "core/base/system_memory.h"
#include "google/protobuf/arena.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/read_call.h"
#include "server/request_scope.h"
#include "server/value_codec.h"

namespace formwork::server {

/// A message in an arena of its own. Where memory may be refused while a message is made, it has to
/// be in one: what an exception leaves half-made (a oneof, a map) cannot be destroyed by itself.
template <typename Message>
class ArenaMessage {
 public:
  ArenaMessage() = default;
  ArenaMessage(const ArenaMessage&) = delete;
  ArenaMessage& operator=(const ArenaMessage&) = delete;
  ~ArenaMessage() {
    if (!large_) return;
    arena_.Reset();
    TrimHeap();  // Of many small pieces the heap keeps more than it may.
  }

  Message& operator*() const { return *message_; }
  Message* operator->() const { return message_; }
  /// Its memory goes back to the system with it.
  void set_large() { large_ = true; }

 private:
  google::protobuf::Arena arena_;
  Message* const message_ = google::protobuf::Arena::CreateMessage<Message>(&arena_);
  bool large_ = false;
};

/// Runs `body`, which makes something of a message: held to the memory limit where that is large.
template <typename Body>
std::invoke_result_t<Body> HoldIfCounted(const grpc::ByteBuffer& message, MemoryBudget& budget,
                                         Body body) {
  return IsCounted(message) ? HoldToBudget(budget, body) : body();
}

/// Found before main: protobuf makes descriptors when one is first asked for, and leaves them
/// broken for good where operator new throws meanwhile.
template <typename Message>
inline const std::string kMessageName = Message::descriptor()->name();

/// Parses a received message. A large one is held to the memory limit: two bytes may become a
/// submessage of a hundred. Errors: kInvalidArgument where it is malformed; kResourceExhausted.
template <typename Message>
absl::Status Parse(const grpc::ByteBuffer& bytes, MemoryBudget& budget,
                   ArenaMessage<Message>& message) {
  if (bytes.Length() >= kLargeMessageBytes) message.set_large();
  return HoldIfCounted(bytes, budget, [&]() -> absl::Status {
    grpc::ByteBuffer copy(bytes);  // Shares the slices; Deserialize clears what it is given.
    if (grpc::SerializationTraits<Message>::Deserialize(&copy, &*message).ok()) {
      return absl::OkStatus();
    }
    return Malformed(kMessageName<Message>);
  });
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
