#pragma once

// AccessTicket: a call's place in line at every resource that it touches.
//
// All places are taken at once under one lock: that instant is the call's position in time.
// Conflicting calls follow that order, others run side by side. A resource that a call only reads
// is pinned as soon as every writer before it has released it, and never makes a later writer wait.
// A call whose places are all granted never waits for a ticket again, so lines cannot deadlock; one
// that waits for a resource's state (AwaitState) has no place meanwhile.
//
// access_ticket.cc has the lines, ticket_values.cc what is done to values, ticket_waits.cc waiting
// for a state, ticket_streams.cc what all that means on a device.

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "core/base/hash_map.h"
#include "core/device/buffer.h"
#include "core/device/stream_group.h"
#include "core/resource/changed_rows.h"
#include "core/resource/resource_access.h"
#include "core/resource/resource_store.h"

namespace formwork {

struct AccessRequest {
  std::shared_ptr<Resource> resource;
  Access mode = Access::kRead;
};

/// A resource whose line a ticket has to wait in, and who is at its head.
struct HeldPlace {
  std::shared_ptr<Resource> resource;
  uint64_t writer = 0;  ///< As AccessTicket::set_writer says it; 0: not said.
};

/// What a call has made of a resource.
struct ResourceChange {
  uint64_t id = 0;
  uint64_t from_version = 0, to_version = 0;
  /// Whether `rows` alone, indices along the first dimension, ascending, have changed since
  /// `from_version`; else any may have.
  bool by_rows = false;
  std::vector<int64_t> rows;
};

/// Made for one call. Take, ReleaseAll and the ResourceAccess methods are for the call's own thread
/// (one at a time; of its lanes, which run side by side, each may read); Abandon may come from any.
/// Outlives its places: the destructor releases.
class AccessTicket final : public ResourceAccess {
 public:
  /// `allocator`: of copies, where a value that is to be changed in place is held by others.
  AccessTicket(ResourceStore& store, Allocator& allocator) : store_(store), allocator_(allocator) {}
  ~AccessTicket() override;
  AccessTicket(const AccessTicket&) = delete;
  AccessTicket& operator=(const AccessTicket&) = delete;

  /// Takes a place at each resource (named twice: once, with the stronger mode); fastest where
  /// `requests` come by ascending ID. True where all are granted; else `on_ready` runs once, on the
  /// thread of whoever releases the last of them, outside the lock; it does not throw. Who takes
  /// bounds the lines. Where there is no memory for a place it throws, and has taken none. May be
  /// called again once all has been released.
  /// `held`: where it is to say what it waits for; may be null.
  bool Take(std::vector<AccessRequest> requests, absl::AnyInvocable<void()> on_ready,
            std::vector<HeldPlace>* held = nullptr);
  /// Whether it waits for a state, or for its places behind that.
  bool awaits_state() const { return state_wait_ != nullptr; }
  /// The resource is destroyed: who waits for a state of it goes on.
  static void NoteDestroyed(ResourceStore& store, Resource& resource);
  /// Leaves the lines of a ticket that is not ready yet. True where it did: `on_ready` will not
  /// run.
  bool Abandon();
  /// Who writes by this ticket, as Resource::last_writer and HeldPlace say it: before Take.
  void set_writer(uint64_t writer) { writer_ = writer; }
  /// Whether the resource is among those that it has places at.
  bool Has(ResourceHandle handle) { return Find(handle) != nullptr; }
  /// What another ticket of the same call has read or written counts as this one's in log_position
  /// and has_logged.
  void NoteLogged(const AccessTicket& other) {
    log_position_ = std::max(log_position_, other.log_position_);
    has_logged_ = has_logged_ || other.has_logged_;
  }
  /// The version of the value that a granted reader has.
  uint64_t ReadVersion(ResourceHandle handle);
  /// All that has been written by this ticket and outlives the call, by ID; until ReleaseAll.
  std::vector<ResourceChange> Changes() const;

  /// Who owns this ticket, so that it can wait for a state; before the first access.
  void set_owner(std::weak_ptr<void> owner) { owner_ = std::move(owner); }

  /// Nothing is given back before ReleaseAll: before the first access.
  void HoldAll() { holds_all_ = true; }
  /// What it writes can be taken back until ReleaseAll, and is held until then: before the first
  /// access. Elements that are changed in place are changed in a copy the first time. Not of what
  /// has no value that can be kept, such as an iterator's.
  void SetAtomic() { holds_all_ = atomic_ = true; }
  /// Of an atomic one: every resource is again what it was before, as if it had not been written.
  /// Where there are streams, all that is enqueued has run.
  void RollBack();
  /// What goes to the store's log, which there has to be, with what it has written and not given
  /// back yet: before ReleaseAll. At its position, which is log_position() then.
  void Attach(std::unique_ptr<CommitAttachment> attachment) { attachment_ = std::move(attachment); }

