#pragma once

// CallStream: calls in the order sent, one at a time, while the next ones are read ahead; calls
// that are `unordered` beside them.

#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
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

/// One stream, with a deadline for all of it. gRPC calls the On… methods; the engine calls back
/// from any thread. Lives until gRPC and the engine are both done with it. What it reads ahead and
/// what waits to be written is bounded in number and bytes.
class CallStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                         public OpenStream,
                         public std::enable_shared_from_this<CallStream> {
 public:
  CallStream(const RequestScope& scope, OpenStreams& open, grpc::CallbackServerContext& context);

  /// Begins to read; to be called once, in the handler.
  void Start();
  void CloseWhenIdle() override;
  void EndIfIdle(absl::Time since) override;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  struct Call;
  class Client;  // Of a call: it is asked over this stream.
  // A call that is read, and not begun.
  struct Request {
    std::shared_ptr<Call> call;
    grpc::ByteBuffer message;
    absl::StatusOr<MemoryReservation> held;  // The message's memory, or why it cannot be had.
    // Whether nothing else of the stream could run now.
    bool is_alone = false;
  };
  // A call that runs.
  struct Running {
    std::shared_ptr<Call> call;
    std::shared_ptr<CallHandle> handle;
  };
  // What waits to be written: one message, or parts as they come.
  struct Answer {
    grpc::ByteBuffer whole;
    std::shared_ptr<AnswerParts> parts;

    size_t bytes() const { return parts != nullptr ? parts->bytes() : whole.Length(); }
  };

  static constexpr size_t kMaxRunning = 8;

  enum class Step { kNone, kWrite, kRun, kRead, kFinish };

  // What is to be done next; marks it as begun.
  Step NextStep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The place in waiting_ of a call that may run now; -1: none.
  int NextToRun() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayRun() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayRead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsReadAhead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether an answer of the client's is awaited.
  bool Asks() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeMessage() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Does what is to be done, on one thread at a time.
  void Advance();
  bool TakeStep();
  void Begin(Request request);
  void Run(const Request& request);
  // What may fail of it, before the call has begun.
  absl::Status Decode(const Request& request, CallSpec* spec, ErrorDetails* details);
  void Printed(const std::shared_ptr<AnswerParts>& parts, absl::string_view text);
  absl::StatusOr<std::shared_ptr<ClientAnswer>> Ask(const std::shared_ptr<Call>& call,
                                                    absl::string_view token,
                                                    absl::Span<const Tensor> inputs);
  // The client's answer has come.
  void Answered(grpc::ByteBuffer message);
  void TakeAnswer(const grpc::ByteBuffer& message, const absl::StatusOr<MemoryReservation>& held);
  // On the thread that runs a call: write what waits, and read on, where that can be done at once;
  // they begin nothing else.
  void WriteNow() ABSL_LOCKS_EXCLUDED(mutex_);
  void ReadNow() ABSL_LOCKS_EXCLUDED(mutex_);
  // No answers will come to these.
  std::vector<std::shared_ptr<ClientAnswer>> TakeQuestions() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has `parts` written, unless they wait for it already.
  void Queue(const std::shared_ptr<AnswerParts>& parts) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // These do not throw.
  void Refuse(const std::shared_ptr<Call>& call, absl::Status status, ErrorDetails details);
  void Complete(const std::shared_ptr<Call>& call, CallResult result);
  void Encode(const std::shared_ptr<Call>& call, CallResult result, bool large);
  void Break(const absl::Status& status) override;
  // Nobody gets any more answers: what waits is dropped, and what runs is ended.
  void Abandon();

  Running* FindRunning(const Call* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The call has ended; its handle, to be destroyed without the lock.
  std::shared_ptr<CallHandle> EndRunning(const Call* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RequestScope& scope_;
  OpenStreams& open_;
  grpc::CallbackServerContext& context_;
  const absl::Time deadline_;
  std::atomic<uint64_t> epoch_{0};  // Of the last call's namespace.

  absl::Mutex mutex_;
  std::deque<Request> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::InlinedVector<Running, kMaxRunning> running_ ABSL_GUARDED_BY(mutex_);
  bool ordered_running_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Answer> answers_ ABSL_GUARDED_BY(mutex_);  // The first may be on its way.
  uint64_t questions_ ABSL_GUARDED_BY(mutex_) = 0;      // How many were asked.
  absl::Time last_progress_ ABSL_GUARDED_BY(mutex_) = absl::Now();
  absl::Status end_ ABSL_GUARDED_BY(mutex_);     // What the stream ends with once it is closing,
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);  // or where it is broken.
  bool advancing_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool all_read_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ByteBuffer incoming_;  // gRPC's while reading_ is set.
  grpc::ByteBuffer outgoing_;  // gRPC's while writing_ is set.
};

}  // namespace formwork::server
