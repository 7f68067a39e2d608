#include "core/kernels/stream_scope.h"

#include <atomic>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/tensor/bools.h"

namespace formwork {
namespace {

// What a small model's step takes: on a GPU two changes of threads take 40 us and more.
constexpr absl::Duration kSoon = absl::Microseconds(200);

// Steps that are enqueued before those of the window before them must have run.
constexpr int kMostInWindow = 512;

// `value`, in host memory, to `copy`, on the stream's device.
absl::Status EnqueueCopy(const Tensor& value, const Tensor& copy, Stream& stream, Allocator& host) {
  Buffer to = copy.buffer();
  if (value.buffer()) {
    stream.Copy(value.buffer(), to);
    return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(BufferBlock * block, host.Allocate(value.bytes(), nullptr));
  const Buffer staged(block);
  std::memcpy(staged.data(), value.raw(), value.bytes());
  stream.Copy(staged, to);
  return absl::OkStatus();
}

// What has come from a device.
Tensor Arrived(DType dtype, const Shape& shape, Buffer from) {
  Tensor value;
  if (value.ResetInside(dtype, shape)) {
    std::memcpy(value.mutable_raw(), from.data(), from.bytes());
  } else {
    value = Tensor::OfBuffer(dtype, shape, std::move(from));
  }
  if (dtype == DType::kBool) NormaliseBools(value);
  return value;
}

}  // namespace

absl::StatusOr<Tensor> CopyToDevice(const Tensor& value, Allocator& memory, Stream& stream,
                                    Allocator& host) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor copy,
                            Tensor::Allocate(memory, value.dtype(), value.shape(), &stream));
  FORMWORK_RETURN_IF_ERROR(EnqueueCopy(value, copy, stream, host));
  return copy;
}

absl::StatusOr<Tensor> CopyToHost(const Tensor& value, Stream& stream, Allocator& host) {
  FORMWORK_ASSIGN_OR_RETURN(BufferBlock * block, host.Allocate(value.bytes(), nullptr));
  Buffer to(block);
  stream.Copy(value.buffer(), to);
  FORMWORK_RETURN_IF_ERROR(stream.Record()->Await(absl::InfiniteFuture()));
  return Arrived(value.dtype(), value.shape(), std::move(to));
}

void EnqueuedStatus::Fail(int64_t step, absl::Status status, int64_t effects) {
  absl::MutexLock lock(&mutex_);
  if (!status_.ok() && step_ <= step) return;
  status_ = std::move(status);
  step_ = step;
  effects_ = effects;
}

bool EnqueuedStatus::FailedBefore(int64_t step) const {
  absl::MutexLock lock(&mutex_);
  return !status_.ok() && step_ < step;
}

int64_t EnqueuedStatus::effects_before_failure() const {
  absl::MutexLock lock(&mutex_);
  return effects_;
}

absl::Status EnqueuedStatus::Get() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

absl::StatusOr<FailureWord*> EnqueuedStatus::MayFail(Stream& stream, int64_t step, Explain explain,
                                                     int64_t effects) {
  absl::MutexLock lock(&mutex_);
  if (word_ == nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(word_, stream.NewFailureWord());
  }
  may_fail_.push_back({step, std::make_shared<const Explain>(std::move(explain)), effects});
  if (keeps_) kept_.push_back(may_fail_.back());
  return word_.get();
}

void EnqueuedStatus::KeepFailures() {
  absl::MutexLock lock(&mutex_);
  keeps_ = true;
}

EnqueuedStatus::Failures EnqueuedStatus::kept_failures() const {
  absl::MutexLock lock(&mutex_);
  return {word_, kept_};
}

void EnqueuedStatus::Repeat(const Failures& failures) {
  absl::MutexLock lock(&mutex_);
  word_ = failures.word;
  may_fail_.assign(failures.steps.begin(), failures.steps.end());
}

FailureWord* EnqueuedStatus::word() const {
  absl::MutexLock lock(&mutex_);
  return word_.get();
}

bool EnqueuedStatus::Collect(int64_t step) {
  std::optional<Failures::Step> failed;
  uint64_t where = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (word_ == nullptr) return true;
    const auto failed_step = static_cast<int64_t>(word_->failed_step());
    if (failed_step > step) return false;
    while (!may_fail_.empty() && may_fail_.front().step <= step) {
      if (may_fail_.front().step == failed_step) failed = std::move(may_fail_.front());
      may_fail_.pop_front();
    }
    where = word_->where;
  }
  // Else it has been collected before, if there is one.
  if (failed) Fail(failed->step, (*failed->explain)(where), failed->effects);
  return true;
}

