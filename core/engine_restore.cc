// What an engine starts from.

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "core/engine_impl.h"
#include "core/engine_snapshot.h"
#include "core/function/type_messages.h"
#include "core/kernels/resource/stored_form.h"

namespace formwork {
namespace {

uint64_t NewEpoch() {
  std::random_device random;
  return (static_cast<uint64_t>(random()) << 32 | random()) | 1;
}

// Where all IDs of an epoch start: apart from those of others by the upper bits; within 53, which
// JSON's readers keep.
uint64_t FirstId(uint64_t epoch) { return ((epoch >> 32) & 0xfffff) << 32 | 1; }

}  // namespace

state::Life NextLife(const std::optional<state::Life>& previous) {
  state::Life life;
  if (previous) life = *previous;
  const bool goes_on = life.complete();
  life.set_complete(false);
  if (goes_on) return life;
  const auto& used = life.first_ids();
  do {
    life.set_epoch(NewEpoch());
  } while (std::find(used.begin(), used.end(), FirstId(life.epoch())) != used.end());
  const uint64_t first = FirstId(life.epoch());
  life.add_first_ids(first);
  life.set_next_resource_id(first);
  life.set_next_function_id(first);
  life.set_next_kept_tensor_id(first);
  return life;
}

absl::Status Snapshots::Restore() {
  FORMWORK_ASSIGN_OR_RETURN(std::optional<state::Snapshot> snapshot, store_->ReadSnapshot());
  if (!snapshot) snapshot.emplace();
  absl::MutexLock lock(&taking_);
  std::set<StoredKey> named;
  uint64_t last_registration = 0;
  for (const state::Resource& resource : snapshot->resources()) {
    FORMWORK_RETURN_IF_ERROR(CatchOutOfMemory([&] { return RestoreResource(resource); }));
    if (!resource.initialized()) continue;
    named.insert({StoredKey::Of::kResource, resource.id(), resource.version()});
    versions_.emplace(resource.id(), resource.version());
  }
  for (const state::Function& function : snapshot->functions()) {
    named.insert({StoredKey::Of::kRegistration, function.registration(), 0});
    last_registration = std::max(last_registration, function.registration());
  }
  next_registration_ = last_registration + 1;
  FORMWORK_RETURN_IF_ERROR(
      store_->RemoveAllBut([&](const StoredKey& key) { return named.contains(key); }));
  int64_t functions = 0;
  for (const state::Function& function : snapshot->functions()) {
    const absl::Status restored = CatchOutOfMemory([&] { return RestoreFunction(function); });
    if (absl::IsDataLoss(restored) || absl::IsUnavailable(restored)) return restored;
    functions += restored.ok();
  }
  FORMWORK_RETURN_IF_ERROR(store_->Commit(&life_, nullptr));
  {
    absl::MutexLock stats_lock(&mutex_);
    stats_.last.taken = absl::FromUnixMicros(snapshot->unix_micros());
    stats_.last.resources = snapshot->resources_size();
    stats_.last.functions = functions;
  }
  thread_ = std::thread([this] { Loop(); });
  return absl::OkStatus();
}

absl::Status Snapshots::RestoreResource(const state::Resource& from) {
  const StoredForm* form = FindStoredForm(from.kind());
  if (form == nullptr || from.parts_size() == 0) {
    return FailedPrecondition("data directory: resource '", from.name(),
                              "' is of a kind that is not known: ", from.kind());
  }
  ResourceType type{&form->kind, {}};
  for (const state::Resource::Part& part : from.parts()) {
    FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, ShapeFrom(part.shape()));
    type.parts.push_back({static_cast<DType>(part.dtype()), std::move(shape)});
  }
  ResourceValue value;
  if (from.initialized()) {
    const auto name = [&](const absl::Status& status) {
      return Annotate(status, absl::StrCat(form->kind.name, " '", from.name(), "'"));
    };
    const absl::StatusOr<std::vector<Tensor>> parts =
        store_->Get({StoredKey::Of::kResource, from.id(), from.version()}, engine_.allocator_);
    if (!parts.ok()) return name(parts.status());
    absl::StatusOr<ResourceValue> made = form->value(type, *parts);
    if (!made.ok()) return name(made.status());
    value = *std::move(made);
  }
  engine_.resources_.Restore(from.id(), from.namespace_(), from.name(), std::move(type),
                             from.version(), std::move(value.value), value.bytes);
  return absl::OkStatus();
}

absl::Status Snapshots::RestoreFunction(const state::Function& from) {
  FORMWORK_ASSIGN_OR_RETURN(
      std::vector<Tensor> values,
      store_->Get({StoredKey::Of::kRegistration, from.registration(), 0}, engine_.allocator_));
  state::Registration message;
  if (values.size() < 2 || !message.ParseFromString(values[0].scalar<std::string>())) {
    return absl::DataLossError(
        absl::StrCat("data directory: registration ", from.registration(), " is damaged"));
  }
  Registration registration;
  registration.name_space = message.namespace_();
  registration.name = message.name();
  registration.graph_def = std::move(values[1].mutable_data<std::string>()[0]);
  const auto register_again = [&]() -> absl::Status {
    for (const state::Registration::Spec& input : message.inputs()) {
      FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, ShapeFrom(input.shape()));
      registration.inputs.push_back(
          {input.name(), static_cast<DType>(input.dtype()), std::move(shape)});
    }
    registration.outputs.assign(message.outputs().begin(), message.outputs().end());
    registration.targets.assign(message.targets().begin(), message.targets().end());
    if (message.has_signature()) {
      FORMWORK_ASSIGN_OR_RETURN(registration.signature, FunctionTypeFrom(message.signature()));
    }
    registration.pretty_signature = message.pretty_signature();
    size_t next = 2;
    for (const state::Registration::Capture& capture : message.captures()) {
      Argument argument;
      if (capture.resource_id() != 0) {
        argument.kind = Argument::Kind::kResource;
        argument.id = capture.resource_id();
      } else if (next < values.size()) {
        argument.tensor = std::move(values[next++]);
      }
      registration.captures.emplace_back(capture.tensor(), std::move(argument));
    }
    const RestoredFunction restored{
        from.id(), std::make_shared<StoredRegistration>(from.registration(), unused_)};
    ErrorDetails details;
    return engine_.RegisterNow(registration, details, &restored).status();
  };
  const absl::Status registered = register_again();
  if (!registered.ok()) {
    if (engine_.options_.on_lost_function) {
      engine_.options_.on_lost_function(registration.name, registered);
    }
    return registered;
  }
  const FunctionPtr function = engine_.functions_.Find(registration.name_space, from.id());
  if (function == nullptr) return absl::OkStatus();  // It has had to make room for another.
  std::map<absl::string_view, const state::Function::State*> states;
  for (const state::Function::State& state : from.state()) states[state.node()] = &state;
  function->VisitState([&](absl::string_view node, absl::Span<std::atomic<uint64_t>> numbers) {
    const auto state = states.find(node);
    if (state == states.end()) return true;
    const int count = std::min(state->second->numbers_size(), static_cast<int>(numbers.size()));
    for (int i = 0; i < count; ++i) numbers[static_cast<size_t>(i)] = state->second->numbers(i);
    return true;
  });
  return absl::OkStatus();
}

}  // namespace formwork
