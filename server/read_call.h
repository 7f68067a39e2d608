#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/memory_budget.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/call_codec.h"
#include "server/request_scope.h"

namespace formwork::server {

/// Small messages, which others bound by number, are not counted; nor is what they are made into.
bool IsCounted(const grpc::ByteBuffer& message);

/// The memory of a received message that is counted, reserved of the engine's budget for as long as
/// both are held. Errors: MemoryBudget::Reserve's.
absl::StatusOr<MemoryReservation> HoldMessage(const RequestScope& scope,
                                              const grpc::ByteBuffer& message);

/// The call that a message asks for, held to the memory limit while it is decoded: its deadline is
/// the earlier of `deadline` and its own timeout from `arrival`, and what it keeps belongs to the
/// peer where no client is named. What came before an error is in `call`.
/// Errors: DecodeCallRequest's; Engine::CheckEpoch's, with `details`.
absl::Status ReadCall(const RequestScope& scope, const grpc::ByteBuffer& message,
                      const grpc::CallbackServerContext& context, absl::Time arrival,
                      absl::Time deadline, DecodedCall* call, ErrorDetails* details);

}  // namespace formwork::server
