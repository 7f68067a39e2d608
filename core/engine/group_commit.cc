#include "core/engine/group_commit.h"

#include <algorithm>
#include <utility>

#include "absl/synchronization/notification.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "core/kernels/resource/stored_form.h"

namespace formwork {
namespace {

// Of what changes in place (an iterator): all of it is logged each time.
constexpr size_t kMostMovingBytes = size_t{1} << 20;

}  // namespace

AnsweredClient UnknownClient(absl::Time begins) {
  AnsweredClient unknown;
  unknown.begins = begins;
  return unknown;
}

GroupCommit::GroupCommit(Options options, uint64_t position, const std::vector<StoredKey>& logged,
                         HashSet<uint64_t> functions)
    : store_(options.store),
      parts_of_(std::move(options.parts_of)),
      changes_of_(std::move(options.changes_of)),
      most_bytes_(options.most_bytes),
      on_large_(std::move(options.on_large)),
      functions_(std::move(functions)),
      last_(position),
      durable_(position) {
  {
    absl::MutexLock lock(&writing_);
    absl::MutexLock known(&mutex_);
    for (const StoredKey& key : logged) {
      if (key.of == StoredKey::Of::kLoggedClient) {
        clients_.insert(key.id);
      } else if (key.of == StoredKey::Of::kLoggedRows) {
        logged_rows_[key.id].push_back(key);
      } else {
        logged_[{key.of, key.id}] = key;
      }
    }
  }
  thread_ = std::thread([this] { Loop(); });
}

GroupCommit::~GroupCommit() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  thread_.join();
  Tell(last(), absl::CancelledError("the engine ends"));
}

uint64_t GroupCommit::NextPosition() {
  const uint64_t position = last_.load(std::memory_order_relaxed) + 1;
  last_.store(position, std::memory_order_release);
  pending_.last = position;
  ++pending_.records;
  return position;
}

absl::StatusOr<std::vector<Tensor>> GroupCommit::PartsNow(const ResourceCommit& state) const {
  FORMWORK_ASSIGN_OR_RETURN(std::vector<Tensor> parts, parts_of_(*state.resource, state.value));
  size_t bytes = 0;
  for (const Tensor& part : parts) bytes += part.bytes();
  if (bytes <= kMostMovingBytes) return parts;
  return Unimplemented("it is too large to be logged each time that it moves on: bytes=", bytes);
}

uint64_t GroupCommit::Append(CommitRecord record) {
  const HeapScope unlimited(nullptr);
  // Nobody uses what the record is of before this returns.
  HashMap<uint64_t, absl::StatusOr<std::vector<Tensor>>> moving;
  for (ResourceCommit& state : record.resources) {
    const StoredForm* form = FindStoredForm(state.resource->type.kind->name);
    if (form == nullptr || !form->moves || !state.value.has_value() || state.removed) continue;
    moving.emplace(state.resource->id, PartsNow(state));
  }
  absl::MutexLock lock(&mutex_);
  const uint64_t position = NextPosition();
  for (ResourceCommit& state : record.resources) {
    // Its removal is here before anybody is told, or comes behind this.
    if (!state.removed && state.resource->destroyed()) continue;
    const uint64_t id = state.resource->id;
    if (state.rows.has_value()) {
      pending_.rows[id].push_back({position, std::move(state)});
    } else {
      pending_.rows.erase(id);
      Group::Commit commit{position, std::move(state)};
      if (const auto parts = moving.find(id); parts != moving.end()) {
        commit.parts = std::move(parts->second);
      }
      pending_.resources.insert_or_assign(id, std::move(commit));
    }
  }
  if (record.attachment != nullptr) {
    Add(position, std::move(static_cast<CallCommit&>(*record.attachment)));
  }
  return position;
}

void GroupCommit::Add(uint64_t position, CallCommit attached) {
  if (attached.function && functions_.contains(attached.function->id())) {
    const uint64_t id = attached.function->id();
    pending_.functions.insert_or_assign(id,
                                        Function{position, false, *std::move(attached.function)});
  }
  if (attached.answer) pending_.answers.emplace(position, *std::move(attached.answer));
}

