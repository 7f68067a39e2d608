#include "server/unary_call.h"

#include <utility>

#include "core/base/status.h"
#include "server/call_codec.h"
#include "server/status_to_grpc.h"

namespace formwork::server {
namespace {

// Passes a cancellation on. Owned by gRPC until OnDone.
class CancellableReactor final : public grpc::ServerUnaryReactor {
 public:
  explicit CancellableReactor(std::shared_ptr<UnaryCall> call) : call_(std::move(call)) {}
  void OnCancel() override { call_->Cancel(); }
  void OnDone() override { delete this; }

 private:
  const std::shared_ptr<UnaryCall> call_;
};

}  // namespace

absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return absl::InfiniteFuture();
  return absl::FromChrono(deadline);
}

UnaryCall::UnaryCall(const RequestScope& scope, grpc::CallbackServerContext* context,
                     const grpc::ByteBuffer* request, grpc::ByteBuffer* response)
    : scope_(scope),
      context_(context),
      request_(request),
      response_(response),
      arrival_(absl::Now()) {}

grpc::ServerUnaryReactor* UnaryCall::Start() {
  if (request_->Length() < kLargeRequestBytes) {
    Run();
  } else if (!scope_.transfers.Add([self = shared_from_this()] { self->Run(); })) {
    CallResult refused;
    refused.status = ResourceExhausted("too many large requests wait to be read");
    Complete(std::move(refused));
  }
  absl::MutexLock lock(&mutex_);
  if (!done_) return reactor_ = new CancellableReactor(shared_from_this());
  grpc::ServerUnaryReactor* reactor = context_->DefaultReactor();
  reactor->Finish(status_);
  return reactor;
}

void UnaryCall::Run() {
  DecodedCall call;
  call.spec.deadline = DeadlineOf(*context_);
  const size_t bytes = request_->Length();
  CallResult refused;
  refused.status = DecodeCallRequest(*request_, scope_.engine.allocator(), &call);
  scope_.metrics.CountReceived(bytes);
  if (!refused.status.ok()) return Complete(std::move(refused));
  name_space_ = call.spec.name_space;
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

void UnaryCall::Cancel() {
  std::shared_ptr<CallHandle> handle;
  {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    handle = handle_;
  }
  if (handle != nullptr) handle->Cancel();
}

void UnaryCall::Complete(CallResult result) {
  const uint64_t epoch = scope_.engine.epoch();
  absl::Status status = std::move(result.status);
  result.status = absl::OkStatus();
  if (status.ok()) status = EncodeCallResponse(result, epoch, 0, response_);
  scope_.metrics.CountSent(response_->Valid() ? response_->Length() : 0);
  scope_.metrics.CountCall(
      {name_space_, result.function_name, status.code(), absl::Now() - arrival_});
  grpc::Status answer = ToGrpc(status, result.details, epoch, context_, result.printed);
  grpc::ServerUnaryReactor* reactor;
  {
    absl::MutexLock lock(&mutex_);
    done_ = true;
    handle_ = nullptr;
    status_ = answer;
    reactor = reactor_;
  }
  if (reactor != nullptr) reactor->Finish(std::move(answer));
}

}  // namespace formwork::server
