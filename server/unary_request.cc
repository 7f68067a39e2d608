#include "server/unary_request.h"

#include <utility>

#include "core/base/status.h"
#include "server/read_call.h"
#include "server/status_to_grpc.h"
#include "server/wire_format.h"

namespace formwork::server {
UnaryRequest::UnaryRequest(const RequestScope& scope, const char* method,
                           grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                           grpc::ByteBuffer* response, std::optional<std::string> name_space)
    : scope_(scope),
      method_(method),
      context_(context),
      request_(request),
      response_(response),
      arrival_(absl::Now()),
      name_space_(std::move(name_space)) {}

std::string UnaryRequest::name_space() const {
  return name_space_ ? *name_space_ : NamespaceOf(*request_);
}

grpc::ServerUnaryReactor* UnaryRequest::Start(const RequestScope& scope, const char* method,
                                              grpc::CallbackServerContext* context,
                                              const grpc::ByteBuffer* message,
                                              grpc::ByteBuffer* response, TaskPool* pool, Body body,
                                              std::optional<std::string> name_space) {
  const auto request = std::make_shared<UnaryRequest>(scope, method, context, message, response,
                                                      std::move(name_space));
  const absl::Status begun = CatchOutOfMemory([&]() -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(request->HoldMessage());
    if (pool == nullptr) {
      request->Guard([&] { body(request); });
      return absl::OkStatus();
    }
    return pool->Add(request->name_space(), [request, body = std::move(body)]() mutable {
      request->Guard([&] { body(request); });
    });
  });
  if (!begun.ok()) request->Finish(begun, NothingDone());
  absl::MutexLock lock(&request->mutex_);
  if (!request->done_) {
    request->held_by_grpc_ = request;
    return request.get();
  }
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(std::move(request->status_));
  return reactor;
}

absl::Status UnaryRequest::HoldMessage() {
  FORMWORK_ASSIGN_OR_RETURN(held_, server::HoldMessage(scope_, *request_));
  return absl::OkStatus();
}

void UnaryRequest::Guard(absl::FunctionRef<void()> work) {
  const absl::Status ran = CatchOutOfMemory([&] {
    work();
    return absl::OkStatus();
  });
  if (!ran.ok()) Finish(ran);
}

absl::Status UnaryRequest::CheckWanted() {
  if (absl::Now() >= deadline()) {
    return absl::DeadlineExceededError("the request's deadline has passed");
  }
  absl::MutexLock lock(&mutex_);
  return cancelled_ ? absl::CancelledError("the request was cancelled") : absl::OkStatus();
}

void UnaryRequest::Begin(std::shared_ptr<CallHandle> handle) {
  bool cancelled;
  {
    absl::MutexLock lock(&mutex_);
    handle_ = handle;
    cancelled = cancelled_;
  }
  if (cancelled) handle->Cancel();
  handle->Start();
}

uint64_t UnaryRequest::epoch() const {
  return name_space_ ? scope_.engine.epoch(*name_space_) : scope_.engine.epoch(name_space());
}

void UnaryRequest::OnCancel() {
  std::shared_ptr<CallHandle> handle;
  {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    handle = handle_;
  }
  if (handle != nullptr) EndCancelled(scope_, *context_, *handle);
}

void UnaryRequest::OnDone() {
  std::shared_ptr<UnaryRequest> held;  // Goes without the lock.
  absl::MutexLock lock(&mutex_);
  held.swap(held_by_grpc_);
}

void UnaryRequest::AnswerLarge(absl::AnyInvocable<absl::Status()> encode, ErrorDetails details) {
  auto answer = [self = shared_from_this(), encode = std::move(encode),
                 details = std::move(details)]() mutable {
    self->Finish(HoldToBudget(self->scope_.engine.memory(), encode), details);
  };
  scope_.transfers.AddOrRun(name_space(), std::move(answer));
}

void UnaryRequest::Finish(const absl::Status& status, const ErrorDetails& details,
                          absl::Span<const std::string> printed) {
  if (answered_.exchange(true)) return;
  const HeapScope unlimited(nullptr);  // For whom nothing is done by halves.
  scope_.metrics.CountReceived(request_->Length());
  if (status.ok()) scope_.metrics.CountSent(response_->Length());
  if (method_ != nullptr) {
    scope_.metrics.CountRequest(method_, status);
  } else {
    scope_.metrics.CountCall(
        {name_space_.value_or(""), function_name_, status, absl::Now() - arrival_});
  }
  grpc::Status answer = ToGrpc(status, details, epoch(), context_, printed);
  std::shared_ptr<CallHandle> handle;  // Destroyed without the lock.
  {
    absl::MutexLock lock(&mutex_);
    done_ = true;
    handle.swap(handle_);
    if (held_by_grpc_ == nullptr) {  // Start has not returned: it answers.
      status_ = std::move(answer);
      return;
    }
  }
  grpc::ServerUnaryReactor::Finish(std::move(answer));
}

}  // namespace formwork::server
