#include "server/call_stream.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/reason.h"
#include "core/base/status.h"
#include "server/call_codec.h"
#include "server/client_answer.h"
#include "server/read_call.h"
#include "server/status_to_grpc.h"
#include "server/value_codec.h"
#include "server/wire_format.h"

namespace formwork::server {
namespace {

// How far a stream is read ahead, and how many answers may wait for a slow client. One request and
// one answer may be larger than the bytes say.
constexpr size_t kMaxWaiting = 8;
constexpr size_t kMaxAnswers = 16;
constexpr size_t kMaxWaitingBytes = size_t{8} << 20;
constexpr size_t kMaxAnswerBytes = size_t{8} << 20;

}  // namespace

// One call of a stream, from when it is read.
struct CallStream::Call {
  uint64_t call_id;
  bool unordered;
  absl::Time arrival;
  std::string name_space;
  std::shared_ptr<AnswerParts> parts;  // Null: answered whole.
  // What its client was asked last, and waits for: under the stream's lock.
  uint64_t question = 0;
  std::weak_ptr<ClientAnswer> answer;
};

class CallStream::Client final : public ClientFunctions {
 public:
  Client(std::shared_ptr<CallStream> stream, std::shared_ptr<Call> call)
      : stream_(std::move(stream)), call_(std::move(call)) {}

  absl::StatusOr<std::shared_ptr<ClientAnswer>> Ask(absl::string_view token,
                                                    absl::Span<const Tensor> inputs) override {
    return stream_->Ask(call_, token, inputs);
  }

 private:
  const std::shared_ptr<CallStream> stream_;
  const std::shared_ptr<Call> call_;
};

CallStream::CallStream(const RequestScope& scope, OpenStreams& open,
                       grpc::CallbackServerContext& context)
    : scope_(scope), open_(open), context_(context), deadline_(DeadlineOf(context)) {}

void CallStream::Start() {
  const absl::Status added = open_.Add(shared_from_this());
  scope_.metrics.CountStream(1);
  if (!added.ok()) Break(added);
  Advance();
}

void CallStream::CloseWhenIdle() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    end_ = WithReason(absl::UnavailableError("the server is shutting down"), Reason::kDraining);
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
    if (waiting_[i].call->unordered || !ordered_waits) return static_cast<int>(i);
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
  // What is awaited comes behind what was sent before.
  return !reading_ && !all_read_ && !cancelled_ && (!IsReadAhead() || Asks());
}

bool CallStream::IsReadAhead() const {
  return waiting_.size() >= kMaxWaiting || waiting_bytes_ >= kMaxWaitingBytes;
}

bool CallStream::Asks() const {
  return std::any_of(running_.begin(), running_.end(),
                     [](const Running& running) { return running.call->question != 0; });
}

CallStream::Step CallStream::NextStep() {
  if (finished_) return Step::kNone;
  if (!writing_ && !answers_.empty() && !cancelled_) {
    TakeMessage();
    writing_ = true;
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
  for (bool more = true; more;) Guard([&] { more = TakeStep(); });
}

bool CallStream::TakeStep() {
  Step step;
  Request request;
  absl::Status end;
  ErrorDetails details;
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
      request.is_alone = !request.call->unordered && waiting_.empty() && running_.empty();
      running_.push_back({request.call, nullptr});
      ordered_running_ |= !request.call->unordered;
    } else if (step == Step::kFinish) {
      end = !broken_.ok() ? broken_ : closing_ && !all_read_ ? end_ : absl::OkStatus();
      // All that was read has been answered, so that a call without an answer has not begun.
      if (broken_.ok() && !cancelled_) details = NothingDone();
    }
  }
  if (step == Step::kWrite) {
    scope_.metrics.CountSent(outgoing_.Length());
    StartWrite(&outgoing_);
  }
  if (step == Step::kRun) Begin(std::move(request));
  if (step == Step::kRead) StartRead(&incoming_);
  if (step == Step::kFinish) Finish(ToGrpc(end, details, epoch_.load(), &context_));
  return step != Step::kNone;
}

