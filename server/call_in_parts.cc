#include "server/call_in_parts.h"

#include <algorithm>
#include <utility>

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
      parts_(scope.engine.epoch(NamespaceOf(request)), 0, scope.max_message_bytes) {}

void CallInParts::Start() {
  const absl::Status added = open_.Add(shared_from_this());
  scope_.metrics.CountReceived(request_.Length());
  absl::Status begun = added;
  if (added.ok()) begun = CatchOutOfMemory([this] { return Begin(); });
  if (!begun.ok()) Refuse(begun, NothingDone());
}

absl::Status CallInParts::Begin() {
  FORMWORK_ASSIGN_OR_RETURN(held_, HoldMessage(scope_, request_));
  if (request_.Length() < kLargeMessageBytes) {
    Run();
    return absl::OkStatus();
  }
  return scope_.transfers.Add(NamespaceOf(request_), [self = shared_from_this()] { self->Run(); });
}

void CallInParts::Run() {
  const InlineTurn turn(scope_.inline_turns, /*wanted=*/true);
  std::shared_ptr<CallHandle> handle;
  bool cancelled = false;
  ErrorDetails details;
  const absl::Status begun = CatchOutOfMemory([&]() -> absl::Status {
    CallSpec spec;
    FORMWORK_RETURN_IF_ERROR(Decode(&spec, &details));
    turn.Apply(spec);
    handle = scope_.engine.Call(std::move(spec), [self = shared_from_this()](CallResult result) {
      self->Complete(std::move(result));
    });
    absl::MutexLock lock(&mutex_);
    handle_ = handle;
    cancelled = cancelled_;
    return absl::OkStatus();
  });
  if (!begun.ok()) return Refuse(begun, std::move(details));
  if (cancelled) handle->Cancel();
  handle->Start();
}

absl::Status CallInParts::Decode(CallSpec* spec, ErrorDetails* details) {
  DecodedCall call;
  const absl::Status read =
      ReadCall(scope_, request_, context_, arrival_, DeadlineOf(context_), &call, details);
  name_space_ = call.spec.name_space;
  call.spec.print = [self = shared_from_this()](absl::string_view text) { self->Printed(text); };
  *spec = std::move(call.spec);
  return read;
}

void CallInParts::Printed(absl::string_view text) {
  const HeapScope unlimited(nullptr);  // The stream's memory, and bounded, not the call's.
  {
    absl::MutexLock lock(&mutex_);
    if (cancelled_) return;
    parts_.AddPrinted(text);
  }
  Advance();
}

void CallInParts::Refuse(absl::Status status, ErrorDetails details) {
  CallResult refused;
  refused.status = std::move(status);
  refused.details = std::move(details);
  End(std::move(refused));
}

void CallInParts::Complete(CallResult result) {
  if (!SlowToEncode(result)) return End(std::move(result));
  AnswerOnPool(scope_, name_space_, std::move(result),
               [self = shared_from_this()](CallResult slow) { self->End(std::move(slow)); });
}

void CallInParts::End(CallResult result) {
  scope_.metrics.CountCall(
      {name_space_, result.function_name, result.status, absl::Now() - arrival_});
  std::shared_ptr<CallHandle> handle;  // Destroyed without the lock.
  Guard([&] {
    absl::MutexLock lock(&mutex_);
    complete_ = true;
    last_progress_ = absl::Now();
    handle.swap(handle_);
    if (!status_.ok()) return;  // Broken before.
    status_ = result.status;
    details_ = std::move(result.details);
    if (status_.ok()) parts_.SetResult(std::move(result));
  });
  Advance();
}

void CallInParts::Advance() {
  // Once more where a step breaks it: it ends then.
  for (bool taken = false; !taken;) {
    Guard([&] {
      TakeStep();
      taken = true;
    });
  }
}

void CallInParts::TakeStep() {
  bool write;
  absl::Status status;
  ErrorDetails details;
  {
    absl::MutexLock lock(&mutex_);
    if (writing_ || finished_) return;
    write = parts_.HasNext() && !cancelled_;
    if (write) {
      outgoing_ = parts_.Next();
      writing_ = true;
    } else if (complete_) {
      finished_ = true;
      status = status_;
      details = std::move(details_);
    } else {
      return;
    }
  }
  if (!write)
    return Finish(ToGrpc(status, details, scope_.engine.epoch(NamespaceOf(request_)), &context_));
  scope_.metrics.CountSent(outgoing_.Length());
  StartWrite(&outgoing_);
}

void CallInParts::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    last_progress_ = absl::Now();
    outgoing_.Clear();
  }
  if (!ok) Abandon();
  Advance();
}

void CallInParts::OnCancel() {
  Abandon();
  Advance();
}

void CallInParts::Break(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    if (status_.ok()) status_ = status;
  }
  Abandon();
}

void CallInParts::Abandon() {
  std::shared_ptr<CallHandle> handle;
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(cancelled_, true)) return;
    handle = handle_;
  }
  if (handle != nullptr) EndCancelled(scope_, context_, *handle);
}

void CallInParts::EndIfIdle(absl::Time since) {
  absl::MutexLock lock(&mutex_);
  if (complete_ && !finished_ && last_progress_ <= since) context_.TryCancel();
}

void CallInParts::OnDone() { open_.Remove(this); }

}  // namespace formwork::server
