// What an engine starts from: functions, which are registered again, and what is made by running
// one.

#include <algorithm>
#include <map>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "core/engine/engine_impl.h"
#include "core/engine/snapshot.h"
#include "core/function/type_messages.h"
#include "core/kernels/resource/stored_form.h"

namespace formwork {

void Snapshots::Revive(const state::Resource& from) {
  constexpr absl::Duration kLongest = absl::Seconds(60);
  const StoredForm* form = FindStoredForm(from.kind());
  if (form == nullptr || form->revival == nullptr || !from.initialized()) return;
  const auto revive = [&]() -> absl::Status {
    const std::shared_ptr<Resource> resource = engine_.resources_.Find(from.id());
    if (resource == nullptr) return absl::OkStatus();
    AccessTicket ticket(engine_.resources_, engine_.allocator_);
    ticket.Take({{resource, Access::kRead}}, [] {});  // At once: nobody else uses it yet.
    FORMWORK_ASSIGN_OR_RETURN(const Tensor value, ticket.ReadState({from.id()}));
    std::optional<Revival> revival = form->revival(value);
    ticket.ReleaseAll();
    if (!revival) return absl::OkStatus();
    Registration registration;
    registration.name_space = from.namespace_();
    registration.name = absl::StrCat("formwork.revive/", from.name());
    registration.graph_def = std::move(revival->graph_def);
    registration.targets = {std::move(revival->target)};
    const auto capture = [&](std::string tensor, Argument argument) {
      registration.captures.emplace_back(std::move(tensor), std::move(argument));
    };
    for (auto& [name, value] : revival->values) {
      capture(name, {Argument::Kind::kTensor, std::move(value), 0});
    }
    for (const auto& [name, id] : revival->resources) {
      capture(name, {Argument::Kind::kResource, {}, id});
    }
    capture(revival->self, {Argument::Kind::kResource, {}, from.id()});
    ErrorDetails details;
    const RestoredFunction not_stored{0, nullptr};
    FORMWORK_ASSIGN_OR_RETURN(const Registered registered,
                              engine_.RegisterNow(registration, details, &not_stored));
    const Target function{registered.function.id, ""};
    CallSpec call;
    call.name_space = from.namespace_();
    call.function = function;
    call.deadline = absl::Now() + kLongest;
    absl::Notification done;
    absl::Status status;
    const auto handle = engine_.Call(std::move(call), [&](CallResult result) {
      status = result.status;
      done.Notify();
    });
    handle->Start();
    done.WaitForNotification();
    (void)engine_.Unregister(from.namespace_(), function, /*allow_missing=*/true);
    return status;
  };
  const absl::Status status = CatchOutOfMemory(revive);
  if (status.ok() || !engine_.options_.on_lost_position) return;
  engine_.options_.on_lost_position(from.name(), status);
}

absl::Status Snapshots::RestoreFunction(const state::Function& from) {
  FORMWORK_ASSIGN_OR_RETURN(
      std::vector<Tensor> values,
      store_->Get({StoredKey::Of::kRegistration, from.registration(), 0}, engine_.allocator_));
  const auto is_text = [](const Tensor& value) {
    return value.dtype() == DType::kString && value.num_elements() == 1;
  };
  state::Registration message;
  if (values.size() < 2 || !is_text(values[0]) || !is_text(values[1]) ||
      !message.ParseFromString(values[0].scalar<std::string>())) {
    return absl::DataLossError(
        absl::StrCat("data directory: registration ", from.registration(), " is damaged"));
  }
  Registration registration;
  registration.name_space = message.namespace_();
  KeepStored(registration.name_space);
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
    registration.model_version = message.model_version();
    registration.max_batch_rows = message.max_batch_rows();
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
