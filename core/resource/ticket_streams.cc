// Of a call whose work is enqueued on a device's streams: what waits there for what, and what those
// wait for who come next.

#include <algorithm>
#include <utility>

#include "core/base/status.h"
#include "core/device/device.h"
#include "core/resource/access_ticket.h"

namespace formwork {
namespace {

// Events that have happened are dropped from a variable's reads beyond so many.
constexpr size_t kManyReads = 16;

}  // namespace

AccessTicket::Uses& AccessTicket::UsesOf(const Entry& entry) {
  if (uses_.size() < entries_.size()) uses_.resize(entries_.size());
  return uses_[static_cast<size_t>(&entry - entries_.data())];
}

bool AccessTicket::IsBehindOthers(const Uses& uses, int stream) const {
  for (int k = 0; k < streams_->size(); ++k) {
    if (uses.behind[k] != 0 && streams_->IsBehind(stream, k, uses.behind[k])) return true;
  }
  return false;
}

absl::StatusOr<Tensor> AccessTicket::ReadEnqueued(ResourceHandle handle) {
  FORMWORK_ASSIGN_OR_RETURN(Entry * entry, GetVariable(handle));
  const Tensor& value = ValueOf(*entry);
  if (!value.has_value()) return Uninitialized(*entry->resource);
  if (!value.on_device()) return value;
  Uses& uses = UsesOf(*entry);
  const int k = streams_->current();
  if (uses.written != 0) {
    if (!streams_->IsBehind(k, 0, uses.written)) {
      const StreamGroup::Point point = streams_->Record(0);
      streams_->stream().Wait(point.event);
      streams_->NoteWait(k, point);
    }
  } else if (!IsBehindOthers(uses, k)) {
    streams_->stream().Wait(entry->write ? entry->resource->defined_ : entry->defined);
    uses.behind[k] = streams_->now(k);
  }
  uses.read[k] = streams_->now(k);
  NoteAccess(handle, value, /*writes=*/false);
  if (streams_->size() > 1) {
    variables_[value.buffer().block()] = static_cast<uint32_t>(entry - entries_.data());
  }
  return value;
}

bool AccessTicket::NoteRead(const BufferBlock* block) {
  const auto found = variables_.find(block);
  if (found == variables_.end()) return false;
  const int k = streams_->current();
  uses_[found->second].read[k] = streams_->now(k);
  return true;
}

absl::StatusOr<AccessTicket::EnqueuedWrite> AccessTicket::WriteEnqueued(ResourceHandle handle,
                                                                        DType dtype,
                                                                        const Shape& shape) {
  FORMWORK_ASSIGN_OR_RETURN(Entry * entry, GetVariable(handle));
  FORMWORK_RETURN_IF_ERROR(CheckWritten(*entry));
  Resource& variable = *entry->resource;
  FORMWORK_RETURN_IF_ERROR(CheckFits(variable, Tensor::ShapeOnly(dtype, shape)));
  const Tensor& value = variable.value_;
  const size_t bytes = Tensor::ShapeOnly(dtype, shape).bytes();
  FORMWORK_RETURN_IF_ERROR(variable.Resize(bytes));
  NoteBefore(*entry);
  EnqueuedWrite write;
  {
    // Who was admitted to read before either holds the value still, or has left his event.
    absl::MutexLock lock(&store_.line_mutex_);
    if (value.on_device() && value.bytes() == bytes && value.unique()) {
      write.after = Tensor::OfBuffer(dtype, shape, value.buffer());
    }
  }
  if (!write.after.has_value()) {
    FORMWORK_ASSIGN_OR_RETURN(write.after,
                              Tensor::Allocate(*memory_, dtype, shape, &streams_->stream()));
    if (value.on_device()) retired_.push_back(value);
  }
  write.before = value;
  const bool in_place = write.before.buffer().block() == write.after.buffer().block();
  NoteAccess(handle, in_place ? write.after : Tensor(), /*writes=*/true);
  ReplaceEnqueued(*entry, write.after);
  if (streams_->size() > 1) {  // A step's result it may be, too, which others read.
    variables_[write.after.buffer().block()] = static_cast<uint32_t>(entry - entries_.data());
  }
  return write;
}

absl::Status AccessTicket::CheckAssign(ResourceHandle handle, DType dtype, const Shape& shape) {
  FORMWORK_ASSIGN_OR_RETURN(Entry * entry, GetVariable(handle));
  FORMWORK_RETURN_IF_ERROR(CheckWritten(*entry));
  return CheckFits(*entry->resource, Tensor::ShapeOnly(dtype, shape));
}

absl::Status AccessTicket::AssignEnqueued(ResourceHandle handle, Tensor value) {
  FORMWORK_ASSIGN_OR_RETURN(Entry * entry, GetVariable(handle));
  FORMWORK_RETURN_IF_ERROR(CheckWritten(*entry));
  Resource& variable = *entry->resource;
  FORMWORK_RETURN_IF_ERROR(CheckFits(variable, value));
  FORMWORK_RETURN_IF_ERROR(variable.Resize(value.bytes()));
  NoteBefore(*entry);
  if (variable.value_.on_device()) retired_.push_back(variable.value_);
  NoteAccess(handle, Tensor(), /*writes=*/true);
  ReplaceEnqueued(*entry, std::move(value));
  return absl::OkStatus();
}

void AccessTicket::NoteAccess(ResourceHandle handle, const Tensor& value, bool writes) {
  if (accesses_ == nullptr) return;
  // Who reads what the call has read or written waits for nothing more.
  const auto is_of_it = [&](const EnqueuedAccess& access) { return access.handle.id == handle.id; };
  if (!writes && std::any_of(accesses_->begin(), accesses_->end(), is_of_it)) return;
  accesses_->push_back(
      {handle, value.on_device() ? value.raw() : nullptr, value.dtype(), value.shape(), writes});
}

bool AccessTicket::CanRepeat(absl::Span<const EnqueuedAccess> accesses) {
  absl::MutexLock lock(&store_.line_mutex_);  // As WriteEnqueued.
  for (const EnqueuedAccess& access : accesses) {
    const Entry* const entry = Find(access.handle);
    if (entry == nullptr || entry->destroyed || (access.writes && (atomic_ || !entry->write))) {
      return false;
    }
    const Tensor& value = ValueOf(*entry);
    if (!value.on_device() || value.raw() != access.data || value.dtype() != access.dtype ||
        value.shape() != access.shape || (access.writes && !value.unique())) {
      return false;
    }
  }
  return true;
}

absl::Status AccessTicket::Repeat(absl::Span<const EnqueuedAccess> accesses) {
  for (const EnqueuedAccess& access : accesses) {
    if (!access.writes) {
      FORMWORK_RETURN_IF_ERROR(ReadEnqueued(access.handle).status());
      continue;
    }
    FORMWORK_ASSIGN_OR_RETURN(const EnqueuedWrite write,
                              WriteEnqueued(access.handle, access.dtype, access.shape));
    if (write.after.raw() != access.data) {
      return Internal("a variable that captured work changes is elsewhere: id=", access.handle.id);
    }
  }
  return absl::OkStatus();
}

void AccessTicket::ReplaceEnqueued(Entry& entry, Tensor after) {
  Resource& variable = *entry.resource;
  Uses& uses = UsesOf(entry);
  Stream& stream = streams_->stream(0);
  const bool in_place = variable.value_.buffer().block() == after.buffer().block();
  // Who still reads the value before has not waited for the next one, and is no reader of that. It
  // is kept until all is done (retired_).
  if (!in_place) variables_.erase(variable.value_.buffer().block());
  std::vector<EventRef> reads;
  {
    absl::MutexLock lock(&store_.line_mutex_);
    reads = variable.reads_;
    variable.Set(std::move(after));
  }
  NoteWrite(entry);
  if (uses.written == 0) {
    for (const EventRef& read : reads) stream.Wait(read);
    // Who has read the value has waited for it.
    if (reads.empty() && !IsBehindOthers(uses, 0)) stream.Wait(variable.defined_);
  }
  for (int k = 1; in_place && k < streams_->size(); ++k) {
    if (streams_->IsBehind(0, k, uses.read[k])) continue;
    const StreamGroup::Point point = streams_->Record(k);
    stream.Wait(point.event);
    streams_->NoteWait(0, point);
  }
  uses = {.written = streams_->now(0)};
}

bool AccessTicket::EndsOn(const Uses& uses, int k) const {
  if (k > 0) return !streams_->IsBehind(0, k, uses.read[k]);
  bool ends = uses.written != 0;
  for (int other = 0; other < streams_->size(); ++other) {
    ends |= uses.read[other] != 0 && streams_->IsBehind(0, other, uses.read[other]);
  }
  return ends;
}

void AccessTicket::RecordEnds(const Entry& entry, Events& events) {
  const Uses& uses = UsesOf(entry);
  for (int k = 0; k < streams_->size(); ++k) {
    if (EndsOn(uses, k) && events[k] == nullptr) events[k] = streams_->Record(k).event;
  }
}

void AccessTicket::Settle(Entry& entry, const Events& events) {
  if (entry.released) return;
  Resource& resource = *entry.resource;
  if (entry.write && !entry.in_line) {  // It ends with the call.
    if (resource.value_.on_device()) retired_.push_back(resource.value_);
    return;
  }
  const Uses& uses = UsesOf(entry);
  const auto add_reads = [&](int first) {
    auto& reads = resource.reads_;
    if (reads.size() >= kManyReads) {
      reads.erase(std::remove_if(reads.begin(), reads.end(),
                                 [](const EventRef& read) { return read->Done(); }),
                  reads.end());
    }
    for (int k = first; k < streams_->size(); ++k) {
      if (EndsOn(uses, k)) reads.push_back(events[k]);
    }
  };
  if (uses.written != 0) {
    resource.defined_ = events[0];
    resource.defined_was_pinned_ = false;
    resource.reads_.clear();
    add_reads(1);
  } else if (uses.any_read() &&
             (entry.write || entry.pinned.buffer().block() == resource.value_.buffer().block())) {
    add_reads(0);
    entry.pinned = Tensor();
  } else if (uses.any_read()) {
    retired_.push_back(std::move(entry.pinned));
  }
  variables_.erase(resource.value_.buffer().block());
  // The call's own steps may hold the value still.
  if (entry.write && resource.value_.on_device() && !resource.value_.unique()) {
    retired_.push_back(resource.value_);
  }
}

void AccessTicket::Retire() {
  if (retired_.empty()) return;
  // Until the last of them is done.
  const auto retired = std::make_shared<std::vector<Tensor>>(std::move(retired_));
  for (int k = 0; k < streams_->size(); ++k) {
    if (streams_->used(k)) streams_->stream(k).Then([retired](const absl::Status&) {});
  }
  retired_.clear();
}

}  // namespace formwork
