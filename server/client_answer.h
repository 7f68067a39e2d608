#pragma once

// What a client answers when it was asked to run a function of its own.

#include <cstdint>

#include "core/engine.h"
#include "grpcpp/support/byte_buffer.h"

namespace formwork::server {

struct DecodedAnswer {
  uint64_t id = 0;  ///< Of the question.
  /// The function's results, or its error; that of the message where it says neither.
  ClientAnswer::Results results = std::vector<Tensor>();
};

/// Of a formwork.v1.CallRequest that is an answer (CallHead::is_answer).
DecodedAnswer DecodeClientAnswer(const grpc::ByteBuffer& message, Allocator& allocator);

}  // namespace formwork::server
