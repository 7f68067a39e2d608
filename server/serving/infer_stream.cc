#include "server/serving/infer_stream.h"

#include <algorithm>
#include <utility>

#include "core/base/reason.h"
#include "core/base/status.h"
#include "server/read_call.h"
#include "server/serving/call_model.h"
#include "server/serving/infer_codec.h"
#include "server/serving/infer_models.h"
#include "server/serving/model_methods.h"
#include "server/status_to_grpc.h"
#include "server/value_codec.h"

namespace formwork::server {

struct InferStream::Caller {
  std::shared_ptr<InferStream> stream;

  absl::StatusOr<PredictCall> Read() {
    InferRequest request;
    const absl::Status read =
        DecodeInferRequest(stream->incoming_, stream->scope_.engine.allocator(), &request);
    stream->id_ = request.id;
    FORMWORK_RETURN_IF_ERROR(read);
    request.model.name_space = stream->name_space_;
    FORMWORK_ASSIGN_OR_RETURN(PredictCall call,
                              MakeInferCall(stream->scope_.engine, std::move(request)));
    call.spec.deadline = DeadlineOf(call, stream->arrival_, stream->deadline_);
    return call;
  }
  bool MayTakeTurn() const { return true; }

  void Begin(std::shared_ptr<CallHandle> handle) {
    bool abandoned;
    {
      absl::MutexLock lock(&stream->mutex_);
      stream->handle_ = handle;
      abandoned = stream->abandoned_;
    }
    if (abandoned) handle->Cancel();
    handle->Start();
  }

  // What is thrown for want of memory is the request's error, and not the stream's.
  void Guard(absl::FunctionRef<void()> work) {
    const absl::Status ran = CatchOutOfMemory([&] {
      work();
      return absl::OkStatus();
    });
    if (!ran.ok()) Refuse(ran);
  }
  void Refuse(const absl::Status& status) { stream->Refuse(status); }

  void Answer(PredictCall call, CallResult result) {
    stream->function_name_ = std::move(result.function_name);
    if (!result.status.ok()) return Refuse(result.status);
    const bool slow = SlowToEncode(result);
    absl::StatusOr<Prediction> prediction = PredictionOf(std::move(call), std::move(result));
    if (!prediction.ok()) return Refuse(prediction.status());
    if (!slow) return Encode(*prediction);
    stream->scope_.transfers.AddOrRun(stream->name_space_,
                                      [self = *this, made = *std::move(prediction)]() mutable {
                                        self.Guard([&] { self.Encode(made); });
                                      });
  }

  void Encode(const Prediction& prediction) {
    grpc::ByteBuffer response;
    const absl::Status encoded = HoldToBudget(stream->scope_.engine.memory(), [&] {
      return EncodeStreamInferResponse(prediction, stream->scope_.max_message_bytes, &response);
    });
    if (!encoded.ok()) return Refuse(encoded);
    stream->Complete(absl::OkStatus(), std::move(response));
  }
};

InferStream::InferStream(const RequestScope& scope, OpenStreams& open,
                         grpc::CallbackServerContext& context)
    : scope_(scope),
      open_(open),
      context_(context),
      deadline_(DeadlineOf(context)),
      name_space_(NamespaceFrom(context)) {}

void InferStream::Start() {
  const absl::Status added = open_.Add(shared_from_this());
  scope_.metrics.CountStream(1);
  if (!added.ok()) Break(added);
  Advance();
}

void InferStream::CloseWhenIdle() {
  Close(WithReason(absl::UnavailableError("the server is shutting down"), Reason::kDraining));
}

void InferStream::EndIfIdle(absl::Time since) {
  {
    absl::MutexLock lock(&mutex_);
    if (finished_ || at_ == At::kRunning || last_progress_ > since) return;
    // A response that nobody reads: it is not waited for.
    if (at_ == At::kWriting) {
      context_.TryCancel();
      return;
    }
  }
  Close(absl::UnavailableError("nothing came over the stream for too long: open another"));
}

void InferStream::Close(absl::Status end) {
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(closing_, true)) return;
    end_ = std::move(end);
  }
  Advance();
}

