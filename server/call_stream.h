#pragma once

// CallStream: calls in the order sent, one at a time, while the next ones are read ahead.

#include <deque>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/engine.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/request_scope.h"

namespace formwork::server {

class CallStream;

/// The open streams of a service, so that a server that ends can close them. Thread-safe.
class OpenStreams {
 public:
  void Add(std::shared_ptr<CallStream> stream);
  void Remove(CallStream* stream);
  /// Closes every stream as soon as it has nothing left to answer, with kUnavailable.
  void CloseWhenIdle();

 private:
  absl::Mutex mutex_;
  absl::flat_hash_set<std::shared_ptr<CallStream>> streams_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
};

/// One stream, with a deadline for all of it. gRPC calls the On… methods; the engine calls back
/// from any thread. Lives until gRPC and the engine are both done with it.
class CallStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                         public std::enable_shared_from_this<CallStream> {
 public:
  CallStream(const RequestScope& scope, OpenStreams& open, absl::Time deadline);

  /// Begins to read; to be called once, in the handler.
  void Start();
  void CloseWhenIdle();

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  struct Request {
    grpc::ByteBuffer message;
    absl::Time arrival;

    void Swap(Request* other) {
      message.Swap(&other->message);
      std::swap(arrival, other->arrival);
    }
  };

  enum class Step { kNone, kWrite, kRun, kRead, kFinish };

  // What is to be done next; marks it as begun.
  Step NextStep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Does what is to be done, on one thread at a time.
  void Advance();
  bool TakeStep();
  void Begin(Request request);
  void Run(const Request& request);
  void Answer(CallResult result, uint64_t call_id, absl::Time arrival);

  const RequestScope& scope_;
  std::string name_space_;  // Of the call that runs.
  OpenStreams& open_;

  const absl::Time deadline_;

  absl::Mutex mutex_;
  std::deque<Request> waiting_ ABSL_GUARDED_BY(mutex_);
  std::deque<grpc::ByteBuffer> answers_ ABSL_GUARDED_BY(mutex_);  // The first may be on its way.
  std::shared_ptr<CallHandle> handle_ ABSL_GUARDED_BY(mutex_);    // Of the call that runs.
  bool advancing_ ABSL_GUARDED_BY(mutex_) = false;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool all_read_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ByteBuffer incoming_;  // gRPC's while reading_ is set.
};

}  // namespace formwork::server
