#include "core/resource/access_ticket.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "core/base/memory_budget.h"
#include "core/device/device.h"

namespace formwork {

AccessTicket::~AccessTicket() {
  if (state_wait_ != nullptr || (!entries_.empty() && !Abandon())) ReleaseAll();
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
    entries_.emplace_back(std::move(request.resource)).write = write;
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
  Resource& resource = *entry.resource;
  // What is read again without having been written, as a model that is served is: those who come
  // need not wait for what has happened. A value's first reader does not look, for that takes
  // longer than to wait, and as a rule it has not.
  if (resource.defined_ != nullptr && std::exchange(resource.defined_was_pinned_, true) &&
      resource.defined_->Done() && resource.defined_->Await(absl::InfinitePast()).ok()) {
    resource.defined_.reset();
  }
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
  if (!entry.resource->state_waits_.empty()) WakeFirst(*entry.resource, ready);
  entry.resource->line_.pop_front();  // A granted writer is at the head.
  Advance(*entry.resource, ready);
}

void AccessTicket::NoteReady(ResourceStore& store, const ReadyTickets& ready) {
  if (ready.first == nullptr) return;
  const absl::Time now = absl::Now();
  for (AccessTicket* ticket = ready.first; ticket != nullptr; ticket = ticket->next_ready_) {
    ticket->waiting_ = false;
    if (ticket->waits_since_ == absl::InfiniteFuture()) continue;  // It has waited for a state.
    store.waits_.fetch_add(1, std::memory_order_relaxed);
    store.wait_nanos_.fetch_add(absl::ToInt64Nanoseconds(now - ticket->waits_since_),
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
  if (value.has_value() && !value.on_device() && entry.changed.worth_copying(value)) {
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
    NoteReady(store_, ready);
  }
  Wake(ready);
}

void AccessTicket::ReleaseAll() {
  if (state_wait_ != nullptr) ForgoState();
  GiveBackAll();
}

void AccessTicket::GiveBackAll() {
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
    NoteReady(store_, ready);
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
  if (entry->resource->logged()) {
    // What is enqueued goes to the log once it has run.
    if (streams_ == nullptr) ReleaseLogged(*entry);
    return;
  }
  Events events;
  if (streams_ != nullptr) RecordEnds(*entry, events);
  ReadyTickets ready;
  {
    absl::MutexLock lock(&store_.line_mutex_);
    if (!entry->in_line) return;
    if (streams_ != nullptr) Settle(*entry, events);
    Leave(*entry, ready);
    NoteReady(store_, ready);
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
    if (entries_.empty()) std::erase(state_wait_->resource->state_waits_, this);
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
    NoteReady(store_, ready);
  }
  entries_.clear();
  Wake(ready);
  return true;
}

void AccessTicket::RemoveDestroyed() {
  for (const Entry& entry : entries_) {
    if (entry.destroyed) store_.Remove(*entry.resource);
  }
}

}  // namespace formwork