void CallStream::Begin(Request request) {
  const std::shared_ptr<Call> call = request.call;
  const absl::Status begun = CatchOutOfMemory([&]() -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(request.held.status());
    if (request.message.Length() < kLargeMessageBytes) {
      Run(request);
      return absl::OkStatus();
    }
    const std::string name_space = NamespaceOf(request.message);
    return scope_.transfers.Add(name_space, [self = shared_from_this(),
                                             request = std::move(request)] { self->Run(request); });
  });
  if (!begun.ok()) Refuse(call, begun, NothingDone());
}

void CallStream::Run(const Request& request) {
  const std::shared_ptr<Call>& call = request.call;
  const InlineTurn turn(scope_.inline_turns, request.is_alone);
  std::shared_ptr<CallHandle> handle;
  bool cancelled = false;
  ErrorDetails details;
  const absl::Status begun = CatchOutOfMemory([&]() -> absl::Status {
    CallSpec spec;
    FORMWORK_RETURN_IF_ERROR(Decode(request, &spec, &details));
    turn.Apply(spec);
    handle =
        scope_.engine.Call(std::move(spec), [self = shared_from_this(), call](CallResult result) {
          self->Complete(call, std::move(result));
        });
    absl::MutexLock lock(&mutex_);
    FindRunning(call.get())->handle = handle;
    cancelled = cancelled_;
    return absl::OkStatus();
  });
  if (!begun.ok()) return Refuse(call, begun, std::move(details));
  if (cancelled) handle->Cancel();
  handle->Start();
}

absl::Status CallStream::Decode(const Request& request, CallSpec* spec, ErrorDetails* details) {
  Call& call = *request.call;
  DecodedCall decoded;
  const absl::Status read =
      ReadCall(scope_, request.message, context_, call.arrival, deadline_, &decoded, details);
  if (decoded.call_id != 0) call.call_id = decoded.call_id;
  call.name_space = decoded.spec.name_space;
  epoch_.store(scope_.engine.epoch(call.name_space));
  if (decoded.answers_client_functions) {
    decoded.spec.client_functions = std::make_shared<Client>(shared_from_this(), request.call);
  }
  if (decoded.in_parts || decoded.answers_client_functions) {
    call.parts = std::make_shared<AnswerParts>(scope_.engine.epoch(call.name_space), call.call_id,
                                               scope_.max_message_bytes);
    decoded.spec.print = [self = shared_from_this(), parts = call.parts](absl::string_view text) {
      self->Printed(parts, text);
    };
  }
  *spec = std::move(decoded.spec);
  return read;
}

void CallStream::Printed(const std::shared_ptr<AnswerParts>& parts, absl::string_view text) {
  const HeapScope unlimited(nullptr);  // The stream's memory, and bounded, not the call's.
  {
    absl::MutexLock lock(&mutex_);
    if (cancelled_) return;
    parts->AddPrinted(text);
    Queue(parts);
  }
  WriteNow();
}

void CallStream::WriteNow() {
  {
    absl::MutexLock lock(&mutex_);
    if (advancing_ || writing_ || cancelled_ || answers_.empty()) return;
    TakeMessage();
    writing_ = true;
  }
  scope_.metrics.CountSent(outgoing_.Length());
  StartWrite(&outgoing_);
}

void CallStream::ReadNow() {
  {
    absl::MutexLock lock(&mutex_);
    if (advancing_ || !MayRead()) return;
    reading_ = true;
  }
  StartRead(&incoming_);
}