void GroupCommit::DropAnswer(uint64_t position) {
  absl::MutexLock lock(&mutex_);
  if (pending_.answers.erase(position) == 0) pending_.dropped.insert(position);
}

void GroupCommit::NoteClient(AnsweredClient client) {
  absl::MutexLock lock(&mutex_);
  const uint64_t number = client.number;
  clients_.insert(number);
  pending_.clients.insert_or_assign(number, std::move(client));
}

void GroupCommit::DropClient(uint64_t number) {
  absl::MutexLock lock(&mutex_);
  if (clients_.erase(number) > 0) pending_.clients.insert_or_assign(number, std::nullopt);
}

void GroupCommit::NoteBegin(absl::Time begins) { NoteClient(UnknownClient(begins)); }

uint64_t GroupCommit::NextPosition(Function function) {
  function.position = NextPosition();
  const uint64_t id = function.state.id();
  return pending_.functions.insert_or_assign(id, std::move(function)).first->second.position;
}

uint64_t GroupCommit::AppendFunction(state::Function function) {
  const HeapScope unlimited(nullptr);
  absl::MutexLock lock(&mutex_);
  functions_.insert(function.id());
  Function there;
  there.state = std::move(function);
  return NextPosition(std::move(there));
}

uint64_t GroupCommit::AppendNoFunction(uint64_t id) {
  const HeapScope unlimited(nullptr);
  Function function;
  function.removed = true;
  function.state.set_id(id);
  absl::MutexLock lock(&mutex_);
  functions_.erase(id);
  return NextPosition(std::move(function));
}

uint64_t GroupCommit::AppendMore() {
  absl::MutexLock lock(&mutex_);
  if (std::exchange(more_, true)) return last();
  const uint64_t position = NextPosition();
  pending_.more = position;
  return position;
}

absl::Status GroupCommit::Admit(absl::Span<const AccessRequest> access) {
  uint64_t bytes = 0;
  bool writes = false;
  for (const AccessRequest& request : access) {
    if (request.mode != Access::kWrite) continue;
    writes = true;
    bytes += request.resource->bytes();
  }
  return writes ? Admit(bytes) : absl::OkStatus();
}

absl::Status GroupCommit::Admit(uint64_t bytes) {
  if (most_bytes_ != 0 && bytes > most_bytes_) {
    return ResourceExhausted("it may change more than one call may make durable: bytes=", bytes,
                             " limit=", most_bytes_);
  }
  if (fails_.load(std::memory_order_relaxed)) {
    absl::MutexLock lock(&mutex_);
    FORMWORK_RETURN_IF_ERROR(failed_);
  }
  return store_.CheckRoom(bytes);
}

void GroupCommit::WhenDurable(uint64_t position,
                              absl::AnyInvocable<void(const absl::Status&)> done) {
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    if (position > durable()) status = stopped_ ? absl::CancelledError("the engine ends") : failed_;
    if (position > durable() && status.ok()) {
      const HeapScope unlimited(nullptr);
      waiters_.emplace(position, std::move(done));
      return;
    }
  }
  done(status);
}

absl::Status GroupCommit::AwaitDurable(uint64_t position) {
  absl::Status status;
  absl::Notification told;
  WhenDurable(position, [&](const absl::Status& made) {
    status = made;
    told.Notify();
  });
  told.WaitForNotification();
  return status;
}

void GroupCommit::Fail(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    failed_ = status;
    fails_.store(true, std::memory_order_relaxed);
  }
  Tell(UINT64_MAX, status);
}

void GroupCommit::Tell(uint64_t position, const absl::Status& status) {
  std::vector<absl::AnyInvocable<void(const absl::Status&)>> told;
  {
    absl::MutexLock lock(&mutex_);
    const auto end = waiters_.upper_bound(position);
    for (auto waiter = waiters_.begin(); waiter != end; ++waiter) {
      told.push_back(std::move(waiter->second));
    }
    waiters_.erase(waiters_.begin(), end);
  }
  for (auto& done : told) done(status);
}

CommitStats GroupCommit::stats() const {
  absl::MutexLock lock(&mutex_);
  CommitStats stats = stats_;
  stats.waiting = waiters_.size();
  stats.log_bytes = log_bytes_;
  return stats;
}

}  // namespace formwork
