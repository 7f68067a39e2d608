#pragma once

// The method CallInParts: one call, answered in parts.

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/memory_budget.h"
#include "core/engine.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/answer_parts.h"
#include "server/open_streams.h"
#include "server/request_scope.h"

namespace formwork::server {

/// gRPC calls the On… methods; the engine calls back from any thread. Lives until gRPC and the
/// engine are both done with it.
class CallInParts final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                          public OpenStream,
                          public std::enable_shared_from_this<CallInParts> {
 public:
  CallInParts(const RequestScope& scope, OpenStreams& open, grpc::CallbackServerContext& context,
              const grpc::ByteBuffer& request);

  /// Begins the call; to be called once, in the handler.
  void Start();
  void CloseWhenIdle() override {}  // It ends with its call.
  void EndIfIdle(absl::Time since) override;

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  absl::Status Begin();
  void Run();
  // What may fail of it, before the call has begun.
  absl::Status Decode(CallSpec* spec, ErrorDetails* details);
  void Printed(absl::string_view text);
  // Writes the next part, or ends, where that can be done now.
  void TakeStep();
  // These do not throw.
  void Refuse(absl::Status status, ErrorDetails details);
  void Complete(CallResult result);
  void End(CallResult result);
  void Advance();
  void Break(const absl::Status& status) override;
  // Nobody gets any more parts.
  void Abandon();

  const RequestScope& scope_;
  OpenStreams& open_;
  grpc::CallbackServerContext& context_;
  const grpc::ByteBuffer request_;
  const absl::Time arrival_ = absl::Now();
  std::string name_space_;  // Known once the request is decoded.
  MemoryReservation held_;  // The request's.

  absl::Mutex mutex_;
  AnswerParts parts_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<CallHandle> handle_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // The call's, once it is complete; or why not.
  ErrorDetails details_ ABSL_GUARDED_BY(mutex_);
  absl::Time last_progress_ ABSL_GUARDED_BY(mutex_) = absl::Now();
  bool complete_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ByteBuffer outgoing_;  // gRPC's while writing_ is set.
};

}  // namespace formwork::server