absl::StatusOr<std::shared_ptr<ClientAnswer>> CallStream::Ask(const std::shared_ptr<Call>& call,
                                                              absl::string_view token,
                                                              absl::Span<const Tensor> inputs) {
  ClientFunctionQuestion question;
  question.token = std::string(token);
  for (const Tensor& input : inputs) {
    if (!CanLeave(input)) {
      return InvalidArgument("the client's function '", token, "' is given a ",
                             DTypeName(input.dtype()), ", which cannot leave the server");
    }
    question.inputs.push_back({.tensor = input});
  }
  const size_t bytes = question.EncodedSize();
  if (bytes > scope_.max_message_bytes / 2) {
    return ResourceExhausted("what the client's function '", token,
                             "' is given is larger than half of what a message may be: bytes=",
                             bytes, " limit=", scope_.max_message_bytes);
  }
  auto answer = std::make_shared<ClientAnswer>(token);
  {
    absl::MutexLock lock(&mutex_);
    if (cancelled_ || all_read_) {
      return absl::CancelledError("the client cannot answer any more: it has left the stream");
    }
    question.id = ++questions_;
    call->question = question.id;
    call->answer = answer;
    call->parts->SetQuestion(std::move(question));
    Queue(call->parts);
  }
  WriteNow();
  ReadNow();
  return answer;
}

void CallStream::Answered(grpc::ByteBuffer message) {
  absl::StatusOr<MemoryReservation> held = HoldMessage(scope_, message);
  if (message.Length() < kLargeMessageBytes) return TakeAnswer(message, held);
  scope_.transfers.AddOrRun("", [self = shared_from_this(), message = std::move(message),
                                 held = std::move(held)] { self->TakeAnswer(message, held); });
}

std::vector<std::shared_ptr<ClientAnswer>> CallStream::TakeQuestions() {
  std::vector<std::shared_ptr<ClientAnswer>> answers;
  for (const Running& running : running_) {
    if (std::exchange(running.call->question, 0) == 0) continue;
    if (auto answer = running.call->answer.lock()) answers.push_back(std::move(answer));
  }
  return answers;
}

void CallStream::TakeAnswer(const grpc::ByteBuffer& message,
                            const absl::StatusOr<MemoryReservation>& held) {
  DecodedAnswer decoded;
  absl::Status read = held.status();
  if (read.ok()) {
    read = HoldToBudget(scope_.engine.memory(), [&] {
      decoded = DecodeClientAnswer(message, scope_.engine.allocator());
      return absl::OkStatus();
    });
  }
  if (!read.ok()) decoded.results = read;
  std::shared_ptr<ClientAnswer> answer;
  {
    absl::MutexLock lock(&mutex_);
    for (const Running& running : running_) {
      Call& call = *running.call;
      if (call.question == 0 || call.question != decoded.id) continue;
      call.question = 0;
      answer = call.answer.lock();
    }
  }
  // Null where its call has ended meanwhile.
  if (answer != nullptr) answer->Give(std::move(decoded.results));
}

void CallStream::Queue(const std::shared_ptr<AnswerParts>& parts) {
  for (const Answer& answer : answers_) {
    if (answer.parts == parts) return;
  }
  answers_.push_back({grpc::ByteBuffer(), parts});
}

void CallStream::Refuse(const std::shared_ptr<Call>& call, absl::Status status,
                        ErrorDetails details) {
  CallResult refused;
  refused.status = std::move(status);
  refused.details = std::move(details);
  Complete(call, std::move(refused));
}

void CallStream::Complete(const std::shared_ptr<Call>& call, CallResult result) {
  if (!SlowToEncode(result)) return Encode(call, std::move(result), /*large=*/false);
  AnswerOnPool(scope_, call->name_space, std::move(result),
               [self = shared_from_this(), call](CallResult slow) {
                 self->Encode(call, std::move(slow), /*large=*/true);
               });
}

