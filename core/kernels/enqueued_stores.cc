#include "core/kernels/enqueued_stores.h"

#include <memory>
#include <optional>
#include <utility>

#include "core/base/status.h"
#include "core/kernels/enqueued_work.h"

namespace formwork {

absl::StatusOr<Tensor> EnqueuedStores::HostValueOnDevice(ResourceHandle handle) {
  const absl::StatusOr<Tensor> value = ticket_.Read(handle);
  if (!value.ok() || value->on_device()) return Tensor();
  return streams_.ToDevice(*value);
}

absl::Status EnqueuedStores::Copy(ResourceHandle handle, const Tensor& value) {
  FORMWORK_ASSIGN_OR_RETURN(const Tensor before, HostValueOnDevice(handle));
  FORMWORK_ASSIGN_OR_RETURN(AccessTicket::EnqueuedWrite write,
                            ticket_.WriteEnqueued(handle, value.dtype(), value.shape()));
  if (before.has_value()) write.before = before;
  const bool keeps = write.before.has_value() && write.before.shape() == value.shape();
  struct Views {
    DeviceView from, to;
    std::optional<DeviceView> before;
  };
  std::unique_ptr<Views> copy(new Views{DeviceView(value), DeviceView(write.after), {}});
  BufferAccess access{.reads = {&value.buffer()}, .writes = {&write.after.buffer()}};
  if (keeps && write.before.buffer().block() != write.after.buffer().block()) {
    copy->before.emplace(write.before);
    access.reads.push_back(&write.before.buffer());
  }
  streams_.NoteRead(value);
  Stream& stream = streams_.stream();
  stream.Launch(access,
                [copy = std::move(copy), status = streams_.status(), step = step_,
                 on = stream.enqueues() ? &stream : nullptr]() -> absl::Status {
                  FailureWord* const word = on == nullptr ? nullptr : status->word();
                  const bool failed = status->FailedBefore(step);
                  if (copy->before && (failed || word != nullptr)) {
                    FORMWORK_RETURN_IF_ERROR(copy->to.Write(copy->before->Read(on), on));
                  }
                  return failed ? absl::OkStatus() : copy->to.Write(copy->from.Read(on), on, word);
                });
  return absl::OkStatus();
}

absl::Status EnqueuedStores::TakeOver(ResourceHandle handle, const Tensor& value) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor before, HostValueOnDevice(handle));
  if (!before.has_value() && ticket_.IsInitialized(handle)) {
    FORMWORK_ASSIGN_OR_RETURN(before, ticket_.Read(handle));
  }
  FORMWORK_RETURN_IF_ERROR(ticket_.AssignEnqueued(handle, value));
  if (!before.has_value() || before.shape() != value.shape()) return absl::OkStatus();
  struct Views {
    DeviceView value, before;
  };
  std::unique_ptr<Views> views(new Views{DeviceView(value), DeviceView(before)});
  Stream& stream = streams_.stream();
  stream.Launch({.reads = {&before.buffer()}, .writes = {&value.buffer()}},
                [views = std::move(views), status = streams_.status(), step = step_,
                 on = stream.enqueues() ? &stream : nullptr]() -> absl::Status {
                  if (!status->FailedBefore(step)) return absl::OkStatus();
                  return views->value.Write(views->before.Read(on), on);
                });
  return absl::OkStatus();
}

}  // namespace formwork
