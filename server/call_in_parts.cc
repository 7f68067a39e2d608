#include "server/call_in_parts.h"

#include <algorithm>
#include <utility>

#include "core/base/reason.h"
#include "core/base/status.h"
#include "server/call_codec.h"
#include "server/read_call.h"
#include "server/status_to_grpc.h"
#include "server/value_codec.h"
#include "server/wire_format.h"

namespace formwork::server {

CallInParts::CallInParts(const RequestScope& scope, OpenStreams& open,
                         grpc::CallbackServerContext& context, const grpc::ByteBuffer& request)
    : scope_(scope),
      open_(open),
      context_(context),
      request_(request),
      parts_(scope.engine.epoch(), 0) {}

void CallInParts::Start() {
  open_.Add(shared_from_this());
  scope_.metrics.CountReceived(request_.Length());
  CallResult refused;
  absl::StatusOr<MemoryReservation> held = HoldMessage(scope_, request_);
  if (!held.ok()) {
    refused.status = held.status();
    return Complete(std::move(refused));
  }
  held_ = *std::move(held);
  if (request_.Length() < kLargeMessageBytes) return Run();
  if (scope_.transfers.Add(NamespaceOf(request_), [self = shared_from_this()] { self->Run(); }))
    return;
  refused.status =
      WithReason(ResourceExhausted("too many large requests wait to be read"), Reason::kQueueFull);
  Complete(std::move(refused));
}

void CallInParts::Run() {
  DecodedCall call;
  CallResult refused;
  refused.status =
      ReadCall(scope_, request_, context_, arrival_, DeadlineOf(context_), &call, &refused.details);
  if (!refused.status.ok()) return Complete(std::move(refused));
  name_space_ = call.spec.name_space;
  call.spec.print = [self = shared_from_this()](absl::string_view text) {
    {
      absl::MutexLock lock(&self->mutex_);
      if (self->cancelled_) return;
      self->parts_.AddPrinted(text);
    }
    self->Advance();
  };
  std::shared_ptr<CallHandle> handle = scope_.engine.Call(
      std::move(call.spec),
      [self = shared_from_this()](CallResult result) { self->Complete(std::move(result)); });
  bool cancelled;
  {
    absl::MutexLock lock(&mutex_);
    handle_ = handle;
    cancelled = cancelled_;
  }
  if (cancelled) handle->Cancel();
  handle->Start();
}

void CallInParts::Complete(CallResult result) {
  scope_.metrics.CountCall(
      {name_space_, result.function_name, result.status, absl::Now() - arrival_});
  const bool slow =
      std::any_of(result.outputs.begin(), result.outputs.end(),
                  [](const CallOutput& output) { return SlowToEncode(output.tensor); });
  auto end = [self = shared_from_this(), result = std::move(result)]() mutable {
    std::shared_ptr<CallHandle> handle;  // Destroyed without the lock.
    const grpc::Status status =
        ToGrpc(result.status, result.details, self->scope_.engine.epoch(), &self->context_);
    {
      absl::MutexLock lock(&self->mutex_);
      self->complete_ = true;
      self->last_progress_ = absl::Now();
      self->status_ = status;
      if (status.ok()) self->parts_.SetResult(std::move(result));
      handle.swap(self->handle_);
    }
    self->Advance();
  };
  if (!slow) return end();
  absl::AnyInvocable<void()> task = std::move(end);
  // What is done is answered, even where too much waits already.
  if (!scope_.transfers.Add(NamespaceOf(request_), std::move(task))) task();
}

void CallInParts::Advance() {
  grpc::Status status;
  bool write;
  {
    absl::MutexLock lock(&mutex_);
    if (writing_ || finished_) return;
    write = parts_.HasNext() && !cancelled_;
    if (write) {
      writing_ = true;
      outgoing_ = parts_.Next();
    } else if (complete_) {
      finished_ = true;
      status = status_;
    } else {
      return;
    }
  }
  if (!write) return Finish(std::move(status));
  scope_.metrics.CountSent(outgoing_.Length());
  StartWrite(&outgoing_);
}

void CallInParts::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    last_progress_ = absl::Now();
    outgoing_.Clear();
    cancelled_ |= !ok;
  }
  Advance();
}

void CallInParts::OnCancel() {
  std::shared_ptr<CallHandle> handle;
  {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    handle = handle_;
  }
  if (handle != nullptr) handle->Cancel();
  Advance();
}

void CallInParts::EndIfIdle(absl::Time since) {
  absl::MutexLock lock(&mutex_);
  if (complete_ && !finished_ && last_progress_ <= since) context_.TryCancel();
}

void CallInParts::OnDone() { open_.Remove(this); }

}  // namespace formwork::server
