// Waiting until others have changed a resource's state, without a place meanwhile.

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/resource/access_ticket.h"

namespace formwork {

absl::Status AccessTicket::AwaitState(ResourceHandle handle,
                                      absl::AnyInvocable<bool(const Tensor& state) const> goes_on,
                                      std::shared_ptr<Awaited>& awaited) {
  FORMWORK_ASSIGN_OR_RETURN(const Entry* entry, Get(handle));
  FORMWORK_RETURN_IF_ERROR(CheckWritten(*entry));
  const std::string name = Described(*entry->resource);
  const auto is_own = [](const Entry& e) { return e.resource->name_space.empty(); };
  if (is_own(*entry)) {
    return FailedPrecondition("it would wait for ever: nobody but this call knows ", name);
  }
  const std::shared_ptr<void> owner = owner_.lock();
  if (owner == nullptr) return Unimplemented("waiting for ", name, " in such a request");
  for (const Entry& e : entries_) {
    if (!e.destroyed && e.to_version == e.from_version) continue;
    if (atomic_) {
      return FailedPrecondition("an atomic call that has changed something would wait for ", name,
                                ", and others would see the change");
    }
    if (streams_ != nullptr && e.resource->logged()) {
      return Unimplemented("a call on a device that has changed what is logged would wait for ",
                           name);
    }
  }
  auto wait = std::make_unique<StateWait>();
  wait->resource = entry->resource;
  wait->goes_on = std::move(goes_on);
  for (const Entry& e : entries_) {
    if (is_own(e) || e.destroyed) {
      Entry& kept = wait->kept.emplace_back(e.resource);
      kept.write = e.write;
      kept.destroyed = e.destroyed;
    } else if (!e.released) {
      const AccessRequest request{e.resource, e.write ? Access::kWrite : Access::kRead};
      wait->requests.insert(wait->requests.end(), e.aliased ? 2 : 1, request);
    }
  }
  auto changed = std::make_shared<Opened>(absl::StrCat("others to change ", name));
  {
    absl::MutexLock lock(&store_.line_mutex_);
    if (wait->resource->destroyed()) return Destroyed(*wait->resource);
    std::deque<AccessTicket*>& waits = wait->resource->state_waits_;
    if (std::exchange(has_come_back_, false)) {
      waits.push_front(this);
    } else {
      waits.push_back(this);
    }
    state_wait_ = std::move(wait);
    on_ready_ = [owner, changed] { changed->Open(); };
    waiting_ = true;
    waits_since_ = absl::InfiniteFuture();
    missing_ = 1;
    next_ready_ = nullptr;
  }
  // It has had the writer's place until here, so nobody has changed the state meanwhile.
  awaited = std::move(changed);
  GiveBackAll();
  return Waiting();
}

absl::Status AccessTicket::ComeBack(std::shared_ptr<Awaited>& awaited) {
  awaited = nullptr;
  if (state_wait_ == nullptr) return absl::OkStatus();
  if (entries_.empty()) {
    auto granted = std::make_shared<Opened>("places");
    entries_.reserve(state_wait_->requests.size() + state_wait_->kept.size());
    // Whoever grants the places still looks at the ticket when they are.
    const bool there = Take(std::move(state_wait_->requests),
                            [owner = owner_.lock(), granted] { granted->Open(); });
    if (!there) {
      awaited = std::move(granted);
      return Waiting();
    }
  }
  std::move(state_wait_->kept.begin(), state_wait_->kept.end(), std::back_inserter(entries_));
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.id < b.id; });
  state_wait_ = nullptr;
  has_come_back_ = true;
  return absl::OkStatus();
}

void AccessTicket::WakeFirst(Resource& resource, ReadyTickets& ready) {
  std::deque<AccessTicket*>& waits = resource.state_waits_;
  const auto first = std::find_if(waits.begin(), waits.end(), [&](const AccessTicket* ticket) {
    return ticket->state_wait_->goes_on(resource.value_);
  });
  if (first == waits.end()) return;
  AccessTicket* const ticket = *first;
  waits.erase(first);
  ticket->missing_ = 0;
  ready.Add(ticket);
}

void AccessTicket::NoteDestroyed(ResourceStore& store, Resource& resource) {
  ReadyTickets ready;
  {
    absl::MutexLock lock(&store.line_mutex_);
    for (AccessTicket* ticket : resource.state_waits_) {
      ticket->missing_ = 0;
      ready.Add(ticket);
    }
    resource.state_waits_.clear();
    NoteReady(store, ready);
  }
  Wake(ready);
}

void AccessTicket::ForgoState() {
  Abandon();
  const std::shared_ptr<Resource> resource = std::exchange(state_wait_, nullptr)->resource;
  ReadyTickets ready;
  {
    absl::MutexLock lock(&store_.line_mutex_);
    // Else the writer in line does so, when it leaves.
    if (resource->line_.empty()) WakeFirst(*resource, ready);
    NoteReady(store_, ready);
  }
  Wake(ready);
}

}  // namespace formwork
