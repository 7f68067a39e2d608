#include "server/unary_request.h"

#include <utility>

#include "core/base/reason.h"
#include "core/base/status.h"
#include "server/read_call.h"
#include "server/status_to_grpc.h"
#include "server/wire_format.h"

namespace formwork::server {
namespace {

class CancellableReactor final : public grpc::ServerUnaryReactor {
 public:
  explicit CancellableReactor(std::shared_ptr<UnaryRequest> request)
      : request_(std::move(request)) {}
  void OnCancel() override { request_->Cancel(); }
  void OnDone() override { delete this; }

 private:
  const std::shared_ptr<UnaryRequest> request_;
};

}  // namespace

UnaryRequest::UnaryRequest(const RequestScope& scope, const char* method,
                           grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                           grpc::ByteBuffer* response)
    : scope_(scope),
      method_(method),
      context_(context),
      request_(request),
      response_(response),
      arrival_(absl::Now()) {}

grpc::ServerUnaryReactor* UnaryRequest::Start(const RequestScope& scope, const char* method,
                                              grpc::CallbackServerContext* context,
                                              const grpc::ByteBuffer* message,
                                              grpc::ByteBuffer* response, TaskPool* pool,
                                              Body body) {
  const auto request = std::make_shared<UnaryRequest>(scope, method, context, message, response);
  const absl::Status begun = CatchOutOfMemory([&]() -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(request->HoldMessage());
    if (pool == nullptr) {
      request->Guard([&] { body(request); });
      return absl::OkStatus();
    }
    auto run = [request, body = std::move(body)]() mutable {
      request->Guard([&] { body(request); });
    };
    if (pool->Add(NamespaceOf(*message), std::move(run))) return absl::OkStatus();
    return WithReason(ResourceExhausted("too many requests wait: ", method), Reason::kQueueFull);
  });
  if (!begun.ok()) request->Finish(begun);
  absl::MutexLock lock(&request->mutex_);
  if (!request->done_) return request->reactor_ = new CancellableReactor(request);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(request->status_);
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

void UnaryRequest::Cancel() {
  std::shared_ptr<CallHandle> handle;
  {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    handle = handle_;
  }
  if (handle != nullptr) handle->Cancel();
}

void UnaryRequest::Encode(bool slow, absl::AnyInvocable<void()> encode) {
  Guard([&] {
    absl::AnyInvocable<void()> guarded = [self = shared_from_this(),
                                          encode = std::move(encode)]() mutable {
      self->Guard([&] { encode(); });
    };
    // What is done is answered, even where too much waits already.
    if (slow && scope_.transfers.Add(NamespaceOf(*request_), std::move(guarded))) return;
    guarded();
  });
}

void UnaryRequest::Finish(const absl::Status& status, const ErrorDetails& details,
                          absl::Span<const std::string> printed) {
  scope_.metrics.CountReceived(request_->Length());
  if (status.ok()) scope_.metrics.CountSent(response_->Length());
  if (method_ != nullptr) scope_.metrics.CountRequest(method_, status);
  grpc::Status answer = ToGrpc(status, details, scope_.engine.epoch(), context_, printed);
  std::shared_ptr<CallHandle> handle;  // Destroyed without the lock.
  grpc::ServerUnaryReactor* reactor;
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(done_, true)) return;
    handle.swap(handle_);
    reactor = reactor_;
    if (reactor == nullptr) status_ = std::move(answer);
  }
  if (reactor != nullptr) reactor->Finish(std::move(answer));
}

}  // namespace formwork::server
