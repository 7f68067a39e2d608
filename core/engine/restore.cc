// What an engine starts from.

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "core/engine/answers.h"
#include "core/engine/engine_impl.h"
#include "core/engine/snapshot.h"
#include "core/function/type_messages.h"
#include "core/kernels/resource/stored_form.h"

namespace formwork {

struct Snapshots::Start {
  struct Value {
    state::Resource resource;
    StoredKey key;                // Where it is.
    std::vector<StoredKey> rows;  // That have changed since, in their order.
  };
  int64_t unix_micros = 0;
  std::map<uint64_t, Value> resources;
  std::map<uint64_t, state::Function> functions;
  std::set<StoredKey> named;          // All that the snapshot and the log have values for.
  std::vector<StoredKey> logged;      // What is in the log after the snapshot.
  uint64_t log_position = 0;          // Its last.
  std::vector<StoredKey> more;        // state::Logged::more of the life before.
  std::vector<StoredKey> answers;     // In their order.
  std::vector<StoredKey> answers_of;  // Whose they are: clients.
  std::vector<AnsweredClient> clients;
};

absl::Status Snapshots::ReadStart(Start* start) {
  FORMWORK_ASSIGN_OR_RETURN(std::optional<state::Snapshot> snapshot, store_->ReadSnapshot());
  if (!snapshot) snapshot.emplace();
  start->unix_micros = snapshot->unix_micros();
  for (state::Resource& resource : *snapshot->mutable_resources()) {
    const StoredKey key{StoredKey::Of::kResource, resource.id(), resource.version()};
    if (resource.initialized()) start->named.insert(key);
    start->resources[key.id] = {std::move(resource), key, {}};
  }
  for (state::Function& function : *snapshot->mutable_functions()) {
    const uint64_t id = function.id();
    start->functions[id] = std::move(function);
  }
  start->log_position = snapshot->log_position();
  std::vector<std::pair<StoredKey, uint64_t>> rows;  // With the versions that they make.
  FORMWORK_ASSIGN_OR_RETURN(const std::optional<state::Life> previous, store_->ReadLife());
  if (previous) {
    const uint64_t of_snapshot =
        previous->snapshot_epoch() == 0 ? previous->epoch() : previous->snapshot_epoch();
    goes_on_ = {false, of_snapshot == life_.snapshot_epoch(), previous->epoch() == life_.epoch()};
  }
  // Else clients are told so by the epoch.
  const bool goes_on = GoesOn(Durability::kSnapshot) || GoesOn(Durability::kSync);
  const bool answers = goes_on && previous->answers_logged();
  // Nothing of this epoch has been done yet.
  if (!goes_on) engine_.answers_.Restore(absl::InfinitePast());
  FORMWORK_RETURN_IF_ERROR(store_->VisitLog([&](const StoredKey& key, const state::Logged& logged) {
    if (logged.answer() || logged.has_client()) {
      if (!answers) return;
      start->named.insert(key);
      start->log_position = std::max(start->log_position, logged.position());
      if (logged.answer()) {
        start->answers.push_back(key);
      } else {
        start->answers_of.push_back(key);
        start->clients.push_back(FromStored(logged.client()));
      }
      return;
    }
    if (logged.more()) {
      start->more.push_back(key);
      start->named.insert(key);
    }
    if (logged.more() || logged.position() <= snapshot->log_position()) return;
    start->log_position = std::max(start->log_position, logged.position());
    start->logged.push_back(key);
    start->named.insert(key);
    const uint64_t id = key.id;
    if (key.of == StoredKey::Of::kLoggedRows) {
      rows.emplace_back(key, logged.resource().version());
    } else if (logged.removed()) {
      if (logged.has_resource()) start->resources.erase(id);
      if (logged.has_function()) start->functions.erase(id);
    } else if (logged.has_resource()) {
      start->resources.insert_or_assign(id, Start::Value{logged.resource(), key, {}});
    } else if (logged.has_function()) {
      start->functions.insert_or_assign(id, logged.function());
    }
  }));
  std::sort(start->answers.begin(), start->answers.end());
  std::sort(rows.begin(), rows.end());
  for (const auto& [key, version] : rows) {
    const auto of = start->resources.find(key.id);
    if (of == start->resources.end()) continue;
    of->second.rows.push_back(key);
    // A snapshot may be of later than they.
    if (version > of->second.resource.version()) of->second.resource.set_version(version);
  }
  for (const auto& [id, function] : start->functions) {
    start->named.insert({StoredKey::Of::kRegistration, function.registration(), 0});
  }
  return absl::OkStatus();
}

absl::Status Snapshots::Restore() {
  absl::MutexLock lock(&taking_);
  Start start;
  FORMWORK_RETURN_IF_ERROR(ReadStart(&start));
  FORMWORK_ASSIGN_OR_RETURN(const std::optional<state::Namespaces> namespaces,
                            store_->ReadNamespaces());
  for (int i = 0; namespaces && i < namespaces->namespaces_size(); ++i) {
    const state::Namespaces::Namespace& one = namespaces->namespaces(i);
    const std::optional<Durability> durability = FromStored(one.durability());
    if (!durability) {
      return FailedPrecondition("data directory: the durability of namespace '", one.name(),
                                "' is none that is known: ", static_cast<int>(one.durability()));
    }
    FORMWORK_RETURN_IF_ERROR(engine_.usages_.SetDurability(one.name(), *durability));
  }
  const NamespaceUsages::Durabilities stored = engine_.usages_.durabilities();
  GroupCommit::Options options{.store = *store_};
  options.parts_of = [this](const Resource& resource, const Tensor& value) {
    return PartsOf(resource, value);
  };
  options.changes_of = [this](const Resource& resource, const Tensor& before, const Tensor& after) {
    return ChangesOf(resource, before, after);
  };
  options.most_bytes = engine_.options_.max_commit_bytes;
  options.on_large = [this] {
    absl::MutexLock due_lock(&mutex_);
    due_ = true;
  };
  HashSet<uint64_t> known;
  for (const auto& [id, function] : start.functions) known.insert(id);
  std::vector<StoredKey> logged = start.logged;
  logged.insert(logged.end(), start.answers_of.begin(), start.answers_of.end());
  commits_ = std::make_unique<GroupCommit>(std::move(options), start.log_position, logged,
                                           std::move(known));
  engine_.resources_.set_log(commits_.get());
  for (const auto& [id, value] : start.resources) {
    KeepStored(value.resource.namespace_());
    FORMWORK_RETURN_IF_ERROR(CatchOutOfMemory(
        [&, &at = value] { return RestoreResource(at.resource, at.key, at.rows); }));
  }
  uint64_t last_registration = 0;
  auto versions = std::make_shared<Versions>();
  for (const StoredKey& key : start.named) {
    if (key.of == StoredKey::Of::kResource) versions->emplace(key.id, key.version);
    if (key.of == StoredKey::Of::kRegistration) {
      last_registration = std::max(last_registration, key.id);
    }
  }
  next_registration_ = last_registration + 1;
  FORMWORK_RETURN_IF_ERROR(
      store_->RemoveAllBut([&](const StoredKey& key) { return start.named.contains(key); }));
  int64_t functions = 0;
  for (const auto& [id, function] : start.functions) {
    const absl::Status restored =
        CatchOutOfMemory([&, &from = function] { return RestoreFunction(from); });
    if (absl::IsDataLoss(restored) || absl::IsUnavailable(restored)) return restored;
    functions += restored.ok();
  }
  for (const auto& [id, value] : start.resources) Revive(value.resource);
  std::vector<StoredKey> old = std::move(start.more);
  FORMWORK_RETURN_IF_ERROR(RestoreAnswers(start, &old));
  if (engine_.usages_.durabilities() != stored) FORMWORK_RETURN_IF_ERROR(StoreDurabilities());
  FORMWORK_RETURN_IF_ERROR(store_->Commit(&life_, nullptr));
  if (!old.empty()) FORMWORK_RETURN_IF_ERROR(store_->Log({}, old).status());
  engine_.functions_.set_on_change([this](const ConcreteFunction& function, bool there) {
    if (engine_.DurabilityOf(function.name_space) != Durability::kSync) return;
    if (!there) {
      commits_->AppendNoFunction(function.id);
    } else if (const auto state = StateOf(static_cast<const EngineFunction&>(function))) {
      commits_->AppendFunction(*state);
    }
  });
  engine_.commits_ = commits_.get();
  engine_.answers_.set_log(commits_.get());
  {
    absl::MutexLock stats_lock(&mutex_);
    versions_ = std::move(versions);
    stats_.last.taken = absl::FromUnixMicros(start.unix_micros);
    stats_.last.resources = static_cast<int64_t>(start.resources.size());
    stats_.last.functions = functions;
  }
  thread_ = std::thread([this] { Loop(); });
  return absl::OkStatus();
}

void Snapshots::KeepStored(absl::string_view name_space) {
  if (engine_.DurabilityOf(name_space) != Durability::kMemory) return;
  // Nothing of it is restored yet.
  engine_.usages_.SetDurability(name_space, Durability::kSnapshot).IgnoreError();
}

absl::Status Snapshots::RestoreAnswers(const Start& start, std::vector<StoredKey>* old) {
  for (const AnsweredClient& client : start.clients) {
    if (client.number == 0) engine_.answers_.Restore(client.begins);
  }
  // After a crash all that is stored is of the log: what its namespaces were when it was done was
  // kSync, whatever they are since they were removed.
  const bool crashed = !GoesOn(Durability::kSnapshot);
  const auto durability_of = [&](absl::string_view name_space) {
    return crashed ? Durability::kSync : engine_.DurabilityOf(name_space);
  };
  for (size_t i = 0; i < start.clients.size(); ++i) {
    const AnsweredClient& client = start.clients[i];
    if (client.number == 0) continue;
    const Durability durability = durability_of(client.name_space);
    if (GoesOn(durability)) engine_.answers_.Restore(client);
    // They are stored again at the end of this life.
    if (durability != Durability::kSync) old->push_back(start.answers_of[i]);
  }
  for (const StoredKey& key : start.answers) {
    FORMWORK_RETURN_IF_ERROR(CatchOutOfMemory([&]() -> absl::Status {
      FORMWORK_ASSIGN_OR_RETURN(std::vector<Tensor> parts, store_->Get(key, engine_.allocator_));
      state::Answer message;
      FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<const AnswerWindow::Answer> answer,
                                FromStored(engine_, std::move(parts), &message));
      const Durability durability = durability_of(message.namespace_());
      const bool logged = durability == Durability::kSync && GoesOn(durability);
      if (!logged) old->push_back(key);
      if (!GoesOn(durability)) return absl::OkStatus();
      engine_.answers_.Restore(message.namespace_(), message.client(), message.sequence(),
                               message.content(), std::move(answer), logged ? key.version : 0);
      return absl::OkStatus();
    }));
  }
  return absl::OkStatus();
}