  /// Nothing of what it has written goes to the store's log: the streams that were to make it have
  /// failed, and who reads it gets their error. Before ReleaseAll.
  void ForgoLog() {
    committed_ = true;
    attachment_ = nullptr;
  }

  /// The last position in the store's log of what this ticket has written or read, as far as it
  /// has given it back; 0: none. Whoever tells of it waits until that is durable.
  uint64_t log_position() const { return log_position_; }
  bool has_logged() const { return has_logged_; }  ///< Something that it has written.

  /// Says, before the first access, that the call's work is enqueued on `streams`, of the device
  /// whose memory that is. Then giving back a place means that what is done to the resource is
  /// enqueued: whoever comes next waits, on his own stream, for the events of that. Both outlive
  /// the ticket's places.
  void set_streams(Allocator& memory, StreamGroup& streams) {
    memory_ = &memory;
    streams_ = &streams;
    uses_.resize(entries_.size());
  }
  /// As Read, of a variable that work enqueued on the current stream from now on reads.
  absl::StatusOr<Tensor> ReadEnqueued(ResourceHandle handle);
  /// Work that is enqueued on the current stream now reads the device's memory `block`. True where
  /// that is of a variable that has been read: it is given back behind that work then.
  bool NoteRead(const BufferBlock* block);
  /// `block`, which may have been a variable's, is the call's own from now on.
  void Forget(const BufferBlock* block) { variables_.erase(block); }
  struct EnqueuedWrite {
    Tensor before;  ///< On a device or on the host; without value where there was none.
    Tensor after;   ///< On the device; the same buffer where the change is made in place.
  };
  /// Gives the variable a value, of that dtype and shape, that work enqueued on stream 0, which is
  /// the current one, from now on makes: that work writes all of `after`. It is the memory of the
  /// value before, where nobody else holds that and it is as large, and is written after all
  /// earlier reads.
  /// Errors: as Assign; kResourceExhausted, kUnavailable of the device.
  absl::StatusOr<EnqueuedWrite> WriteEnqueued(ResourceHandle handle, DType dtype,
                                              const Shape& shape);

  /// Makes `value`, on the device, the variable's value: enqueued work has made it, or will.
  /// Errors: as Assign.
  absl::Status AssignEnqueued(ResourceHandle handle, Tensor value);
  /// What work that is enqueued does with a variable.
  struct EnqueuedAccess {
    ResourceHandle handle;
    const void* data;  ///< Where its value is; null: it cannot be repeated.
    DType dtype;
    Shape shape;
    bool writes;  ///< In place.
  };
  /// Tells from now on what is enqueued, to be repeated by another call; null: no more. Of work on
  /// one stream.
  void NoteAccesses(std::vector<EnqueuedAccess>* accesses) { accesses_ = accesses; }
  /// Whether values are where they were then, and those that are to be written are held by nobody
  /// else. It stays so for this ticket, before anything else is done by it.
  bool CanRepeat(absl::Span<const EnqueuedAccess> accesses);
  /// Before the work is enqueued again: waits on the stream for whom it has to, and says what it
  /// changes. Errors: as WriteEnqueued; kInternal if it could not be repeated.
  absl::Status Repeat(absl::Span<const EnqueuedAccess> accesses);

  /// Memory of the device that enqueued work uses, and that others may let go of: held until the
  /// call's work has run.
  void Hold(Tensor value) { retired_.push_back(std::move(value)); }

  /// Whether the variable could be assigned such a value: what Assign would refuse for that.
  absl::Status CheckAssign(ResourceHandle handle, DType dtype, const Shape& shape);

  /// Counts a variable as what it is to be assigned, so that Assign does not fail for that. Errors:
  /// kResourceExhausted if its namespace may not hold so much.
  absl::Status Reserve(ResourceHandle handle, size_t bytes);

  /// Gives back every place that it still has; readers and writers behind are granted.
  void ReleaseAll();

  /// Errors: kInvalidArgument naming the variable if the value's dtype or shape do not fit it.
  static absl::Status CheckFits(const Resource& variable, const Tensor& value);

