// What GroupCommit's thread does: a group becomes entries of the log on disk.

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/time/clock.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "core/engine/group_commit.h"
#include "core/engine/snapshot.h"

namespace formwork {
namespace {

// After a write that has failed, until it is tried again.
constexpr absl::Duration kRetry = absl::Milliseconds(200);
// So many logged bytes, or times all that is stored, are worth a snapshot, which makes them
// unnecessary.
constexpr uint64_t kLarge = uint64_t{256} << 20;
constexpr uint64_t kLargeTimes = 4;

}  // namespace

LoggedValue ToLogged(LoggedAnswer answer, uint64_t position) {
  LoggedValue value;
  value.key = {StoredKey::Of::kLoggedAnswer, 0, position};
  value.logged.set_position(position);
  value.logged.set_answer(true);
  value.parts.push_back(Tensor::StringScalar(answer.message.SerializeAsString()));
  for (Tensor& part : answer.parts) value.parts.push_back(std::move(part));
  return value;
}

LoggedValue ToLogged(const AnsweredClient& client) {
  LoggedValue value;
  value.key = {StoredKey::Of::kLoggedClient, client.number, 0};
  state::Client* to = value.logged.mutable_client();
  to->set_number(client.number);
  to->set_namespace_(client.name_space);
  to->set_id(client.id);
  to->set_acknowledged(client.acknowledged);
  for (const SequenceRanges::Range& range : client.gone) {
    state::Client::Range* gone = to->add_gone();
    gone->set_first(range.first);
    gone->set_last(range.last);
  }
  to->set_begins_micros(absl::ToUnixMicros(client.begins));
  return value;
}

void GroupCommit::PutBack(Group group) {
  for (auto& [id, rows] : group.rows) {
    if (pending_.resources.contains(id)) continue;
    std::vector<Group::Commit>& later = pending_.rows[id];
    rows.insert(rows.end(), std::make_move_iterator(later.begin()),
                std::make_move_iterator(later.end()));
    later = std::move(rows);
  }
  for (auto& [id, commit] : group.resources) {
    pending_.resources.try_emplace(id, std::move(commit));
  }
  for (auto& [id, function] : group.functions) {
    pending_.functions.try_emplace(id, std::move(function));
  }
  pending_.answers.merge(group.answers);
  pending_.dropped.insert(group.dropped.begin(), group.dropped.end());
  for (auto& [number, client] : group.clients) {
    pending_.clients.try_emplace(number, std::move(client));
  }
  pending_.more = std::max(pending_.more, group.more);
  pending_.last = std::max(pending_.last, group.last);
  pending_.records += group.records;
}

void GroupCommit::Loop() {
  while (true) {
    Group group;
    {
      absl::MutexLock lock(&mutex_);
      const auto due = [this] {
        mutex_.AssertHeld();
        return stopped_ || pending_.last != 0;
      };
      mutex_.Await(absl::Condition(&due));
      if (stopped_) return;
    }
    {
      absl::WriterMutexLock whole(&units_);
      absl::MutexLock lock(&mutex_);
      group = std::exchange(pending_, {});
    }
    const absl::Time began = absl::Now();
    absl::StatusOr<uint64_t> written = CatchOutOfMemory([&] {
      absl::MutexLock lock(&writing_);
      return Write(group);
    });
    const uint64_t last = group.last;
    absl::Status status = written.status();
    if (!status.ok()) {
      status = Annotate(status, "what was changed could not be made durable");
    }
    {
      absl::MutexLock lock(&mutex_);
      failed_ = status;
      fails_.store(!status.ok(), std::memory_order_relaxed);
      if (status.ok()) {
        durable_.store(last, std::memory_order_release);
        const absl::Duration took = absl::Now() - began;
        ++stats_.groups;
        stats_.records += group.records;
        stats_.bytes += *written;
        stats_.seconds += absl::ToDoubleSeconds(took);
        size_t bucket = 0;
        while (bucket < CommitStats::kBounds.size() &&
               absl::ToDoubleSeconds(took) > CommitStats::kBounds[bucket]) {
          ++bucket;
        }
        ++stats_.buckets[bucket];
      } else {
        ++stats_.failures;
        PutBack(std::move(group));
      }
    }
    group = {};  // Values may be changed in place again.
    Tell(last, status);
    if (status.ok()) continue;
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&stopped_), kRetry);
  }
}

absl::StatusOr<std::optional<LoggedValue>> GroupCommit::ChangesOfLogged(
    uint64_t id, const Group::Commit& commit) {
  const ResourceCommit& state = commit.state;
  const auto before = logged_values_.find(id);
  if (before == logged_values_.end() || state.removed || !state.value.has_value()) {
    return std::nullopt;
  }
  FORMWORK_ASSIGN_OR_RETURN(std::vector<Tensor> changes,
                            changes_of_(*state.resource, before->second, state.value));
  if (changes.empty()) return std::nullopt;
  LoggedValue value;
  value.key = {StoredKey::Of::kLoggedRows, id, commit.position};
  value.logged.set_position(commit.position);
  value.logged.mutable_resource()->set_id(id);
  value.logged.mutable_resource()->set_version(state.version);
  value.parts = std::move(changes);
  return value;
}

void GroupCommit::NoteStored(uint64_t id, Tensor value) {
  absl::MutexLock lock(&writing_);
  logged_values_.insert_or_assign(id, std::move(value));
}