// Makes of a value, which is nobody else's, what it is once those rows of it have changed.
absl::Status Snapshots::RestoreRows(const StoredKey& key, Tensor* value) {
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<Tensor> parts, store_->Get(key, engine_.allocator_));
  const auto fits = [&] {
    if (parts.size() != 2 || parts[0].dtype() != DType::kInt64 || parts[0].rank() != 1)
      return false;
    const Tensor& rows = parts[1];
    return IsPlainData(rows.dtype()) && rows.dtype() == value->dtype() && rows.rank() > 0 &&
           rows.rank() == value->rank() && rows.dim(0) == parts[0].dim(0) &&
           std::equal(rows.shape().dims().begin() + 1, rows.shape().dims().end(),
                      value->shape().dims().begin() + 1);
  };
  const auto damaged = [&] {
    return absl::DataLossError(
        absl::StrCat("data directory: logged rows do not fit what they are "
                     "of: resource id=",
                     key.id, " position=", key.version));
  };
  if (!fits()) return damaged();
  if (value->dim(0) == 0) return parts[0].dim(0) == 0 ? absl::OkStatus() : damaged();
  const size_t bytes = value->bytes() / static_cast<size_t>(value->dim(0));
  const char* from = static_cast<const char*>(parts[1].raw());
  for (const int64_t row : parts[0].span<int64_t>()) {
    if (row < 0 || row >= value->dim(0)) return damaged();
    std::memcpy(static_cast<char*>(value->mutable_raw()) + static_cast<size_t>(row) * bytes, from,
                bytes);
    from += bytes;
  }
  return absl::OkStatus();
}