  absl::StatusOr<Tensor> Read(ResourceHandle handle) override;
  absl::Status Assign(ResourceHandle handle, Tensor value) override;
  absl::Status Update(ResourceHandle handle, size_t bytes_moved,
                      absl::FunctionRef<absl::Status(Tensor& value)> update) override;
  absl::Status UpdateRows(ResourceHandle handle, const RowIndices& rows, size_t bytes_moved,
                          absl::FunctionRef<absl::Status(Tensor& value)> update) override;
  bool LeaveValue(ResourceHandle handle, const Tensor& value, size_t bytes_moved) override;
  void PutBack(ResourceHandle handle, Tensor value) override;
  absl::StatusOr<Tensor> ReadState(ResourceHandle handle) override;
  absl::Status WriteState(ResourceHandle handle, Tensor state, size_t bytes) override;
  absl::Status AwaitState(ResourceHandle handle,
                          absl::AnyInvocable<bool(const Tensor& state) const> goes_on,
                          std::shared_ptr<Awaited>& awaited) override;
  absl::Status ComeBack(std::shared_ptr<Awaited>& awaited) override;
  void Release(ResourceHandle handle) override;
  bool IsInitialized(ResourceHandle handle) override;
  absl::Status Destroy(ResourceHandle handle, bool ignore_missing) override;
  absl::StatusOr<const ResourceType*> TypeOf(ResourceHandle handle) override;
  ResourceHandle CreateForCall(const std::string& name, ResourceType type) override;

 private:
  struct Entry {
    explicit Entry(std::shared_ptr<Resource> of) : id(of->id), resource(std::move(of)) {}

    uint64_t id;  // The resource's, which is as a rule in no cache.
    std::shared_ptr<Resource> resource;
    bool write = false;
    bool in_line = false;  // Under the store's line lock.
    bool aliased = false;  // Asked for by more than one name.
    bool released = false;
    bool destroyed = false;
    // Of what was written; equal: nothing, and then, of a reader, what is pinned.
    uint64_t from_version = 0, to_version = 0;
    uint64_t log_position = 0;  // Of what is pinned.
    ChangedRows changed;
    // Of an atomic ticket, once it is written: what there was before.
    struct Before {
      Tensor value;
      size_t bytes = 0;
      uint64_t version = 0, last_writer = 0;
    };
    std::optional<Before> before;
    Tensor pinned;                   // Of a reader, once granted.
    std::shared_ptr<Event> defined;  // Of what is pinned.
  };

  // What a call's work does to a resource's value, by the streams' times; 0: nothing.
  struct Uses {
    uint64_t written = 0;         // On stream 0: the value is the call's own since then.
    StreamGroup::Times behind{};  // From when on each is behind what others have made it by.
    StreamGroup::Times read{};    // When each reads it last, as it is now.
    bool any_read() const { return read != StreamGroup::Times{}; }
  };
  // Of one point of each stream, where somebody needs it.
  using Events = std::array<EventRef, StreamGroup::kMost>;

  // Tickets that have become ready, in order: a list through themselves, because what passes a
  // place on must not need memory.
  struct ReadyTickets {
    AccessTicket* first = nullptr;
    AccessTicket* last = nullptr;
    void Add(AccessTicket* ticket) {
      (first == nullptr ? first : last->next_ready_) = ticket;
      last = ticket;
    }
  };