absl::StatusOr<uint64_t> GroupCommit::Write(const Group& group) {
  std::vector<LoggedValue> values;
  std::vector<StoredKey> removed;
  const auto add = [&](StoredKey::Of of, uint64_t id, uint64_t position) -> LoggedValue& {
    writing_.AssertHeld();
    LoggedValue& value = values.emplace_back();
    value.key = {of, id, position};
    value.logged.set_position(position);
    const auto there = logged_.find({of, id});
    if (there != logged_.end() && there->second != value.key) removed.push_back(there->second);
    return value;
  };
  uint64_t more = group.more;
  HashMap<uint64_t, Tensor> now;  // Of those that are logged by what changes, from now on.
  HashSet<uint64_t> by_changes;
  for (const auto& [id, commit] : group.resources) {
    const ResourceCommit& state = commit.state;
    FORMWORK_ASSIGN_OR_RETURN(std::optional<LoggedValue> changes, ChangesOfLogged(id, commit));
    if (changes) {
      values.push_back(*std::move(changes));
      by_changes.insert(id);
      now[id] = state.value;
      continue;
    }
    LoggedValue& value = add(StoredKey::Of::kLoggedResource, id, commit.position);
    state::Resource* to = value.logged.mutable_resource();
    to->set_id(id);
    value.logged.set_removed(state.removed);
    const auto rows = logged_rows_.find(id);
    if (rows != logged_rows_.end()) {
      removed.insert(removed.end(), rows->second.begin(), rows->second.end());
    }
    if (state.removed) continue;
    ToMessage(*state.resource, state.version, to);
    if (!state.value.has_value()) continue;
    absl::StatusOr<std::vector<Tensor>> parts =
        commit.parts ? *commit.parts : parts_of_(*state.resource, state.value);
    if (absl::IsUnimplemented(parts.status())) {
      more = std::max(more, commit.position);
      continue;
    }
    FORMWORK_RETURN_IF_ERROR(Annotate(parts.status(), Described(*state.resource)));
    value.parts = *std::move(parts);
    to->set_initialized(true);
    if (!state.resource->type.is_variable()) now[id] = state.value;
  }
  for (const auto& [id, commits] : group.rows) {
    for (const Group::Commit& commit : commits) {
      LoggedValue& value = values.emplace_back();
      value.key = {StoredKey::Of::kLoggedRows, id, commit.position};
      value.logged.set_position(commit.position);
      value.logged.mutable_resource()->set_id(id);
      value.logged.mutable_resource()->set_version(commit.state.version);
      value.parts = {commit.state.rows, commit.state.value};
    }
  }
  for (const auto& [id, function] : group.functions) {
    LoggedValue& value = add(StoredKey::Of::kLoggedFunction, id, function.position);
    value.logged.set_removed(function.removed);
    *value.logged.mutable_function() = function.state;
  }
  for (const auto& [position, answer] : group.answers) {
    if (!group.dropped.contains(position)) values.push_back(ToLogged(answer, position));
  }
  for (const uint64_t position : group.dropped) {
    if (group.answers.count(position) == 0) {
      removed.push_back({StoredKey::Of::kLoggedAnswer, 0, position});
    }
  }
  for (const auto& [number, client] : group.clients) {
    if (client) {
      values.push_back(ToLogged(*client));
    } else {
      removed.push_back({StoredKey::Of::kLoggedClient, number, 0});
    }
  }
  if (more != 0) add(StoredKey::Of::kLoggedMore, 0, more).logged.set_more(true);
  FORMWORK_ASSIGN_OR_RETURN(const uint64_t bytes, store_.Log(values, removed));
  for (const auto& [id, commit] : group.resources) {
    logged_values_.erase(id);
    if (!by_changes.contains(id)) logged_rows_.erase(id);
  }
  logged_values_.merge(now);
  for (const LoggedValue& value : values) {
    if (value.key.of == StoredKey::Of::kLoggedAnswer ||
        value.key.of == StoredKey::Of::kLoggedClient) {
      continue;  // The window's, and no snapshot's.
    }
    if (value.key.of == StoredKey::Of::kLoggedRows) {
      logged_rows_[value.key.id].push_back(value.key);
    } else {
      logged_[{value.key.of, value.key.id}] = value.key;
    }
  }
  log_bytes_ += bytes;
  if (!is_large_ && log_bytes_ > std::max(kLarge, kLargeTimes * store_.stored_bytes())) {
    is_large_ = true;
    on_large_();
  }
  return bytes;
}

absl::Status GroupCommit::Store(absl::Span<const LoggedValue> values) {
  absl::MutexLock lock(&writing_);
  return store_.Log(values, {}).status();
}

absl::Status GroupCommit::Truncate(uint64_t position) {
  absl::MutexLock lock(&writing_);
  std::vector<StoredKey> removed;
  for (const auto& [of, key] : logged_) {
    // What it says is true until this life ends.
    if (key.of != StoredKey::Of::kLoggedMore && key.version <= position) removed.push_back(key);
  }
  std::map<uint64_t, std::vector<StoredKey>> left;
  for (const auto& [id, keys] : logged_rows_) {
    for (const StoredKey& key : keys) {
      if (key.version <= position) {
        removed.push_back(key);
      } else {
        left[id].push_back(key);
      }
    }
  }
  if (removed.empty()) return absl::OkStatus();
  FORMWORK_RETURN_IF_ERROR(store_.Log({}, removed).status());
  for (const StoredKey& key : removed) logged_.erase({key.of, key.id});
  logged_rows_ = std::move(left);
  log_bytes_ = 0;
  is_large_ = false;
  return absl::OkStatus();
}

}  // namespace formwork