void CallStream::Encode(const std::shared_ptr<Call>& call, CallResult result, bool large) {
  Answer answer{grpc::ByteBuffer(), call->parts};
  const std::string function = std::move(result.function_name);
  absl::Status status = result.status;
  Guard([&] {
    if (call->parts != nullptr) return;
    const auto encode = [&] {
      return EncodeCallResponse(result, scope_.engine.epoch(call->name_space), call->call_id,
                                scope_.max_message_bytes, &answer.whole);
    };
    const absl::Status encoded =
        large ? HoldToBudget(scope_.engine.memory(), encode) : CatchOutOfMemory(encode);
    if (encoded.ok()) return;
    status = encoded;
    result = CallResult();
    result.status = encoded;
    result.details.effects = Effects::kAll;
    encode().IgnoreError();
  });
  scope_.metrics.CountCall({call->name_space, function, status, absl::Now() - call->arrival});
  std::shared_ptr<CallHandle> handle;  // Destroyed without the lock.
  Guard([&] {
    absl::MutexLock lock(&mutex_);
    handle = EndRunning(call.get());
    last_progress_ = absl::Now();
    if (cancelled_) return;
    if (call->parts == nullptr) {
      answers_.push_back(std::move(answer));
    } else {
      call->parts->SetResult(std::move(result));
      Queue(call->parts);
    }
  });
  Advance();
}

CallStream::Running* CallStream::FindRunning(const Call* call) {
  return std::find_if(running_.begin(), running_.end(),
                      [call](const Running& running) { return running.call.get() == call; });
}

std::shared_ptr<CallHandle> CallStream::EndRunning(const Call* call) {
  Running* const running = FindRunning(call);
  if (!call->unordered) ordered_running_ = false;
  std::shared_ptr<CallHandle> handle = std::move(running->handle);
  running_.erase(running);
  return handle;
}

void CallStream::OnReadDone(bool ok) {
  if (ok) scope_.metrics.CountReceived(incoming_.Length());
  grpc::ByteBuffer answer;
  std::vector<std::shared_ptr<ClientAnswer>> unanswered;
  bool overrun = false;
  Guard([&] {
    absl::MutexLock lock(&mutex_);
    reading_ = false;
    last_progress_ = absl::Now();
    if (!ok) {
      all_read_ = true;
      unanswered = TakeQuestions();
    } else if (!cancelled_) {
      const CallHead head = ReadCallHead(incoming_);
      if (head.is_answer) {
        answer.Swap(&incoming_);
        return;
      }
      if (IsReadAhead()) {
        overrun = true;
        return;
      }
      Request request;
      request.call = std::make_shared<Call>(
          Call{head.call_id, head.unordered, last_progress_, "", nullptr, 0, {}});
      request.held = HoldMessage(scope_, incoming_);
      request.message.Swap(&incoming_);
      waiting_bytes_ += request.message.Length();
      waiting_.push_back(std::move(request));
    }
  });
  if (answer.Length() > 0) Guard([&] { Answered(std::move(answer)); });
  for (const auto& question : unanswered) {
    question->Give(absl::CancelledError("the client has ended the stream without an answer"));
  }
  if (overrun) {
    Break(WithReason(ResourceExhausted("calls were sent ahead of an answer that is awaited: limit=",
                                       kMaxWaiting),
                     Reason::kQueueFull));
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
  }
  if (!ok) Abandon();
  Advance();
}

void CallStream::OnCancel() {
  Abandon();
  Advance();
}

void CallStream::Break(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    if (broken_.ok()) broken_ = status;
  }
  Abandon();
}

void CallStream::Abandon() {
  absl::InlinedVector<std::shared_ptr<CallHandle>, kMaxRunning> handles;
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(cancelled_, true)) return;
    waiting_.clear();
    waiting_bytes_ = 0;
    for (const Running& running : running_) {
      if (running.handle != nullptr) handles.push_back(running.handle);
    }
  }
  for (const auto& handle : handles) EndCancelled(scope_, context_, *handle);
}

void CallStream::OnDone() {
  scope_.metrics.CountStream(-1);
  open_.Remove(this);
}

}  // namespace formwork::server
