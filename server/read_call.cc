#include "server/read_call.h"

#include <algorithm>

#include "core/base/memory_budget.h"
#include "core/base/status.h"

namespace formwork::server {
namespace {

constexpr size_t kCountedMessageBytes = size_t{64} << 10;

}  // namespace

bool IsCounted(const grpc::ByteBuffer& message) { return message.Length() >= kCountedMessageBytes; }

absl::StatusOr<MemoryReservation> HoldMessage(const RequestScope& scope,
                                              const grpc::ByteBuffer& message) {
  if (!IsCounted(message)) return MemoryReservation();
  absl::StatusOr<MemoryReservation> held =
      MemoryReservation::Take(scope.engine.memory(), message.Length());
  if (!held.ok()) return Annotate(held.status(), "the request's message");
  return held;
}

absl::Status ReadCall(const RequestScope& scope, const grpc::ByteBuffer& message,
                      const grpc::CallbackServerContext& context, absl::Time arrival,
                      absl::Time deadline, DecodedCall* call, ErrorDetails* details) {
  Engine& engine = scope.engine;
  details->effects = Effects::kNone;  // Of what is refused here.
  FORMWORK_RETURN_IF_ERROR(HoldToBudget(
      engine.memory(), [&] { return DecodeCallRequest(message, engine.allocator(), call); }));
  CallSpec& spec = call->spec;
  FORMWORK_RETURN_IF_ERROR(
      CheckRepeat(engine, spec.name_space, spec.request, call->expected_epoch, details));
  if (call->names_by_id()) {
    FORMWORK_RETURN_IF_ERROR(
        CheckIds(engine, spec.name_space, spec.request, call->expected_epoch, details));
  }
  spec.deadline = deadline;
  if (call->timeout) spec.deadline = std::min(deadline, arrival + *call->timeout);
  if (spec.keep_outputs) {
    FORMWORK_ASSIGN_OR_RETURN(spec.owner, OwnerOf(spec.request.client, context));
  }
  return absl::OkStatus();
}

}  // namespace formwork::server
