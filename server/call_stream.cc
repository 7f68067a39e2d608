#include "server/call_stream.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "server/call_codec.h"

namespace formwork::server {
namespace {

// How far a stream is read ahead, and how many answers may wait for a slow client.
constexpr size_t kMaxWaiting = 8;
constexpr size_t kMaxAnswers = 16;

}  // namespace

void OpenStreams::Add(std::shared_ptr<CallStream> stream) {
  absl::MutexLock lock(&mutex_);
  if (closing_) stream->CloseWhenIdle();
  streams_.insert(std::move(stream));
}

void OpenStreams::Remove(CallStream* stream) {
  std::shared_ptr<CallStream> removed = stream->shared_from_this();  // Outlives the lock.
  absl::MutexLock lock(&mutex_);
  streams_.erase(removed);
}

void OpenStreams::CloseWhenIdle() {
  std::vector<std::shared_ptr<CallStream>> streams;
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    streams.assign(streams_.begin(), streams_.end());
  }
  for (const auto& stream : streams) stream->CloseWhenIdle();
}

CallStream::CallStream(const RequestScope& scope, OpenStreams& open, absl::Time deadline)
    : scope_(scope), open_(open), deadline_(deadline) {}

void CallStream::Start() {
  scope_.metrics.CountStream(1);
  open_.Add(shared_from_this());
  Advance();
}

void CallStream::CloseWhenIdle() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  Advance();
}

CallStream::Step CallStream::NextStep() {
  if (finished_) return Step::kNone;
  if (!writing_ && !answers_.empty() && !cancelled_) {
    writing_ = true;
    return Step::kWrite;
  }
  if (!running_ && !waiting_.empty() && answers_.size() < kMaxAnswers) {
    running_ = true;
    return Step::kRun;
  }
  const bool idle = !running_ && waiting_.empty() && answers_.empty();
  const bool lost = cancelled_ && !running_ && !writing_;
  if (lost || (idle && (all_read_ || closing_))) {
    finished_ = true;
    return Step::kFinish;
  }
  if (!reading_ && !all_read_ && !cancelled_ && waiting_.size() < kMaxWaiting) {
    reading_ = true;
    return Step::kRead;
  }
  return Step::kNone;
}

void CallStream::Advance() {
  const std::shared_ptr<CallStream> self = shared_from_this();
  {
    absl::MutexLock lock(&mutex_);
    // Whoever is at it sees what has changed: it looks at the state again after each step.
    if (advancing_) return;
    advancing_ = true;
  }
  while (TakeStep()) {
  }
}

bool CallStream::TakeStep() {
  Step step;
  Request request;
  grpc::Status status;
  const grpc::ByteBuffer* answer = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    step = NextStep();
    if (step == Step::kNone) {
      advancing_ = false;
    } else if (step == Step::kWrite) {
      answer = &answers_.front();
    } else if (step == Step::kRun) {
      request.Swap(&waiting_.front());
      waiting_.pop_front();
    } else if (step == Step::kFinish && closing_ && !all_read_) {
      status = grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server is shutting down");
    }
  }
  if (step == Step::kWrite) StartWrite(answer);
  if (step == Step::kRun) Begin(std::move(request));
  if (step == Step::kRead) StartRead(&incoming_);
  if (step == Step::kFinish) Finish(status);
  return step != Step::kNone;
}

void CallStream::Begin(Request request) {
  if (request.message.Length() < kLargeMessageBytes) return Run(request);
  const absl::Time arrival = request.arrival;
  const bool added = scope_.transfers.Add(
      [self = shared_from_this(), request = std::move(request)] { self->Run(request); });
  if (added) return;
  CallResult refused;
  refused.status = ResourceExhausted("too many large requests wait to be read");
  Answer(std::move(refused), 0, arrival);
}

void CallStream::Run(const Request& request) {
  const absl::Time arrival = request.arrival;
  DecodedCall call;
  CallResult refused;
  refused.status = DecodeCallRequest(request.message, scope_.engine.allocator(), &call);
  if (refused.status.ok() && call.names_by_id()) {
    refused.status = scope_.engine.CheckEpoch(call.expected_epoch, &refused.details);
  }
  const uint64_t call_id = call.call_id;
  if (!refused.status.ok()) return Answer(std::move(refused), call_id, arrival);
  name_space_ = call.spec.name_space;
  call.spec.deadline = deadline_;
  if (call.timeout) call.spec.deadline = std::min(deadline_, arrival + *call.timeout);
  std::shared_ptr<CallHandle> handle = scope_.engine.Call(
      std::move(call.spec), [self = shared_from_this(), call_id, arrival](CallResult result) {
        self->Answer(std::move(result), call_id, arrival);
      });
  bool cancelled;
  {
    absl::MutexLock lock(&mutex_);
    handle_ = handle;
    cancelled = cancelled_;
  }
  if (cancelled) handle->Cancel();
  handle->Start();
}

void CallStream::Answer(CallResult result, uint64_t call_id, absl::Time arrival) {
  const uint64_t epoch = scope_.engine.epoch();
  grpc::ByteBuffer answer;
  const absl::Status encoded =
      EncodeCallResponse(result, epoch, call_id, scope_.max_message_bytes, &answer);
  if (!encoded.ok()) {
    result.status = encoded;
    result.outputs.clear();
    result.printed.clear();
    EncodeCallResponse(result, epoch, call_id, scope_.max_message_bytes, &answer).IgnoreError();
  }
  scope_.metrics.CountSent(answer.Length());
  scope_.metrics.CountCall(
      {name_space_, result.function_name, result.status.code(), absl::Now() - arrival});
  {
    absl::MutexLock lock(&mutex_);
    running_ = false;
    handle_ = nullptr;
    if (!cancelled_) answers_.push_back(std::move(answer));
  }
  Advance();
}

void CallStream::OnReadDone(bool ok) {
  if (ok) scope_.metrics.CountReceived(incoming_.Length());
  {
    absl::MutexLock lock(&mutex_);
    reading_ = false;
    if (!ok) {
      all_read_ = true;
    } else if (!cancelled_) {
      Request& request = waiting_.emplace_back();
      request.message.Swap(&incoming_);
      request.arrival = absl::Now();
    }
  }
  Advance();
}

void CallStream::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    answers_.pop_front();
    if (!ok) {
      cancelled_ = true;
      waiting_.clear();
    }
  }
  Advance();
}

void CallStream::OnCancel() {
  std::shared_ptr<CallHandle> handle;
  {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    waiting_.clear();
    handle = handle_;
  }
  if (handle != nullptr) handle->Cancel();
  Advance();
}

void CallStream::OnDone() {
  scope_.metrics.CountStream(-1);
  open_.Remove(this);
}

}  // namespace formwork::server