InferStream::Step InferStream::NextStep() {
  if (finished_) return Step::kNone;
  switch (at_) {
    case At::kRead:
      if (abandoned_) break;
      at_ = At::kRunning;
      return Step::kRun;
    case At::kAnswered:
      if (abandoned_) break;
      at_ = At::kWriting;
      return Step::kWrite;
    case At::kRunning:
    case At::kWriting:
      return Step::kNone;
    case At::kNone:
    case At::kReading:
      break;
  }
  if (abandoned_ || closing_) {
    finished_ = true;
    return Step::kFinish;
  }
  if (at_ != At::kNone) return Step::kNone;
  at_ = At::kReading;
  return Step::kRead;
}

void InferStream::Advance() {
  const std::shared_ptr<InferStream> self = shared_from_this();
  {
    absl::MutexLock lock(&mutex_);
    // Whoever is at it sees what has changed: it looks at the state again after each step.
    if (advancing_) return;
    advancing_ = true;
  }
  for (bool more = true; more;) Guard([&] { more = TakeStep(); });
}

bool InferStream::TakeStep() {
  Step step;
  absl::Status end;
  {
    absl::MutexLock lock(&mutex_);
    step = NextStep();
    if (step == Step::kNone) advancing_ = false;
    if (step == Step::kFinish) end = end_;
  }
  if (step == Step::kRead) StartRead(&incoming_);
  if (step == Step::kRun) Run();
  if (step == Step::kWrite) {
    scope_.metrics.CountSent(outgoing_.Length());
    StartWrite(&outgoing_);
  }
  if (step == Step::kFinish) {
    // What was read has been answered, or nobody is there: nothing else has begun.
    Finish(ToGrpc(end, NothingDone(), scope_.engine.epoch(name_space_), &context_));
  }
  return step != Step::kNone;
}

void InferStream::Run() {
  const absl::Status begun = CatchOutOfMemory([&]() -> absl::Status {
    absl::StatusOr<MemoryReservation> held = HoldMessage(scope_, incoming_);
    FORMWORK_RETURN_IF_ERROR(held.status());
    held_ = *std::move(held);
    auto call = [caller = Caller{shared_from_this()}]() mutable {
      caller.Guard([&] { CallModel(caller.stream->scope_, caller); });
    };
    if (incoming_.Length() >= kLargeMessageBytes) return scope_.transfers.Add(name_space_, call);
    call();
    return absl::OkStatus();
  });
  if (!begun.ok()) Refuse(begun);
}

void InferStream::Refuse(const absl::Status& status) {
  const HeapScope unlimited(nullptr);
  Complete(status, EncodeStreamInferError(id_, status));
}

void InferStream::Complete(const absl::Status& status, grpc::ByteBuffer response) {
  const HeapScope unlimited(nullptr);
  std::shared_ptr<CallHandle> handle;  // Destroyed without the lock.
  {
    absl::MutexLock lock(&mutex_);
    if (at_ != At::kRunning) return;  // It has been answered.
    at_ = At::kAnswered;
    last_progress_ = absl::Now();
    handle.swap(handle_);
    outgoing_.Swap(&response);
    scope_.metrics.CountCall({name_space_, function_name_, status, last_progress_ - arrival_});
    incoming_.Clear();
    held_ = MemoryReservation();
  }
  Advance();
}

void InferStream::OnReadDone(bool ok) {
  if (ok) scope_.metrics.CountReceived(incoming_.Length());
  {
    absl::MutexLock lock(&mutex_);
    last_progress_ = absl::Now();
    if (!ok) {  // The client has ended its side, and has all its responses.
      at_ = At::kNone;
      closing_ = true;
    } else {
      at_ = At::kRead;
      arrival_ = last_progress_;
      id_.clear();
      function_name_.clear();
    }
  }
  Advance();
}

void InferStream::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mutex_);
    at_ = At::kNone;
    last_progress_ = absl::Now();
    outgoing_.Clear();
  }
  if (!ok) Abandon();
  Advance();
}

void InferStream::OnCancel() {
  Abandon();
  Advance();
}

void InferStream::Break(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    end_ = status;
  }
  Abandon();
}

void InferStream::Abandon() {
  std::shared_ptr<CallHandle> handle;
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(abandoned_, true)) return;
    handle = handle_;
  }
  if (handle != nullptr) EndCancelled(scope_, context_, *handle);
}

void InferStream::OnDone() {
  scope_.metrics.CountStream(-1);
  open_.Remove(this);
}

}  // namespace formwork::server
