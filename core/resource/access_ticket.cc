#include "core/resource/access_ticket.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "core/base/memory_budget.h"
#include "core/base/reason.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/device/device.h"

namespace formwork {
namespace {

absl::Status Uninitialized(const Resource& variable) {
  return WithReason(FailedPrecondition("Error while reading resource variable ", variable.name,
                                       ": it is uninitialized"),
                    Reason::kVariableUninitialized, {{"variableName", variable.name}});
}

// Events that have happened are dropped from a variable's reads beyond so many.
constexpr size_t kManyReads = 16;

// What moves less is done within 50 ms.
constexpr size_t kLongUpdate = size_t{128} << 20;

// Whether a stop is near that would have to wait for a change in place.
bool IsInTheWay(size_t bytes_moved) {
  constexpr double kSlowestBytesPerSecond = 1e9;
  return bytes_moved >= kLongUpdate &&
         WorkStopsWithin(absl::Seconds(static_cast<double>(bytes_moved) / kSlowestBytesPerSecond));
}

// Whether `value`, which could be changed in place, is rather copied, so that a stop can cut the
// work.
bool IsWorthACopy(const Tensor& value, size_t bytes_moved) {
  return (bytes_moved >= kLongUpdate && value.bytes() <= bytes_moved / 4) ||
         IsInTheWay(bytes_moved);
}

}  // namespace

AccessTicket::~AccessTicket() {
  if (!entries_.empty() && !Abandon()) ReleaseAll();
}

bool AccessTicket::Take(std::vector<AccessRequest> requests, absl::AnyInvocable<void()> on_ready,
                        std::vector<HeldPlace>* held) {
  const auto by_id = [](const AccessRequest& a, const AccessRequest& b) {
    return a.resource->id < b.resource->id;
  };
  committed_ = false;
  next_ready_ = nullptr;
  if (!std::is_sorted(requests.begin(), requests.end(), by_id)) {
    std::sort(requests.begin(), requests.end(), by_id);
  }
  entries_.reserve(requests.size());
  for (AccessRequest& request : requests) {
    const bool write = request.mode == Access::kWrite;
    if (!entries_.empty() && entries_.back().resource == request.resource) {
      entries_.back().write = entries_.back().write || write;
      entries_.back().aliased = true;
      continue;
    }
    Entry& entry = entries_.emplace_back();
    entry.resource = std::move(request.resource);
    entry.write = write;
  }
  absl::MutexLock lock(&store_.line_mutex_);
  // All places or none: where there is no memory for one, the others, each the last of its line,
  // go.
  absl::Cleanup leave = [this] {
    for (Entry& entry : entries_) {
      if (std::exchange(entry.in_line, false)) entry.resource->line_.pop_back();
      entry.pinned = Tensor();
      entry.defined.reset();
    }
    missing_ = 0;
  };
  for (const Entry& entry : entries_) missing_ += !entry.resource->line_.empty();
  if (held != nullptr) {
    for (const Entry& entry : entries_) {
      if (entry.resource->line_.empty()) continue;
      held->push_back({entry.resource, entry.resource->line_.front().ticket->writer_});
    }
  }
  for (uint32_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    Resource& resource = *entry.resource;
    // A line is never empty while somebody writes, and never holds granted readers.
    if (!entry.write && resource.line_.empty()) {
      Pin(entry);
      continue;
    }
    resource.line_.push_back({this, i, entry.write});
    entry.in_line = true;
  }
  std::move(leave).Cancel();
  if (missing_ == 0) return true;
  on_ready_ = std::move(on_ready);
  waiting_ = true;
  waits_since_ = absl::Now();
  return false;
}

void AccessTicket::Pin(Entry& entry) {
  const Resource& resource = *entry.resource;
  entry.pinned = resource.value_;
  entry.defined = resource.defined_;
  entry.from_version = entry.to_version = resource.version();
  entry.log_position = resource.log_position();
}

void AccessTicket::Advance(Resource& resource, ReadyTickets& ready) {
  auto granted = [&](AccessTicket* ticket) {
    if (--ticket->missing_ == 0) ready.Add(ticket);
  };
  while (!resource.line_.empty()) {
    const Resource::Place place = resource.line_.front();
    if (place.write) {
      granted(place.ticket);
      return;
    }
    Entry& entry = place.ticket->entries_[place.entry];
    Pin(entry);
    entry.in_line = false;
    resource.line_.pop_front();
    granted(place.ticket);
  }
}

void AccessTicket::Leave(Entry& entry, ReadyTickets& ready) {
  entry.in_line = false;
  entry.resource->line_.pop_front();  // A granted writer is at the head.
  Advance(*entry.resource, ready);
}

void AccessTicket::NoteReady(const ReadyTickets& ready) {
  if (ready.first == nullptr) return;
  const absl::Time now = absl::Now();
  for (AccessTicket* ticket = ready.first; ticket != nullptr; ticket = ticket->next_ready_) {
    ticket->waiting_ = false;
    store_.waits_.fetch_add(1, std::memory_order_relaxed);
    store_.wait_nanos_.fetch_add(absl::ToInt64Nanoseconds(now - ticket->waits_since_),
                                 std::memory_order_relaxed);
  }
}

void AccessTicket::Wake(const ReadyTickets& ready) {
  // Each is granted for good; nobody else touches it until its callback has run.
  for (AccessTicket* ticket = ready.first; ticket != nullptr;) {
    AccessTicket* const next = ticket->next_ready_;  // Read first: it may go once it is called.
    absl::AnyInvocable<void()> on_ready = std::move(ticket->on_ready_);
    on_ready();
    ticket = next;
  }
}

ResourceCommit AccessTicket::CommitOf(const Entry& entry) {
  const Tensor& value = entry.resource->value_;
  ResourceCommit commit{entry.resource, entry.to_version};
  if (value.has_value() && entry.changed.worth_copying(value)) {
    // Whoever changes the value next then need not copy all of it.
    absl::StatusOr<ChangedRows::Copied> copied =
        CatchOutOfMemory([&] { return entry.changed.Copy(value, allocator_); });
    if (copied.ok()) {
      commit.rows = std::move(copied->rows);
      commit.value = std::move(copied->values);
      return commit;
    }
  }
  commit.value = value;
  return commit;
}

void AccessTicket::Commit() {
  const HeapScope unlimited(nullptr);  // It has been done, and others may see it soon.
  CommitRecord record;
  std::vector<Resource*> changed;
  for (const Entry& entry : entries_) {
    Resource& resource = *entry.resource;
    if (!resource.logged() || (committed_ && entry.write)) continue;
    const bool now = entry.write || entry.destroyed;
    const uint64_t seen = now ? resource.log_position() : entry.log_position;
    log_position_ = std::max(log_position_, seen);
    if (entry.to_version == entry.from_version) continue;
    record.resources.push_back(CommitOf(entry));
    changed.push_back(&resource);
  }
  if (changed.empty() && attachment_ == nullptr) return;
  has_logged_ = true;
  record.attachment = std::move(attachment_);
  log_position_ = store_.log()->Append(std::move(record));
  for (Resource* resource : changed) {
    resource->log_position_.store(log_position_, std::memory_order_relaxed);
  }
}

void AccessTicket::ReleaseLogged(Entry& entry) {
  entry.released = true;
  for (const Entry& other : entries_) {
    if (other.write && other.resource->logged() && !other.released) return;
  }
  Commit();
  committed_ = true;
  ReadyTickets ready;
  {
    absl::MutexLock lock(&store_.line_mutex_);
    for (Entry& written : entries_) {
      if (written.write && written.in_line) Leave(written, ready);
    }
    NoteReady(ready);
  }
  Wake(ready);
}

void AccessTicket::ReleaseAll() {
  if (entries_.empty() && attachment_ == nullptr) return;
  if (store_.log() != nullptr) Commit();
  if (atomic_) RemoveDestroyed();
  Events events;
  if (streams_ != nullptr) {
    for (const Entry& entry : entries_) RecordEnds(entry, events);
  }
  ReadyTickets ready;
  {
    absl::MutexLock lock(&store_.line_mutex_);
    for (Entry& entry : entries_) {
      if (streams_ != nullptr) Settle(entry, events);
      if (entry.in_line) Leave(entry, ready);
    }
    NoteReady(ready);
  }
  if (streams_ != nullptr) {
    Retire();
    uses_.clear();
    variables_.clear();
  }
  entries_.clear();
  Wake(ready);
}

void AccessTicket::Release(ResourceHandle handle) {
  HeapScope unlimited(nullptr);  // Called among kernels, and must not end half-way.
  Entry* entry = Find(handle);
  // Another name of the resource may still be used; a reader holds nobody up.
  if (entry == nullptr || entry->aliased || !entry->write || holds_all_) return;
  if (entry->resource->logged()) return ReleaseLogged(*entry);
  Events events;
  if (streams_ != nullptr) RecordEnds(*entry, events);
  ReadyTickets ready;
  {
    absl::MutexLock lock(&store_.line_mutex_);
    if (!entry->in_line) return;
    if (streams_ != nullptr) Settle(*entry, events);
    Leave(*entry, ready);
    NoteReady(ready);
  }
  entry->released = true;
  Wake(ready);
}

bool AccessTicket::Abandon() {
  // What it holds, the call perhaps, goes outside the lock and after everything else.
  absl::AnyInvocable<void()> dropped;
  ReadyTickets ready;
  {
    absl::MutexLock lock(&store_.line_mutex_);
    if (!waiting_) return false;
    waiting_ = false;
    dropped = std::move(on_ready_);
    for (Entry& entry : entries_) {
      if (!entry.in_line) continue;
      entry.in_line = false;
      auto& line = entry.resource->line_;
      auto place = std::find_if(line.begin(), line.end(),
                                [this](const Resource::Place& p) { return p.ticket == this; });
      const bool head = place == line.begin();
      line.erase(place);
      // Behind a writer that has gone stand others who may now go: but only where it was at the
      // head, or where all before it are granted, is there anything to pass on.
      if (head) Advance(*entry.resource, ready);
    }
    NoteReady(ready);
  }
  entries_.clear();
  Wake(ready);
  return true;
}

void AccessTicket::NoteWrite(Entry& entry, const RowIndices* rows) {
  Resource& resource = *entry.resource;
  if (rows == nullptr) {
    entry.changed.AddAll();
  } else {
    entry.changed.Add(*rows, resource.value_);
  }
  resource.last_writer_.store(writer_, std::memory_order_relaxed);
  const uint64_t version = resource.version();
  if (entry.to_version == entry.from_version) entry.from_version = version - 1;
  entry.to_version = version;
}

void AccessTicket::NoteBefore(Entry& entry) {
  if (!atomic_ || entry.before) return;
  const Resource& resource = *entry.resource;
  entry.before = {resource.value_, resource.bytes(), resource.version(), resource.last_writer()};
}

void AccessTicket::RollBack() {
  const HeapScope unlimited(nullptr);
  for (Entry& entry : entries_) {
    entry.destroyed = false;
    if (!entry.before) continue;
    Resource& resource = *entry.resource;
    resource.Set(std::move(entry.before->value), entry.before->bytes);
    resource.version_.store(entry.before->version, std::memory_order_relaxed);
    resource.last_writer_.store(entry.before->last_writer, std::memory_order_relaxed);
    entry.before.reset();
    entry.from_version = entry.to_version = 0;
  }
}

void AccessTicket::RemoveDestroyed() {
  for (const Entry& entry : entries_) {
    if (entry.destroyed) store_.Remove(*entry.resource);
  }
}

uint64_t AccessTicket::ReadVersion(ResourceHandle handle) {
  const Entry* entry = Find(handle);
  return entry == nullptr ? 0 : entry->to_version;
}

std::vector<ResourceChange> AccessTicket::Changes() const {
  std::vector<ResourceChange> changes;
  for (const Entry& entry : entries_) {
    if (entry.to_version == entry.from_version || entry.resource->name_space.empty()) continue;
    ResourceChange& change = changes.emplace_back();
    change.id = entry.resource->id;
    change.from_version = entry.from_version;
    change.to_version = entry.to_version;
    change.by_rows = entry.changed.known();
    if (change.by_rows) change.rows = entry.changed.Rows();
  }
  return changes;
}

AccessTicket::Entry* AccessTicket::Find(ResourceHandle handle) {
  auto found =
      std::lower_bound(entries_.begin(), entries_.end(), handle.id,
                       [](const Entry& entry, uint64_t id) { return entry.resource->id < id; });
  return found == entries_.end() || found->resource->id != handle.id ? nullptr : &*found;
}

absl::StatusOr<AccessTicket::Entry*> AccessTicket::Get(ResourceHandle handle) {
  Entry* entry = Find(handle);
  if (entry == nullptr) {
    return InvalidArgument("the handle is none of the call's resources: id=", handle.id);
  }
  if (entry->destroyed) {
    return WithReason(NotFound(Described(*entry->resource), " has been destroyed"),
                      Reason::kVariableDeleted, {{"variableName", entry->resource->name}});
  }
  if (entry->released) {
    return Internal(Described(*entry->resource), " was released before its last access");
  }
  return entry;
}

absl::StatusOr<AccessTicket::Entry*> AccessTicket::GetVariable(ResourceHandle handle) {
  FORMWORK_ASSIGN_OR_RETURN(Entry * entry, Get(handle));
  if (!entry->resource->type.is_variable()) {
    return InvalidArgument(Described(*entry->resource), " is not a variable");
  }
  return entry;
}

absl::Status AccessTicket::CheckWritten(const Entry& entry) {
  if (entry.write) return absl::OkStatus();
  return Internal(Described(*entry.resource), " was admitted for reading alone");
}

absl::StatusOr<Tensor> AccessTicket::Read(ResourceHandle handle) {
  FORMWORK_ASSIGN_OR_RETURN(const Entry* entry, GetVariable(handle));
  const Tensor& value = ValueOf(*entry);
  if (!value.has_value()) return Uninitialized(*entry->resource);
  return value;
}

absl::StatusOr<Tensor> AccessTicket::ReadState(ResourceHandle handle) {
  FORMWORK_ASSIGN_OR_RETURN(const Entry* entry, Get(handle));
  return ValueOf(*entry);
}

absl::Status AccessTicket::WriteState(ResourceHandle handle, Tensor state, size_t bytes) {
  FORMWORK_RETURN_IF_ERROR(WorkStatus());  // The state may be unfinished.
  FORMWORK_ASSIGN_OR_RETURN(Entry * entry, Get(handle));
  FORMWORK_RETURN_IF_ERROR(CheckWritten(*entry));
  FORMWORK_RETURN_IF_ERROR(entry->resource->Resize(bytes));
  NoteBefore(*entry);
  entry->resource->Set(std::move(state), bytes);
  NoteWrite(*entry);
  return absl::OkStatus();
}

absl::Status AccessTicket::CheckFits(const Resource& variable, const Tensor& value) {
  if (value.dtype() != variable.dtype()) {
    return InvalidArgument("variable '", variable.name,
                           "': the value has another dtype: variable=", DTypeName(variable.dtype()),
                           " value=", DTypeName(value.dtype()));
  }
  if (!variable.shape().Accepts(value.shape())) {
    return InvalidArgument("variable '", variable.name,
                           "': the value has another shape: variable=", variable.shape().ToString(),
                           " value=", value.shape().ToString());
  }
  return absl::OkStatus();
}

absl::Status AccessTicket::Reserve(ResourceHandle handle, size_t bytes) {
  FORMWORK_ASSIGN_OR_RETURN(Entry * entry, GetVariable(handle));
  FORMWORK_RETURN_IF_ERROR(CheckWritten(*entry));
  return entry->resource->Resize(bytes);
}

absl::Status AccessTicket::Assign(ResourceHandle handle, Tensor value) {
  FORMWORK_RETURN_IF_ERROR(WorkStatus());  // The value may be unfinished.
  FORMWORK_ASSIGN_OR_RETURN(Entry * entry, GetVariable(handle));
  FORMWORK_RETURN_IF_ERROR(CheckWritten(*entry));
  FORMWORK_RETURN_IF_ERROR(CheckFits(*entry->resource, value));
  FORMWORK_RETURN_IF_ERROR(entry->resource->Resize(value.bytes()));
  NoteBefore(*entry);
  entry->resource->Set(std::move(value));
  NoteWrite(*entry);
  return absl::OkStatus();
}

// --- On a stream ---------------------------------------------------------------------------------

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
  ReplaceEnqueued(*entry, write.after);
  return write;
}

