#pragma once

// ModelStreamInfer: requests for inferences in the order sent, one at a time.

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/memory_budget.h"
#include "core/engine.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/open_streams.h"
#include "server/request_scope.h"
#include "server/serving/predict.h"

namespace formwork::server {

/// One stream, with a deadline for all of it. Each request is answered by one response, an error
/// too; the next one is read when that is written. gRPC calls the On… methods; the engine calls
/// back from any thread. Lives until gRPC and the engine are both done with it.
class InferStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                          public OpenStream,
                          public std::enable_shared_from_this<InferStream> {
 public:
  InferStream(const RequestScope& scope, OpenStreams& open, grpc::CallbackServerContext& context);

  /// Begins to read; to be called once, in the handler.
  void Start();
  void CloseWhenIdle() override;
  void EndIfIdle(absl::Time since) override;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  struct Caller;  // The request that is read, as CallModel takes it.

  // Where its one request is.
  enum class At { kNone, kReading, kRead, kRunning, kAnswered, kWriting };
  enum class Step { kNone, kRead, kRun, kWrite, kFinish };

  // What is to be done next; marks it as begun.
  Step NextStep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Does what is to be done, on one thread at a time.
  void Advance();
  bool TakeStep();
  void Close(absl::Status end);
  // Runs the request that is read, on a thread of ours where it is large.
  void Run();
  // Ends the request with its response. `status`: what it is counted as.
  void Complete(const absl::Status& status, grpc::ByteBuffer response);
  // The same with an error. Does not throw.
  void Refuse(const absl::Status& status);
  void Break(const absl::Status& status) override;
  // Nobody gets any more responses: what runs is ended.
  void Abandon();

  const RequestScope& scope_;
  OpenStreams& open_;
  grpc::CallbackServerContext& context_;
  const absl::Time deadline_;
  const std::string name_space_;

  // Of the request, which one thread at a time works on.
  absl::Time arrival_;
  MemoryReservation held_;  // Its message's.
  std::string id_;
  std::string function_name_;
  grpc::ByteBuffer incoming_;  // gRPC's while it is read.
  grpc::ByteBuffer outgoing_;  // gRPC's while it is written.

  absl::Mutex mutex_;
  At at_ ABSL_GUARDED_BY(mutex_) = At::kNone;
  std::shared_ptr<CallHandle> handle_ ABSL_GUARDED_BY(mutex_);
  absl::Time last_progress_ ABSL_GUARDED_BY(mutex_) = absl::Now();
  absl::Status end_ ABSL_GUARDED_BY(mutex_);  // What the stream ends with.
  bool advancing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;  // It ends when the request is answered.
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace formwork::server
