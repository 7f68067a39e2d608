#pragma once

// Requests that wait for nothing, and are done once however often they are sent. Those that are
// asked for with a CallHandle are remembered by the engine itself.

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/stable_hash.h"
#include "core/engine.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/request_scope.h"

namespace formwork::server {

/// Whether requests of this message can say that they are sent again.
template <typename Message>
inline constexpr bool kIsDoneOnce = requires(const Message& message) {
  message.first_sent_ms_ago();
};

/// A hash of what a request asks for, whichever time it is sent; of a long one less.
template <typename Message>
uint64_t ContentHash(absl::string_view method, Message& message) {
  constexpr size_t kMostHashed = size_t{64} << 10;
  if (message.ByteSizeLong() > kMostHashed) return StableHash().Add(method).value();
  const uint64_t expected_epoch = message.expected_epoch();
  message.clear_expected_epoch();
  message.clear_acknowledged();
  message.clear_first_sent_ms_ago();
  const uint64_t hash = StableHash().Add(method).Add(message.SerializeAsString()).value();
  message.set_expected_epoch(expected_epoch);
  return hash;
}

/// Fills `response` by `answer`, or as it was filled when the request was done. `answer` sets
/// `done` once it has had its effect, and may fail then. Errors: those of `answer`;
/// AnswerWindow::Begin's; kUnavailable while it is being done.
absl::Status AnswerOnce(Engine& engine, absl::string_view name_space, const RequestId& request,
                        uint64_t content, grpc::ByteBuffer* response,
                        absl::FunctionRef<absl::Status(bool* done)> answer);

}  // namespace formwork::server