absl::Status AccessTicket::AssignEnqueued(ResourceHandle handle, Tensor value) {
  FORMWORK_ASSIGN_OR_RETURN(Entry * entry, GetVariable(handle));
  FORMWORK_RETURN_IF_ERROR(CheckWritten(*entry));
  Resource& variable = *entry->resource;
  FORMWORK_RETURN_IF_ERROR(CheckFits(variable, value));
  FORMWORK_RETURN_IF_ERROR(variable.Resize(value.bytes()));
  if (variable.value_.on_device()) retired_.push_back(variable.value_);
  ReplaceEnqueued(*entry, std::move(value));
  return absl::OkStatus();
}

void AccessTicket::ReplaceEnqueued(Entry& entry, Tensor after) {
  Resource& variable = *entry.resource;
  Uses& uses = UsesOf(entry);
  Stream& stream = streams_->stream(0);
  const bool in_place = variable.value_.buffer().block() == after.buffer().block();
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

absl::Status AccessTicket::Update(ResourceHandle handle, size_t bytes_moved,
                                  absl::FunctionRef<absl::Status(Tensor& value)> update) {
  return Change(handle, nullptr, bytes_moved, update);
}

bool AccessTicket::LeaveValue(ResourceHandle handle, const Tensor& value, size_t bytes_moved) {
  const Entry* entry = Find(handle);
  if (entry == nullptr || !entry->write || entry->destroyed || entry->released || atomic_ ||
      streams_ != nullptr || !entry->resource->type.is_variable()) {
    return false;
  }
  Tensor& own = entry->resource->value_;
  const BufferBlock* const block = value.buffer().block();
  if (block == nullptr || own.buffer().block() != block || !value.buffer().HasHolders(2) ||
      own.dtype() != value.dtype() || own.shape() != value.shape() || WorkIsCut() ||
      IsInTheWay(bytes_moved)) {
    return false;
  }
  own = Tensor();
  return true;
}

void AccessTicket::PutBack(ResourceHandle handle, Tensor value) {
  if (const Entry* const entry = Find(handle)) entry->resource->value_ = std::move(value);
}

absl::Status AccessTicket::UpdateRows(ResourceHandle handle, const RowIndices& rows,
                                      size_t bytes_moved,
                                      absl::FunctionRef<absl::Status(Tensor& value)> update) {
  return Change(handle, &rows, bytes_moved, update);
}

absl::Status AccessTicket::Change(ResourceHandle handle, const RowIndices* rows, size_t bytes_moved,
                                  absl::FunctionRef<absl::Status(Tensor& value)> update) {
  FORMWORK_RETURN_IF_ERROR(WorkStatus());  // What it is updated by may be unfinished.
  FORMWORK_ASSIGN_OR_RETURN(Entry * entry, GetVariable(handle));
  FORMWORK_RETURN_IF_ERROR(CheckWritten(*entry));
  Resource& variable = *entry->resource;
  if (!variable.value_.has_value()) return Uninitialized(variable);
  if (rows != nullptr) entry->changed.Reserve(variable.value_);
  NoteBefore(*entry);
  const bool in_place = variable.value_.unique();
  std::optional<Tensor> copy;
  if (!in_place || IsWorthACopy(variable.value_, bytes_moved)) {
    absl::StatusOr<Tensor> made =
        CatchOutOfMemory([&] { return variable.value_.Clone(allocator_); });
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    if (made.ok()) {
      copy = *std::move(made);
    } else if (!in_place) {
      return std::move(made).status();
    }
  }
  if (!copy) {
    const UncutScope uncut;
    Tensor value = std::move(variable.value_);
    absl::Status status = CatchOutOfMemory([&] { return update(value); });
    if (status.ok()) status = CheckFits(variable, value);
    if (!status.ok()) {
      variable.value_ = std::move(value);  // Unwritten, as `update` promises.
      return status;
    }
    variable.Set(std::move(value));
    NoteWrite(*entry, rows);
    return absl::OkStatus();
  }
  FORMWORK_RETURN_IF_ERROR(update(*copy));
  FORMWORK_RETURN_IF_ERROR(WorkStatus());  // The copy may be unfinished.
  FORMWORK_RETURN_IF_ERROR(CheckFits(variable, *copy));
  variable.Set(*std::move(copy));
  NoteWrite(*entry, rows);
  return absl::OkStatus();
}

bool AccessTicket::IsInitialized(ResourceHandle handle) {
  const Entry* entry = Find(handle);
  if (entry == nullptr || entry->destroyed || entry->released) return false;
  return ValueOf(*entry).has_value();
}

absl::Status AccessTicket::Destroy(ResourceHandle handle, bool ignore_missing) {
  Entry* entry = Find(handle);
  if (entry == nullptr || entry->destroyed) {
    if (ignore_missing) return absl::OkStatus();
    return NotFound("the resource to destroy is not there: id=", handle.id);
  }
  entry->destroyed = true;
  if (!atomic_) store_.Remove(*entry->resource);
  return absl::OkStatus();
}

absl::StatusOr<const ResourceType*> AccessTicket::TypeOf(ResourceHandle handle) {
  FORMWORK_ASSIGN_OR_RETURN(const Entry* entry, Get(handle));
  return &entry->resource->type;
}

ResourceHandle AccessTicket::CreateForCall(const std::string& name, ResourceType type) {
  Entry entry;
  entry.resource = std::make_shared<Resource>(store_.NextId(), "", name, std::move(type));
  entry.write = true;
  const ResourceHandle handle{entry.resource->id};
  entries_.push_back(std::move(entry));  // Its ID is the highest.
  return handle;
}

}  // namespace formwork
