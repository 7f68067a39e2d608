#include "core/kernels/stream_scope.h"

#include <cstring>
#include <utility>

#include "core/base/status.h"

namespace formwork {
namespace {

// Steps that are enqueued before those of the window before them must have run.
constexpr int kMostInWindow = 512;

}  // namespace

absl::StatusOr<Tensor> CopyToDevice(const Tensor& value, Allocator& memory, Stream& stream,
                                    Allocator& host) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor copy,
                            Tensor::Allocate(memory, value.dtype(), value.shape(), &stream));
  Buffer to = copy.buffer();
  if (value.buffer()) {
    stream.Copy(value.buffer(), to);
    return copy;
  }
  FORMWORK_ASSIGN_OR_RETURN(BufferBlock * block, host.Allocate(value.bytes(), nullptr));
  const Buffer staged(block);
  std::memcpy(staged.data(), value.raw(), value.bytes());
  stream.Copy(staged, to);
  return copy;
}

void EnqueuedStatus::Fail(absl::Status status, int64_t effects) {
  absl::MutexLock lock(&mutex_);
  if (!status_.ok()) return;
  status_ = std::move(status);
  effects_ = effects;
}

int64_t EnqueuedStatus::effects_before_failure() const {
  absl::MutexLock lock(&mutex_);
  return effects_;
}

absl::Status EnqueuedStatus::Get() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

StreamScope::StreamScope(Allocator& memory, Stream& stream, AccessTicket& ticket, Allocator& host)
    : memory_(memory), stream_(stream), ticket_(ticket), host_(host) {
  ticket.set_stream(memory, stream);
}

absl::StatusOr<Tensor> StreamScope::Allocate(DType dtype, const Shape& shape) {
  return Tensor::Allocate(memory_, dtype, shape, &stream_);
}

absl::StatusOr<Tensor> StreamScope::ToDevice(const Tensor& value) {
  if (value.on_device()) return value;
  return CopyToDevice(value, memory_, stream_, host_);
}

absl::Status StreamScope::Enqueue(absl::Span<const Tensor> values,
                                  std::vector<Download>& downloads) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].on_device()) continue;
    FORMWORK_ASSIGN_OR_RETURN(BufferBlock * block, host_.Allocate(values[i].bytes(), nullptr));
    Download& download = downloads.emplace_back(Download{i, values[i], Buffer(block)});
    stream_.Copy(values[i].buffer(), download.host);
  }
  return absl::OkStatus();
}

void StreamScope::Finish(std::vector<Download>& downloads, absl::Span<Tensor> values) {
  for (Download& download : downloads) {
    const DType dtype = download.value.dtype();
    Tensor& value = values[download.index];
    if (value.ResetInside(dtype, download.value.shape())) {
      std::memcpy(value.mutable_raw(), download.host.data(), download.host.bytes());
    } else {
      value = Tensor::OfBuffer(dtype, download.value.shape(), std::move(download.host));
    }
  }
  downloads.clear();
}

absl::Status StreamScope::ToHost(absl::Span<Tensor> values) {
  if (downloads_.empty()) FORMWORK_RETURN_IF_ERROR(Enqueue(values, downloads_));
  if (downloads_.empty()) return absl::OkStatus();
  FORMWORK_RETURN_IF_ERROR(Ready());
  Finish(downloads_, values);
  return absl::OkStatus();
}

absl::Status StreamScope::Ready() {
  if (waits_for_ == nullptr) {
    waits_for_ = stream_.Record();
    ++host_waits_;
  }
  if (!waits_for_->Done()) return WaitFor(waits_for_);
  const absl::Status device = waits_for_->Await(absl::InfiniteFuture());
  waits_for_ = nullptr;
  stream_works_ = device.ok();
  FORMWORK_RETURN_IF_ERROR(status_->Get());
  return device;
}

absl::Status StreamScope::MayGoOn() {
  if (in_window_++ < kMostInWindow) return absl::OkStatus();
  if (window_end_ != nullptr && !window_end_->Done()) {
    ++host_waits_;
    return WaitFor(window_end_);
  }
  FORMWORK_RETURN_IF_ERROR(status_->Get());  // No later step would do anything.
  window_end_ = stream_.Record();
  in_window_ = 1;
  return absl::OkStatus();
}

absl::Status StreamScope::WaitFor(const EventRef& event) {
  blocks_on_ = event;
  return absl::UnavailableError("");
}

void StreamScope::Block() {
  if (blocks_on_ != nullptr) (void)blocks_on_->Await(absl::InfiniteFuture());
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
