#pragma once

// What the requests of a service share.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/memory_budget.h"
#include "core/base/reason.h"
#include "core/base/status.h"
#include "core/engine.h"
#include "grpcpp/server_context.h"
#include "server/connection_listener.h"
#include "server/flags.h"
#include "server/inline_turn.h"
#include "server/metrics.h"
#include "server/task_pool.h"

namespace formwork::server {

/// Messages of at least this many bytes are decoded on a thread of ours: copying them would hold up
/// a callback thread.
inline constexpr size_t kLargeMessageBytes = size_t{1} << 20;

/// All of it outlives every request.
struct RequestScope {
  Engine& engine;
  Metrics& metrics;
  TaskPool& transfers;  ///< Decodes and encodes what is large.
  InlineTurns& inline_turns;
  ConnectionListener& connections;
  size_t max_message_bytes;
  const ServerOptions& options;
  absl::Time started;
};

/// A client's name for itself has at most so many bytes.
inline constexpr size_t kMaxClientId = 128;

/// Whose kept tensors a request's are, as lists show it: the client's, or its address'.
/// Errors: kInvalidArgument where `client_id` is too long.
inline absl::StatusOr<std::string> OwnerOf(const std::string& client_id,
                                           const grpc::CallbackServerContext& context) {
  if (client_id.size() > kMaxClientId) {
    return InField(
        InvalidArgument("client_id is too long: bytes=", client_id.size(), " limit=", kMaxClientId),
        "client_id");
  }
  return client_id.empty() ? context.peer() : client_id;
}

/// Ends a request that has begun and that gRPC calls cancelled: at once where its client wants
/// that, else as CallHandle::Disconnected. Does not throw.
inline void EndCancelled(const RequestScope& scope, const grpc::CallbackServerContext& context,
                         CallHandle& request) {
  const HeapScope unlimited(nullptr);
  scope.connections.IsUp(context.peer()) ? request.Cancel() : request.Disconnected();
}

/// A message's first_sent_ms_ago.
inline absl::Duration AgeFrom(uint64_t milliseconds) {
  constexpr uint64_t kMost = uint64_t{1} << 40;  // More than thirty years.
  return absl::Milliseconds(std::min(milliseconds, kMost));
}

/// Of a message that has these fields.
template <typename Message>
RequestId RequestIdOf(const Message& message) {
  return {message.client_id(), message.sequence(), message.acknowledged(),
          AgeFrom(message.first_sent_ms_ago())};
}

/// Whether a request may be answered as it was before: one that is sent again names the epoch that
/// it was first sent in, for another one's server knows nothing of it.
/// Errors: Engine::CheckRepeat's; kInvalidArgument where it names none.
inline absl::Status CheckRepeat(Engine& engine, absl::string_view name_space,
                                const RequestId& request, uint64_t expected_epoch,
                                ErrorDetails* details) {
  if (!request.is_repeat()) return absl::OkStatus();
  if (expected_epoch != 0) return engine.CheckRepeat(name_space, request, expected_epoch, details);
  return InField(InvalidArgument("a request that is sent again needs the epoch that it was first "
                                 "sent in"),
                 "expected_epoch");
}

/// Whether the IDs that a request names are of this life, where it is not answered as it was
/// before. Errors: Engine::CheckEpoch's.
inline absl::Status CheckIds(Engine& engine, absl::string_view name_space, const RequestId& request,
                             uint64_t expected_epoch, ErrorDetails* details) {
  if (request.is_repeat() && engine.Remembers(name_space, request)) return absl::OkStatus();
  return engine.CheckEpoch(name_space, expected_epoch, details);
}

/// Gives `answer` a `result` that is SlowToEncode: on a thread of the pool, or here where too much
/// waits already; where there is no memory for that, that error. Does not throw, for `answer`, a
/// copyable void(CallResult), does not.
template <typename Answer>
void AnswerOnPool(const RequestScope& scope, absl::string_view name_space, CallResult result,
                  const Answer& answer) {
  const absl::Status passed_on = CatchOutOfMemory([&] {
    scope.transfers.AddOrRun(
        name_space, [answer, result = std::move(result)]() mutable { answer(std::move(result)); });
    return absl::OkStatus();
  });
  if (passed_on.ok()) return;
  CallResult failed;
  failed.status = passed_on;
  failed.details.effects = Effects::kAll;
  answer(std::move(failed));
}

/// Of a request that fails before it has had any effect.
inline ErrorDetails NothingDone() {
  ErrorDetails details;
  details.effects = Effects::kNone;
  return details;
}

/// The deadline of an RPC as the engine takes it.
inline absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return absl::InfiniteFuture();
  return absl::FromChrono(deadline);
}

}  // namespace formwork::server