StreamScope::StreamScope(Allocator& memory, absl::Span<Stream* const> streams, AccessTicket& ticket,
                         Allocator& host)
    : memory_(memory), streams_(streams), ticket_(ticket), host_(host) {
  ticket.set_streams(memory, streams_);
}

void StreamScope::RecordPoint(size_t number) {
  if (points_.size() <= number) points_.resize(number + 1);
  points_[number] = streams_.Record(streams_.current());
}

void StreamScope::WaitForPoint(size_t number) {
  const StreamGroup::Point& point = points_[number];
  if (streams_.IsBehind(streams_.current(), point)) return;
  streams_.stream().Wait(point.event);
  streams_.NoteWait(streams_.current(), point);
  LetGo();
}

absl::StatusOr<Tensor> StreamScope::Allocate(DType dtype, const Shape& shape) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor tensor,
                            Tensor::Allocate(memory(), dtype, shape, &streams_.stream()));
  if (capture_ != nullptr && !capture_->memory().complete()) AbandonCapture();
  if (streams_.size() == 1) return tensor;
  const BufferBlock* const block = tensor.buffer().block();
  ticket_.Forget(block);
  if (streams_.current() == 0) {
    homes_.erase(block);
  } else {
    homes_[block] = streams_.current();
  }
  return tensor;
}

void StreamScope::NoteRead(const Tensor& value) {
  if (streams_.size() == 1 || ticket_.NoteRead(value.buffer().block())) return;
  const auto found = homes_.find(value.buffer().block());
  const int home = found == homes_.end() ? 0 : found->second;
  const int reader = streams_.current();
  if (home != reader) held_.push_back({value.buffer(), home, reader, streams_.now(reader)});
}

void StreamScope::LetGo() {
  std::erase_if(held_, [this](const Held& held) {
    return streams_.IsBehind(held.home, held.reader, held.time);
  });
}

absl::StatusOr<Tensor> StreamScope::ToDevice(const Tensor& value) {
  if (value.on_device()) return value;
  const std::optional<size_t> number =
      capture_ == nullptr ? std::nullopt : capture_->ValueOf(value);
  if (!number) AbandonCapture();
  FORMWORK_ASSIGN_OR_RETURN(Tensor copy, Allocate(value.dtype(), value.shape()));
  FORMWORK_RETURN_IF_ERROR(EnqueueCopy(value, copy, streams_.stream(), host_));
  if (capture_ != nullptr) capture_->NoteUpload(*number, copy);
  return copy;
}

absl::Status StreamScope::Upload(const Tensor& value, const Tensor& to) {
  return EnqueueCopy(value, to, streams_.stream(), host_);
}

bool StreamScope::BeginCapture(StreamCapture& capture) {
  if (several() || !streams_.stream().BeginCapture()) return false;
  capture_ = &capture;
  status_->KeepFailures();
  return true;
}

void StreamScope::AbandonCapture() {
  if (capture_ != nullptr) static_cast<void>(EndCapture());
}

std::unique_ptr<CapturedWork> StreamScope::EndCapture() {
  if (capture_ == nullptr) return nullptr;
  capture_ = nullptr;
  absl::StatusOr<std::unique_ptr<CapturedWork>> work = streams_.stream(0).EndCapture();
  return work.ok() ? *std::move(work) : nullptr;
}

void StreamScope::Replay(CapturedWork& work, const EnqueuedStatus::Failures& failures,
                         int64_t steps, int64_t effects) {
  status_->Repeat(failures);
  streams_.stream().Replay(work);
  steps_ = steps;
  effects_ = effects;
}

absl::Status StreamScope::Enqueue(absl::Span<const Tensor> values,
                                  std::vector<Download>& downloads) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].on_device()) continue;
    BufferBlock* block = streams_.stream().TakePinned(values[i].bytes());
    if (block == nullptr) {
      FORMWORK_ASSIGN_OR_RETURN(block, host_.Allocate(values[i].bytes(), nullptr));
    }
    Download& download = downloads.emplace_back(Download{i, values[i], Buffer(block)});
    NoteRead(values[i]);
    streams_.stream().Copy(values[i].buffer(), download.host);
  }
  return absl::OkStatus();
}