absl::Status Snapshots::RestoreResource(const state::Resource& from, const StoredKey& at,
                                        const std::vector<StoredKey>& rows) {
  const StoredForm* form = FindStoredForm(from.kind());
  if (form == nullptr || from.parts_size() == 0) {
    return FailedPrecondition("data directory: resource '", from.name(),
                              "' is of a kind that is not known: ", from.kind());
  }
  const auto damaged = [&](absl::string_view what) {
    return absl::DataLossError(
        absl::StrCat("data directory: ", form->kind.name, " '", from.name(), "' ", what));
  };
  ResourceType type{&form->kind, {}};
  for (const state::Resource::Part& part : from.parts()) {
    absl::StatusOr<PartialShape> shape = ShapeFrom(part.shape());
    const auto dtype = static_cast<DType>(part.dtype());
    if (!shape.ok() || !IsKnown(dtype)) return damaged("is of no dtype and shape that there are");
    type.parts.push_back({dtype, *std::move(shape)});
  }
  if (form->type_parts != 0 && type.parts.size() != form->type_parts) {
    return damaged("is of no type that there is");
  }
  ResourceValue value;
  if (from.initialized()) {
    const auto name = [&](const absl::Status& status) {
      return Annotate(status, absl::StrCat(form->kind.name, " '", from.name(), "'"));
    };
    absl::StatusOr<std::vector<Tensor>> parts = store_->Get(at, engine_.allocator_);
    if (!parts.ok()) return name(parts.status());
    const bool has_changes = form->with_changes != nullptr;
    for (const StoredKey& key : rows) {
      if (parts->empty() || has_changes) break;
      FORMWORK_RETURN_IF_ERROR(name(RestoreRows(key, &(*parts)[0])));
    }
    absl::StatusOr<ResourceValue> made = form->value(type, *parts);
    for (const StoredKey& key : rows) {
      if (!has_changes || !made.ok()) break;
      const absl::StatusOr<std::vector<Tensor>> changes = store_->Get(key, engine_.allocator_);
      if (!changes.ok()) return name(changes.status());
      made = form->with_changes(type, made->value, *changes);
    }
    if (absl::IsInvalidArgument(made.status())) {
      return damaged(absl::StrCat("has a value that is none: ", made.status().message()));
    }
    if (!made.ok()) return name(made.status());
    value = *std::move(made);
    if (has_changes) commits_->NoteStored(from.id(), value.value);
    if (type.is_variable()) {
      absl::StatusOr<Tensor> placed = engine_.PlaceValue(std::move(value.value));
      if (!placed.ok()) return name(placed.status());
      value.value = *std::move(placed);
    }
  }
  engine_.resources_.Restore(from.id(), from.namespace_(), from.name(), std::move(type),
                             from.version(), std::move(value.value), value.bytes);
  return absl::OkStatus();
}

}  // namespace formwork
