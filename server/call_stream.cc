#include "server/call_stream.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/reason.h"
#include "core/base/status.h"
#include "server/call_codec.h"
#include "server/read_call.h"
#include "server/value_codec.h"
#include "server/wire_format.h"

namespace formwork::server {
namespace {

// How far a stream is read ahead, how many calls run side by side, and how many answers may wait
// for a slow client. One request and one answer may be larger than the bytes say.
constexpr size_t kMaxWaiting = 8;
constexpr size_t kMaxRunning = 8;
constexpr size_t kMaxAnswers = 16;
constexpr size_t kMaxWaitingBytes = size_t{8} << 20;
constexpr size_t kMaxAnswerBytes = size_t{8} << 20;

}  // namespace

// One call of a stream, while it runs.
struct CallStream::Call {
  uint64_t number;
  uint64_t call_id;
  absl::Time arrival;
  std::string name_space;
  std::shared_ptr<AnswerParts> parts;  // Null: answered whole.
};

CallStream::CallStream(const RequestScope& scope, OpenStreams& open,
                       grpc::CallbackServerContext& context)
    : scope_(scope), open_(open), context_(context), deadline_(DeadlineOf(context)) {}

void CallStream::Start() {
  scope_.metrics.CountStream(1);
  open_.Add(shared_from_this());
  Advance();
}

void CallStream::CloseWhenIdle() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    end_ = absl::UnavailableError("the server is shutting down");
  }
  Advance();
}

void CallStream::EndIfIdle(absl::Time since) {
  {
    absl::MutexLock lock(&mutex_);
    if (finished_ || !running_.empty() || last_progress_ > since) return;
    // Answers that nobody reads: they are not waited for.
    if (!answers_.empty()) {
      context_.TryCancel();
      return;
    }
    closing_ = true;
    end_ = absl::UnavailableError("nothing came over the stream for too long: open another");
  }
  Advance();
}

int CallStream::NextToRun() const {
  bool ordered_waits = ordered_running_;
  for (size_t i = 0; i < waiting_.size(); ++i) {
    if (waiting_[i].unordered || !ordered_waits) return static_cast<int>(i);
    ordered_waits = true;
  }
  return -1;
}

bool CallStream::MayRun() const {
  if (running_.size() >= kMaxRunning || answers_.size() >= kMaxAnswers) return false;
  size_t bytes = 0;
  for (const Answer& answer : answers_) bytes += answer.bytes();
  return bytes < kMaxAnswerBytes;
}

bool CallStream::MayRead() const {
  return !reading_ && !all_read_ && !cancelled_ && waiting_.size() < kMaxWaiting &&
         waiting_bytes_ < kMaxWaitingBytes;
}

CallStream::Step CallStream::NextStep() {
  if (finished_) return Step::kNone;
  if (!writing_ && !answers_.empty() && !cancelled_) {
    writing_ = true;
    TakeMessage();
    return Step::kWrite;
  }
  if (!waiting_.empty() && !cancelled_ && MayRun() && NextToRun() >= 0) return Step::kRun;
  const bool idle = running_.empty() && waiting_.empty() && answers_.empty();
  const bool lost = cancelled_ && running_.empty() && !writing_;
  if (lost || (idle && (all_read_ || closing_))) {
    finished_ = true;
    return Step::kFinish;
  }
  if (MayRead()) {
    reading_ = true;
    return Step::kRead;
  }
  return Step::kNone;
}

// Puts what is written next into outgoing_. Its answer stays the first until it is written.
void CallStream::TakeMessage() {
  Answer& answer = answers_.front();
  outgoing_ = answer.parts != nullptr ? answer.parts->Next() : answer.whole;
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
  uint64_t number = 0;
  grpc::Status status;
  {
    absl::MutexLock lock(&mutex_);
    step = NextStep();
    if (step == Step::kNone) {
      advancing_ = false;
    } else if (step == Step::kRun) {
      const auto next = waiting_.begin() + NextToRun();
      request = std::move(*next);
      waiting_.erase(next);
      waiting_bytes_ -= request.message.Length();
      number = ++begun_;
      running_[number].unordered = request.unordered;
      ordered_running_ |= !request.unordered;
    } else if (step == Step::kFinish && closing_ && !all_read_) {
      status =
          grpc::Status(static_cast<grpc::StatusCode>(end_.code()), std::string(end_.message()));
    }
  }
  if (step == Step::kWrite) {
    scope_.metrics.CountSent(outgoing_.Length());
    StartWrite(&outgoing_);
  }
  if (step == Step::kRun) Begin(std::move(request), number);
  if (step == Step::kRead) StartRead(&incoming_);
  if (step == Step::kFinish) Finish(status);
  return step != Step::kNone;
}

void CallStream::Begin(Request request, uint64_t number) {
  if (!request.held.ok()) return Refuse(number, request.arrival, request.held.status());
  if (request.message.Length() < kLargeMessageBytes) return Run(request, number);
  const absl::Time arrival = request.arrival;
  const std::string name_space = NamespaceOf(request.message);
  const bool added = scope_.transfers.Add(
      name_space, [self = shared_from_this(), number, request = std::move(request)] {
        self->Run(request, number);
      });
  if (added) return;
  Refuse(
      number, arrival,
      WithReason(ResourceExhausted("too many large requests wait to be read"), Reason::kQueueFull));
}

void CallStream::Refuse(uint64_t number, absl::Time arrival, absl::Status status) {
  CallResult refused;
  refused.status = std::move(status);
  refused.details.effects = Effects::kNone;
  Complete(std::make_shared<Call>(Call{number, 0, arrival, "", nullptr}), std::move(refused));
}

