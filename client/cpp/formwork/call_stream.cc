#include "formwork/call_stream.h"

#include <grpcpp/support/sync_stream.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "formwork/message_codec.h"
#include "formwork/status_from_grpc.h"

namespace formwork::client {
namespace {

using RawStream = grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

// Of what is sent again, that is on its way at once: who reads sends it, and must not wait for a
// server that waits for its answers to be read.
constexpr size_t kMostSentAgain = 4;

// One stream of gRPC's; another follows where it breaks.
struct Connection {
  Connection(grpc::Channel& channel, absl::Time deadline) {
    if (deadline < absl::InfiniteFuture()) context.set_deadline(absl::ToChronoTime(deadline));
    stream.reset(
        grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(
            &channel,
            grpc::internal::RpcMethod("/formwork.v1.GraphService/CallStream",
                                      grpc::internal::RpcMethod::BIDI_STREAMING),
            &context));
  }
  grpc::ClientContext context;
  std::unique_ptr<RawStream> stream;
};

class SyncCallStream final : public CallStream {
 public:
  SyncCallStream(std::shared_ptr<grpc::Channel> channel, const ClientOptions& options,
                 std::shared_ptr<Origin> origin, absl::Duration timeout)
      : channel_(std::move(channel)),
        options_(options),
        origin_(std::move(origin)),
        deadline_(absl::Now() + timeout),
        connection_(std::make_shared<Connection>(*channel_, deadline_)) {}

  ~SyncCallStream() override {
    if (ended_) return;
    connection_->context.TryCancel();
    connection_->stream->Finish();
  }

  bool Write(const CallRequest& request) override {
    CallRequest with_timeout = request;
    if (request.timeout <= absl::ZeroDuration()) with_timeout.timeout = options_.timeout;
    absl::MutexLock writing(&write_mutex_);
    auto number = std::make_unique<NumberedRequest>(*origin_);
    const grpc::ByteBuffer message = EncodeCall(with_timeout, options_.name_space, *number);
    std::shared_ptr<Connection> connection;
    {
      absl::MutexLock lock(&mutex_);
      if (ended_) return false;
      unanswered_.push_back({std::move(number), message, origin_->epoch(), absl::Now()});
      if (behind_ > 0) {  // It follows those that are sent again.
        ++behind_;
        return true;
      }
      connection = connection_;
    }
    // Where it fails, whoever reads finds out, and sends it again.
    return connection->stream->Write(message) || options_.retry_for > absl::ZeroDuration();
  }

  std::optional<CallResponse> Read() override {
    while (!ended_) {
      grpc::ByteBuffer message;
      if (connection_->stream->Read(&message)) return Answered(message);
      Reopen(StatusFrom(connection_->stream->Finish(), connection_->context));
    }
    return std::nullopt;
  }

  void WritesDone() override {
    absl::MutexLock writing(&write_mutex_);
    std::shared_ptr<Connection> connection;
    {
      absl::MutexLock lock(&mutex_);
      writes_done_ = true;
      if (ended_ || behind_ > 0) return;
      connection = connection_;
    }
    connection->stream->WritesDone();
  }

  absl::Status Finish() override {
    absl::MutexLock lock(&mutex_);
    return status_;
  }

 private:
  struct Unanswered {
    std::unique_ptr<NumberedRequest> number;
    grpc::ByteBuffer message;
    uint64_t epoch = 0;  // The server's, when it was sent first.
    absl::Time sent;
  };

  CallResponse Answered(const grpc::ByteBuffer& message) {
    absl::StatusOr<CallResponse> response = DecodeCall(message);
    {
      absl::MutexLock lock(&mutex_);
      if (!unanswered_.empty()) unanswered_.pop_front();
    }
    attempts_.reset();
    SendNext();
    if (!response.ok()) {
      CallResponse failed;
      failed.status = response.status();
      return failed;
    }
    origin_->NoteEpoch(response->epoch);
    return *std::move(response);
  }

  // After the connection has ended with `status`: another one, or the end.
  void Reopen(absl::Status status) {
    origin_->NoteEpoch(status);
    {
      absl::MutexLock lock(&mutex_);
      if (unanswered_.empty() && absl::IsUnavailable(status) &&
          options_.retry_for > absl::ZeroDuration()) {
        // Nothing is lost: another one is opened when there is something to send on it.
        const auto ended_or_more = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return writes_done_ || !unanswered_.empty();
        };
        if (!mutex_.AwaitWithDeadline(absl::Condition(&ended_or_more), deadline_)) {
          status = absl::DeadlineExceededError("the stream's time is up");
        } else if (unanswered_.empty()) {
          status = absl::OkStatus();
        }
      }
      const bool again = !status.ok() && !unanswered_.empty();
      if (again && !attempts_) {
        attempts_.emplace(unanswered_.front().epoch, options_.retry_for, deadline_ - absl::Now(),
                          /*numbered=*/true);
      }
      const std::optional<absl::Duration> pause = again ? attempts_->Failed(status) : std::nullopt;
      if (!pause) {
        ended_ = true;
        status_ = std::move(status);
        return;
      }
      pause_ = *pause;
    }
    absl::SleepFor(pause_);
    size_t behind;
    {
      absl::MutexLock writing(&write_mutex_);
      absl::MutexLock lock(&mutex_);
      connection_ = std::make_shared<Connection>(*channel_, deadline_);
      behind = behind_ = unanswered_.size();
      marks_ = attempts_->lost();
    }
    for (size_t i = 0; i < std::min(behind, kMostSentAgain); ++i) SendNext();
  }

  // Sends the first of those that are to be sent again, where there is one.
  void SendNext() {
    {
      absl::MutexLock lock(&mutex_);
      if (behind_ == 0) return;  // Else nobody holds write_mutex_ for long.
    }
    absl::MutexLock writing(&write_mutex_);
    grpc::ByteBuffer message;
    bool done;
    {
      absl::MutexLock lock(&mutex_);
      const Unanswered& one = unanswered_[unanswered_.size() - behind_];
      message = marks_ ? Appended(one.message, RepeatFields(one.epoch, one.sent)) : one.message;
      done = --behind_ == 0 && writes_done_;
    }
    connection_->stream->Write(message);
    if (done) connection_->stream->WritesDone();
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const ClientOptions& options_;
  const std::shared_ptr<Origin> origin_;
  const absl::Time deadline_;

  absl::Mutex write_mutex_;  // Of whoever writes; taken first.
  absl::Mutex mutex_;
  // Replaced by who reads, with both locks.
  std::shared_ptr<Connection> connection_;
  std::deque<Unanswered> unanswered_ ABSL_GUARDED_BY(mutex_);
  size_t behind_ ABSL_GUARDED_BY(mutex_) = 0;  // The last so many of them are not sent yet.
  bool writes_done_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ = false;  // Written by who reads, with the lock.
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  // Of who reads:
  std::optional<Attempts> attempts_;  // Since the last answer.
  absl::Duration pause_;
  bool marks_ = false;  // The server may have got what is sent again.
};

}  // namespace

std::unique_ptr<CallStream> OpenCallStream(std::shared_ptr<grpc::Channel> channel,
                                           const ClientOptions& options,
                                           std::shared_ptr<Origin> origin, absl::Duration timeout) {
  return std::make_unique<SyncCallStream>(std::move(channel), options, std::move(origin), timeout);
}

}  // namespace formwork::client
