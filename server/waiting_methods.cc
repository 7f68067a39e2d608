#include "server/waiting_methods.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "core/base/reason.h"
#include "core/base/status.h"
#include "server/info_messages.h"
#include "server/parsed_message.h"
#include "server/value_codec.h"
#include "server/variable_codec.h"

namespace formwork::server {
namespace {

// Parses the request's message. False where it is malformed: then it has been answered.
template <typename Message>
bool ParseOrRefuse(UnaryRequest& unary, const char* name, Message* message) {
  if (Parse(unary.message(), message)) return true;
  unary.Finish(Malformed(name), NothingDone());
  return false;
}

// What is to be read, and whether it is all there to be asked for.
absl::Status ReadSpecFrom(const RequestScope& scope, const v1::ReadVariablesRequest& in,
                          ReadSpec* spec, ErrorDetails* details) {
  spec->name_space = in.namespace_();
  bool by_id = false;
  for (int i = 0; i < in.variables_size(); ++i) {
    absl::StatusOr<Target> target = TargetFrom(in.variables(i));
    if (!target.ok()) return InField(target.status(), absl::StrCat("variables[", i, "]"));
    by_id |= target->id != 0;
    spec->variables.push_back(*std::move(target));
  }
  if (in.has_range() && (in.keep() || in.variables_size() != 1)) {
    return InField(InvalidArgument("ReadVariables: a range is of one variable that is not kept"),
                   "range");
  }
  return by_id ? scope.engine.CheckEpoch(in.expected_epoch(), details) : absl::OkStatus();
}

absl::Status AnswerRead(const RequestScope& scope, UnaryRequest& unary,
                        const v1::ReadVariablesRequest& in,
                        const std::vector<VariableValue>& values) {
  std::vector<v1::VariableInfo> variables(values.size());
  std::vector<CallOutput> outputs(values.size());
  std::vector<uint64_t> kept;
  for (size_t i = 0; i < values.size(); ++i) {
    ToMessage(values[i].variable, &variables[i]);
    if (!in.keep()) {
      outputs[i].tensor = values[i].value;
      continue;
    }
    const absl::StatusOr<uint64_t> id =
        scope.engine.KeepTensor(in.namespace_(), OwnerOf(in.client_id(), unary.context()),
                                DurationFrom(in.keep_for()), values[i].value);
    if (!id.ok()) {
      scope.engine.ReleaseTensors(in.namespace_(), kept);
      return id.status();
    }
    kept.push_back(*id);
    outputs[i].kept_id = *id;
  }
  return EncodeReadVariables(scope.engine.epoch(), variables, outputs,
                             in.has_range() ? &in.range() : nullptr, scope.max_message_bytes,
                             unary.response());
}

absl::Status AssignSpecFrom(const RequestScope& scope, UnaryRequest& unary, AssignSpec* spec,
                            ErrorDetails* details) {
  DecodedAssign in;
  FORMWORK_RETURN_IF_ERROR(HoldToBudget(scope.engine.memory(), [&] {
    return DecodeAssignRequest(unary.message(), scope.engine.allocator(), &in);
  }));
  if (in.names_by_id()) {
    FORMWORK_RETURN_IF_ERROR(scope.engine.CheckEpoch(in.expected_epoch, details));
  }
  spec->name_space = in.name_space;
  for (auto& [target, argument] : in.values) {
    absl::StatusOr<Tensor> value = ValueOf(scope.engine, in.name_space, std::move(argument));
    if (!value.ok()) {
      return InField(value.status(), absl::StrCat("assignments[", spec->values.size(), "].value"));
    }
    spec->values.emplace_back(std::move(target), *std::move(value));
  }
  return absl::OkStatus();
}

}  // namespace

void RunRegister(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary) {
  v1::RegisterRequest in;
  if (!ParseOrRefuse(*unary, "RegisterRequest", &in)) return;
  if (in.retrace()) scope.metrics.CountRetrace(unary->context().peer());
  ErrorDetails details = NothingDone();
  const uint64_t expected_epoch = in.expected_epoch();
  absl::StatusOr<Registration> registration =
      RegistrationFrom(std::move(in), scope.engine.allocator());
  absl::Status status = registration.status();
  if (status.ok() && NamesById(*registration)) {
    status = scope.engine.CheckEpoch(expected_epoch, &details);
  }
  if (!status.ok()) return unary->Finish(status, details);
  registration->deadline = unary->deadline();
  unary->Begin(
      scope.engine.Register(*std::move(registration), [&scope, unary](RegisterResult result) {
        if (!result.registered.existed) {
          scope.metrics.CountCompile(absl::Now() - unary->arrival());
        }
        if (!result.status.ok()) return unary->Finish(result.status, result.details);
        v1::RegisterResponse out;
        out.set_epoch(scope.engine.epoch());
        ToMessage(result.registered.function, out.mutable_function());
        out.set_existed(result.registered.existed);
        unary->Finish(Serialize(out, scope.max_message_bytes, unary->response()));
      }));
}

void RunReadVariables(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary) {
  const auto in = std::make_shared<v1::ReadVariablesRequest>();
  if (!ParseOrRefuse(*unary, "ReadVariablesRequest", in.get())) return;
  ReadSpec spec;
  ErrorDetails details = NothingDone();
  const absl::Status status = ReadSpecFrom(scope, *in, &spec, &details);
  if (!status.ok()) return unary->Finish(status, details);
  spec.deadline = unary->deadline();
  unary->Begin(scope.engine.ReadVariables(std::move(spec), [&scope, unary, in](ReadResult result) {
    if (!result.status.ok()) return unary->Finish(result.status, result.details);
    const bool slow =
        !in->keep() && std::any_of(result.values.begin(), result.values.end(),
                                   [](const auto& read) { return SlowToEncode(read.value); });
    unary->Encode(slow, [&scope, unary, in, values = std::move(result.values)] {
      unary->Finish(AnswerRead(scope, *unary, *in, values), NothingDone());
    });
  }));
}

void RunAssignVariables(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary) {
  AssignSpec spec;
  ErrorDetails details = NothingDone();
  const absl::Status status = AssignSpecFrom(scope, *unary, &spec, &details);
  if (!status.ok()) return unary->Finish(status, details);
  spec.deadline = unary->deadline();
  unary->Begin(scope.engine.AssignVariables(std::move(spec), [&scope, unary](AssignResult result) {
    if (!result.status.ok()) return unary->Finish(result.status, result.details);
    v1::AssignVariablesResponse out;
    out.set_epoch(scope.engine.epoch());
    for (const VariableInfo& variable : result.variables) ToMessage(variable, out.add_variables());
    unary->Finish(Serialize(out, scope.max_message_bytes, unary->response()));
  }));
}

void RunReadTensor(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary) {
  v1::ReadTensorRequest in;
  if (!ParseOrRefuse(*unary, "ReadTensorRequest", &in)) return;
  ErrorDetails details = NothingDone();
  const absl::Status checked = scope.engine.CheckEpoch(in.expected_epoch(), &details);
  if (!checked.ok()) return unary->Finish(checked, details);
  absl::StatusOr<Tensor> tensor = scope.engine.ReadTensor(in.namespace_(), in.id());
  if (!tensor.ok()) return unary->Finish(InField(tensor.status(), "id"), details);
  const bool slow = SlowToEncode(*tensor);
  unary->Encode(slow, [&scope, unary, in = std::move(in), tensor = *std::move(tensor)] {
    unary->Finish(
        EncodeReadTensor(scope.engine.epoch(), tensor, in.has_range() ? &in.range() : nullptr,
                         scope.max_message_bytes, unary->response()),
        NothingDone());
  });
}

}  // namespace formwork::server