void StreamScope::Finish(std::vector<Download>& downloads, absl::Span<Tensor> values) {
  for (Download& download : downloads) {
    values[download.index] =
        Arrived(download.value.dtype(), download.value.shape(), std::move(download.host));
  }
  downloads.clear();
}

absl::Status StreamScope::ToHost(absl::Span<Tensor> values) {
  if (downloads_.empty()) FORMWORK_RETURN_IF_ERROR(Enqueue(values, downloads_));
  if (downloads_.empty()) return absl::OkStatus();
  FORMWORK_RETURN_IF_ERROR(Reach(/*all=*/false));
  Finish(downloads_, values);
  return absl::OkStatus();
}

absl::Status StreamScope::Ready() { return Reach(/*all=*/true); }

absl::Status StreamScope::Reach(bool all) {
  AbandonCapture();
  while (true) {
    if (waits_for_.empty()) {
      waits_for_ =
          all ? streams_.RecordAll() : StreamGroup::Points{streams_.Record(streams_.current())};
      waits_for_all_ = all;
      // What may fail is on stream 0.
      reached_step_ = all || streams_.current() == 0 ? steps_ : 0;
      ++host_waits_;
    }
    if (!Happened(waits_for_)) return WaitFor(waits_for_);
    absl::Status device;
    for (const StreamGroup::Point& point : waits_for_) {
      device.Update(point.event->Await(absl::InfiniteFuture()));
      streams_.NoteAwaited(point);
    }
    waits_for_.clear();
    LetGo();
    stream_works_ = device.ok();
    // Of a step that has failed, and may be running still, all is to be known.
    const bool known = status_->Collect(reached_step_);
    all = all || !known;
    // Else it is of a step that the call was ended at.
    if (!known || (!waits_for_all_ && all)) continue;
    FORMWORK_RETURN_IF_ERROR(status_->Get());
    return device;
  }
}

absl::Status StreamScope::MayGoOn() {
  if (in_window_++ < kMostInWindow) return absl::OkStatus();
  if (!Happened(window_end_)) {
    ++host_waits_;
    return WaitFor(window_end_);
  }
  status_->Collect(window_end_step_);
  FORMWORK_RETURN_IF_ERROR(status_->Get());  // No later step would do anything.
  for (const StreamGroup::Point& point : window_end_) streams_.NoteAwaited(point);
  LetGo();
  window_end_ = streams_.RecordAll();
  window_end_step_ = steps_;
  in_window_ = 1;
  return absl::OkStatus();
}

bool StreamScope::Happened(const StreamGroup::Points& points) {
  bool all = true;
  for (const StreamGroup::Point& point : points) all = point.event->Done() && all;
  return all;
}

absl::Status StreamScope::WaitFor(const StreamGroup::Points& points) {
  blocks_on_ = points;
  return Waiting();
}

void StreamScope::Block() {
  for (const StreamGroup::Point& point : blocks_on_) {
    (void)point.event->Await(absl::InfiniteFuture());
  }
}

bool StreamScope::HappensSoon(const std::atomic<bool>& others_wait) const {
  const absl::Time end = absl::Now() + kSoon;
  while (!Happened(blocks_on_)) {
    if (absl::Now() > end || others_wait.load(std::memory_order_relaxed)) return false;
  }
  return true;
}

void StreamScope::OnceReached(absl::AnyInvocable<void()> go_on) {
  struct Rest {
    Rest(size_t left, absl::AnyInvocable<void()> go_on) : left(left), go_on(std::move(go_on)) {}
    std::atomic<size_t> left;
    absl::AnyInvocable<void()> go_on;
  };
  // The call may be another thread's once all of them have been told.
  absl::InlinedVector<Stream*, 1> streams;
  for (const StreamGroup::Point& point : blocks_on_) {
    streams.push_back(&streams_.stream(point.stream));
  }
  const auto rest = std::make_shared<Rest>(streams.size(), std::move(go_on));
  for (Stream* stream : streams) {
    stream->Then([rest](const absl::Status&) {
      if (--rest->left == 0) rest->go_on();
    });
  }
}

absl::Status StreamScope::EnqueueResults(absl::Span<const Tensor> results) {
  return Enqueue(results, results_);
}

absl::Status StreamScope::TakeResults(absl::Span<Tensor> results) {
  FORMWORK_RETURN_IF_ERROR(Ready());
  Finish(results_, results);
  return absl::OkStatus();
}

}  // namespace formwork
