#include "core/kernels/stream_scope.h"

#include <cstring>
#include <utility>

#include "core/base/status.h"

namespace formwork {
namespace {

absl::StatusOr<Tensor> AllocateOn(Device& device, Stream& stream, DType dtype, const Shape& shape) {
  FORMWORK_ASSIGN_OR_RETURN(Buffer buffer,
                            device.Allocate(Tensor::ShapeOnly(dtype, shape).bytes(), stream));
  return Tensor::OfBuffer(dtype, shape, std::move(buffer));
}

}  // namespace

absl::StatusOr<Tensor> CopyToDevice(const Tensor& value, Device& device, Stream& stream,
                                    Allocator& host) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor copy, AllocateOn(device, stream, value.dtype(), value.shape()));
  Buffer to = copy.buffer();
  if (value.buffer()) {
    stream.Copy(value.buffer(), to);
    return copy;
  }
  FORMWORK_ASSIGN_OR_RETURN(BufferBlock * block, host.Allocate(value.bytes()));
  const Buffer staged(block);
  std::memcpy(staged.data(), value.raw(), value.bytes());
  stream.Copy(staged, to);
  return copy;
}

void EnqueuedStatus::Fail(absl::Status status) {
  absl::MutexLock lock(&mutex_);
  status_.Update(std::move(status));
}

absl::Status EnqueuedStatus::Get() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

StreamScope::StreamScope(Device& device, Stream& stream, AccessTicket& ticket, Allocator& host)
    : device_(device), stream_(stream), ticket_(ticket), host_(host) {
  ticket.set_stream(device, stream);
}

absl::StatusOr<Tensor> StreamScope::Allocate(DType dtype, const Shape& shape) {
  return AllocateOn(device_, stream_, dtype, shape);
}

absl::StatusOr<Tensor> StreamScope::ToDevice(const Tensor& value) {
  if (value.on_device()) return value;
  return CopyToDevice(value, device_, stream_, host_);
}

absl::Status StreamScope::Enqueue(absl::Span<const Tensor> values,
                                  std::vector<Download>& downloads) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].on_device()) continue;
    FORMWORK_ASSIGN_OR_RETURN(BufferBlock * block, host_.Allocate(values[i].bytes()));
    Download& download = downloads.emplace_back(Download{i, values[i], Buffer(block)});
    stream_.Copy(values[i].buffer(), download.host);
  }
  return absl::OkStatus();
}

absl::Status StreamScope::Finish(std::vector<Download>& downloads, absl::Span<Tensor> values) {
  FORMWORK_RETURN_IF_ERROR(Await());
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
  return absl::OkStatus();
}

absl::Status StreamScope::ToHost(absl::Span<Tensor> values) {
  std::vector<Download> downloads;
  FORMWORK_RETURN_IF_ERROR(Enqueue(values, downloads));
  return Finish(downloads, values);
}

absl::Status StreamScope::Await() {
  ++host_waits_;
  const absl::Status device = stream_.Record()->Await(absl::InfiniteFuture());
  FORMWORK_RETURN_IF_ERROR(status_->Get());
  return device;
}

absl::Status StreamScope::EnqueueResults(absl::Span<const Tensor> results) {
  return Enqueue(results, results_);
}

absl::Status StreamScope::TakeResults(absl::Span<Tensor> results) {
  return Finish(results_, results);
}

}  // namespace formwork