void CallStream::Run(const Request& request, uint64_t number) {
  DecodedCall decoded;
  CallResult refused;
  refused.status = ReadCall(scope_, request.message, context_, request.arrival, deadline_, &decoded,
                            &refused.details);
  const auto call = std::make_shared<Call>(
      Call{number, decoded.call_id, request.arrival, decoded.spec.name_space, nullptr});
  if (decoded.in_parts) {
    call->parts = std::make_shared<AnswerParts>(scope_.engine.epoch(), decoded.call_id);
  }
  if (!refused.status.ok()) return Complete(call, std::move(refused));
  CallSpec& spec = decoded.spec;
  if (call->parts != nullptr) {
    spec.print = [self = shared_from_this(), parts = call->parts](absl::string_view text) {
      self->Printed(parts, text);
    };
  }
  std::shared_ptr<CallHandle> handle =
      scope_.engine.Call(std::move(spec), [self = shared_from_this(), call](CallResult result) {
        self->Complete(call, std::move(result));
      });
  bool cancelled;
  {
    absl::MutexLock lock(&mutex_);
    running_[number].handle = handle;
    cancelled = cancelled_;
  }
  if (cancelled) handle->Cancel();
  handle->Start();
}

// On the thread that runs the call: writes where that can be done at once, and begins nothing else.
void CallStream::Printed(const std::shared_ptr<AnswerParts>& parts, absl::string_view text) {
  {
    absl::MutexLock lock(&mutex_);
    if (cancelled_) return;
    parts->AddPrinted(text);
    Queue(parts);
    if (advancing_ || writing_) return;
    writing_ = true;
    TakeMessage();
  }
  scope_.metrics.CountSent(outgoing_.Length());
  StartWrite(&outgoing_);
}

void CallStream::Queue(const std::shared_ptr<AnswerParts>& parts) {
  for (const Answer& answer : answers_) {
    if (answer.parts == parts) return;
  }
  answers_.push_back({grpc::ByteBuffer(), parts});
}

void CallStream::Complete(std::shared_ptr<Call> call, CallResult result) {
  scope_.metrics.CountCall(
      {call->name_space, result.function_name, result.status, absl::Now() - call->arrival});
  const bool slow =
      std::any_of(result.outputs.begin(), result.outputs.end(),
                  [](const CallOutput& output) { return SlowToEncode(output.tensor); });
  if (!slow) return Encode(*call, std::move(result));
  auto encode = [self = shared_from_this(), call,
                 held = std::make_shared<CallResult>(std::move(result))] {
    self->Encode(*call, std::move(*held));
  };
  // What is done is answered, even where too much waits already.
  if (!scope_.transfers.Add(call->name_space, encode)) encode();
}

void CallStream::Encode(Call& call, CallResult result) {
  Answer answer;
  const uint64_t epoch = scope_.engine.epoch();
  if (call.parts == nullptr) {
    const absl::Status encoded =
        EncodeCallResponse(result, epoch, call.call_id, scope_.max_message_bytes, &answer.whole);
    if (!encoded.ok()) {
      CallResult too_large;
      too_large.status = encoded;
      too_large.details.effects = Effects::kAll;
      EncodeCallResponse(too_large, epoch, call.call_id, scope_.max_message_bytes, &answer.whole)
          .IgnoreError();
    }
  }
  std::shared_ptr<CallHandle> handle;  // Destroyed without the lock.
  {
    absl::MutexLock lock(&mutex_);
    const auto running = running_.find(call.number);
    if (!running->second.unordered) ordered_running_ = false;
    handle = std::move(running->second.handle);
    running_.erase(running);
    last_progress_ = absl::Now();
    if (!cancelled_) {
      if (call.parts == nullptr) {
        answers_.push_back(std::move(answer));
      } else {
        call.parts->SetResult(std::move(result));
        Queue(call.parts);
      }
    }
  }
  Advance();
}

void CallStream::OnReadDone(bool ok) {
  if (ok) scope_.metrics.CountReceived(incoming_.Length());
  {
    absl::MutexLock lock(&mutex_);
    reading_ = false;
    last_progress_ = absl::Now();
    if (!ok) {
      all_read_ = true;
    } else if (!cancelled_) {
      Request& request = waiting_.emplace_back();
      request.message.Swap(&incoming_);
      request.arrival = last_progress_;
      request.unordered = SaysUnordered(request.message);
      request.held = HoldMessage(scope_, request.message);
      waiting_bytes_ += request.message.Length();
    }
  }
  Advance();
}

void CallStream::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    last_progress_ = absl::Now();
    outgoing_.Clear();
    const Answer& written = answers_.front();
    if (written.parts == nullptr || !written.parts->HasNext()) answers_.pop_front();
    if (!ok) {
      cancelled_ = true;
      waiting_.clear();
      waiting_bytes_ = 0;
    }
  }
  Advance();
}

void CallStream::OnCancel() {
  std::vector<std::shared_ptr<CallHandle>> handles;
  {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    waiting_.clear();
    waiting_bytes_ = 0;
    for (const auto& [number, running] : running_) {
      if (running.handle != nullptr) handles.push_back(running.handle);
    }
  }
  for (const auto& handle : handles) handle->Cancel();
  Advance();
}

void CallStream::OnDone() {
  scope_.metrics.CountStream(-1);
  open_.Remove(this);
}

}  // namespace formwork::server