  // Grants a reader what is there. Under the line lock.
  static void Pin(Entry& entry);
  // The entry of a handle, or null. Here, because each access begins with it. As a rule functions
  // read their variables in the order in which these were made.
  Entry* Find(ResourceHandle handle) {
    const size_t next = next_.load(std::memory_order_relaxed);
    size_t found = next;
    if (next >= entries_.size() || entries_[next].id != handle.id) {
      const auto at =
          std::lower_bound(entries_.begin(), entries_.end(), handle.id,
                           [](const Entry& entry, uint64_t id) { return entry.id < id; });
      if (at == entries_.end() || at->id != handle.id) return nullptr;
      found = static_cast<size_t>(at - entries_.begin());
    }
    next_.store(found + 1, std::memory_order_relaxed);
    return &entries_[found];
  }
  absl::StatusOr<Entry*> Get(ResourceHandle handle);
  absl::StatusOr<Entry*> GetVariable(ResourceHandle handle);
  static absl::Status CheckWritten(const Entry& entry);
  static absl::Status Uninitialized(const Resource& variable);
  static absl::Status Destroyed(const Resource& resource);
  static const Tensor& ValueOf(const Entry& entry) {
    return entry.write ? entry.resource->value_ : entry.pinned;
  }
  Uses& UsesOf(const Entry& entry);
  bool IsBehindOthers(const Uses& uses, int stream) const;
  // Whether the end of what stream `k` does for it has to be known by an event of that.
  bool EndsOn(const Uses& uses, int k) const;
  // Adds those that the entry needs.
  void RecordEnds(const Entry& entry, Events& events);
  // Makes `after`, which work enqueued from now on writes, the value, behind all that has been
  // enqueued for the value before.
  void ReplaceEnqueued(Entry& entry, Tensor after);
  // Before the entry's resource is set, so that it can be taken back.
  void NoteBefore(Entry& entry);
  // Removes what an atomic call has destroyed.
  void RemoveDestroyed();
  void NoteAccess(ResourceHandle handle, const Tensor& value, bool writes);
  // To be called once the entry's resource has been set: all of it, or `rows`.
  void NoteWrite(Entry& entry, const RowIndices* rows = nullptr);
  // Update, of all rows where `rows` is null.
  absl::Status Change(ResourceHandle handle, const RowIndices* rows, size_t bytes_moved,
                      absl::FunctionRef<absl::Status(Tensor& value)> update);
  // Under the line lock: what has been enqueued for the resource is over once `events` happen.
  void Settle(Entry& entry, const Events& events);
  // Holds values that others may not have to wait for until the streams are done with them.
  void Retire();
  // Grants what may go at the head of a resource's line; tickets that have become ready are added.
  static void Advance(Resource& resource, ReadyTickets& ready);
  // Gives back a writer's place. Under the line lock.
  static void Leave(Entry& entry, ReadyTickets& ready);
  // Of those who wait for the resource's state, the first who may go on with it does. Under the
  // line lock, by who has the writer's place, or while nobody has.
  static void WakeFirst(Resource& resource, ReadyTickets& ready);
  // It does not come back: who waits behind it is looked at in its place.
  void ForgoState();
  // ReleaseAll, of one that may come back.
  void GiveBackAll();
  // Counts those that have become ready. Under the line lock.
  static void NoteReady(ResourceStore& store, const ReadyTickets& ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(store.line_mutex_);
  // What the entry's resource has become.
  ResourceCommit CommitOf(const Entry& entry);
  // Hands over what it has written, before any of that is given back.
  void Commit();
  // Release, of what is logged: what a call has written goes to the log at once, and so it is all
  // given back together, after the last access to any of it.
  void ReleaseLogged(Entry& entry);
  // Runs their callbacks. Outside the lock.
  static void Wake(const ReadyTickets& ready);

  ResourceStore& store_;
  Allocator& allocator_;
  uint64_t writer_ = 0;
  uint64_t log_position_ = 0;
  std::unique_ptr<CommitAttachment> attachment_;
  bool holds_all_ = false;
  bool atomic_ = false;
  bool committed_ = false;       // All that it writes.
  bool has_logged_ = false;      // Some of it.
  Allocator* memory_ = nullptr;  // Of the stream's device.
  StreamGroup* streams_ = nullptr;
  std::vector<Tensor> retired_;  // Held, replaced, or perhaps read by work that is enqueued.
  std::vector<Uses> uses_;       // Of the entries, where there are streams.
  HashMap<const BufferBlock*, uint32_t> variables_;  // Entries by the memory that has been read.
  std::vector<EnqueuedAccess>* accesses_ = nullptr;  // Who is told of them.
  std::vector<Entry> entries_;                       // By ID, ascending.
  std::atomic<size_t> next_{0};  // Behind the one that was found last: branches run side by side.
  int64_t missing_ = 0;          // Places not granted; under the line lock.
  bool waiting_ = false;         // Under the line lock.
  AccessTicket* next_ready_ = nullptr;
  absl::Time waits_since_;  // For places; InfiniteFuture: for a state. Under the line lock.
  absl::AnyInvocable<void()> on_ready_;

  struct StateWait {
    std::shared_ptr<Resource> resource;
    absl::AnyInvocable<bool(const Tensor& state) const> goes_on;
    std::vector<AccessRequest> requests;  // The places to take again.
    std::vector<Entry> kept;              // Of what needs no place: the call's own, or destroyed.
  };
  std::weak_ptr<void> owner_;
  std::unique_ptr<StateWait> state_wait_;  // From AwaitState until it has its places again.
  bool has_come_back_ = false;             // It has waited, and goes before who has not.
};

}  // namespace formwork
