#include "server/waiting_methods.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "core/base/reason.h"
#include "core/base/status.h"
#include "server/call_codec.h"
#include "server/info_messages.h"
#include "server/parsed_message.h"
#include "server/value_codec.h"
#include "server/variable_codec.h"

namespace formwork::server {
namespace {

absl::Status RegistrationOf(const RequestScope& scope, UnaryRequest& unary,
                            Registration* registration, ErrorDetails* details) {
  ArenaMessage<v1::RegisterRequest> in;
  FORMWORK_RETURN_IF_ERROR(Parse(unary.message(), scope.engine.memory(), in));
  if (in->retrace()) scope.metrics.CountRetrace(unary.context().peer());
  FORMWORK_RETURN_IF_ERROR(HoldToBudget(scope.engine.memory(), [&]() -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(*registration, RegistrationFrom(*in, scope.engine.allocator()));
    return absl::OkStatus();
  }));
  registration->request = RequestIdOf(*in);
  FORMWORK_RETURN_IF_ERROR(CheckRepeat(scope.engine, in->namespace_(), registration->request,
                                       in->expected_epoch(), details));
  if (!NamesById(*registration)) return absl::OkStatus();
  return CheckIds(scope.engine, in->namespace_(), registration->request, in->expected_epoch(),
                  details);
}

// What is to be read, and whether it is all there to be asked for.
absl::Status ReadSpecFrom(const RequestScope& scope, const v1::ReadVariablesRequest& in,
                          ReadSpec* spec, ErrorDetails* details) {
  spec->name_space = in.namespace_();
  if (static_cast<size_t>(in.variables_size()) > kMaxInputs) {
    return InField(InvalidArgument("ReadVariables: too many variables: limit=", kMaxInputs),
                   "variables");
  }
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
  return by_id ? scope.engine.CheckEpoch(in.namespace_(), in.expected_epoch(), details)
               : absl::OkStatus();
}

absl::Status ReadSpecOf(const RequestScope& scope, UnaryRequest& unary,
                        ArenaMessage<v1::ReadVariablesRequest>& in, ReadSpec* spec,
                        ErrorDetails* details) {
  FORMWORK_RETURN_IF_ERROR(Parse(unary.message(), scope.engine.memory(), in));
  return HoldIfCounted(unary.message(), scope.engine.memory(),
                       [&] { return ReadSpecFrom(scope, *in, spec, details); });
}

absl::StatusOr<Tensor> TensorToRead(const RequestScope& scope, UnaryRequest& unary,
                                    ArenaMessage<v1::ReadTensorRequest>& in,
                                    ErrorDetails* details) {
  FORMWORK_RETURN_IF_ERROR(Parse(unary.message(), scope.engine.memory(), in));
  FORMWORK_RETURN_IF_ERROR(
      scope.engine.CheckEpoch(in->namespace_(), in->expected_epoch(), details));
  absl::StatusOr<Tensor> tensor = scope.engine.ReadTensor(in->namespace_(), in->id());
  if (!tensor.ok()) return InField(tensor.status(), "id");
  return tensor;
}

absl::Status AnswerRead(const RequestScope& scope, UnaryRequest& unary,
                        const v1::ReadVariablesRequest& in,
                        const std::vector<VariableValue>& values) {
  std::vector<v1::VariableInfo> variables(values.size());
  std::vector<CallOutput> outputs(values.size());
  std::vector<uint64_t> kept;
  FORMWORK_ASSIGN_OR_RETURN(const std::string owner, OwnerOf(in.client_id(), unary.context()));
  for (size_t i = 0; i < values.size(); ++i) {
    ToMessage(values[i].variable, &variables[i]);
    if (!in.keep()) {
      outputs[i].tensor = values[i].value;
      continue;
    }
    const absl::StatusOr<uint64_t> id = scope.engine.KeepTensor(
        in.namespace_(), owner, DurationFrom(in.keep_for()), values[i].value);
    if (!id.ok()) {
      scope.engine.ReleaseTensors(in.namespace_(), kept);
      return id.status();
    }
    kept.push_back(*id);
    outputs[i].kept_id = *id;
  }
  return EncodeReadVariables(unary.epoch(), variables, outputs,
                             in.has_range() ? &in.range() : nullptr, scope.max_message_bytes,
                             unary.response());
}

absl::Status AssignSpecOf(const RequestScope& scope, UnaryRequest& unary, AssignSpec* spec,
                          ErrorDetails* details) {
  DecodedAssign in;
  FORMWORK_RETURN_IF_ERROR(HoldToBudget(scope.engine.memory(), [&] {
    return DecodeAssignRequest(unary.message(), scope.engine.allocator(), &in);
  }));
  FORMWORK_RETURN_IF_ERROR(
      CheckRepeat(scope.engine, in.name_space, in.request, in.expected_epoch, details));
  if (in.names_by_id()) {
    FORMWORK_RETURN_IF_ERROR(
        CheckIds(scope.engine, in.name_space, in.request, in.expected_epoch, details));
  }
  spec->name_space = in.name_space;
  spec->request = std::move(in.request);
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
  Registration registration;
  ErrorDetails details = NothingDone();
  const absl::Status status = RegistrationOf(scope, *unary, &registration, &details);
  if (!status.ok()) return unary->Finish(status, details);
  registration.deadline = unary->deadline();
  const auto answer = [&scope](UnaryRequest& unary, const RegisterResult& result) {
    if (!result.registered.existed) scope.metrics.CountCompile(absl::Now() - unary.arrival());
    if (!result.status.ok()) return unary.Finish(result.status, result.details);
    ArenaMessage<v1::RegisterResponse> out;
    out->set_epoch(unary.epoch());
    ToMessage(result.registered.function, out->mutable_function());
    out->set_existed(result.registered.existed);
    unary.Finish(Serialize(*out, scope.max_message_bytes, unary.response()));
  };
  unary->Begin(
      scope.engine.Register(std::move(registration), [unary, answer](const RegisterResult& result) {
        unary->Guard([&] { answer(*unary, result); });
      }));
}

void RunReadVariables(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary) {
  const auto in = std::make_shared<ArenaMessage<v1::ReadVariablesRequest>>();
  ReadSpec spec;
  ErrorDetails details = NothingDone();
  const absl::Status status = ReadSpecOf(scope, *unary, *in, &spec, &details);
  if (!status.ok()) return unary->Finish(status, details);
  spec.deadline = unary->deadline();
  const auto answer = [&scope, in](UnaryRequest& unary, ReadResult result) {
    if (!result.status.ok()) return unary.Finish(result.status, result.details);
    const bool slow =
        !(*in)->keep() && std::any_of(result.values.begin(), result.values.end(),
                                      [](const auto& read) { return SlowToEncode(read.value); });
    auto encode = [&scope, &unary, in, values = std::move(result.values)] {
      return AnswerRead(scope, unary, **in, values);
    };
    if (!slow) return unary.Finish(encode(), NothingDone());
    unary.AnswerLarge(std::move(encode), NothingDone());
  };
  unary->Begin(scope.engine.ReadVariables(std::move(spec), [unary, answer](ReadResult result) {
    unary->Guard([&] { answer(*unary, std::move(result)); });
  }));
}

void RunAssignVariables(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary) {
  AssignSpec spec;
  ErrorDetails details = NothingDone();
  const absl::Status status = AssignSpecOf(scope, *unary, &spec, &details);
  if (!status.ok()) return unary->Finish(status, details);
  spec.deadline = unary->deadline();
  const auto answer = [&scope](UnaryRequest& unary, const AssignResult& result) {
    if (!result.status.ok()) return unary.Finish(result.status, result.details);
    v1::AssignVariablesResponse out;
    out.set_epoch(unary.epoch());
    for (const ResourceInfo& variable : result.variables) ToMessage(variable, out.add_variables());
    unary.Finish(Serialize(out, scope.max_message_bytes, unary.response()));
  };
  unary->Begin(
      scope.engine.AssignVariables(std::move(spec), [unary, answer](const AssignResult& result) {
        unary->Guard([&] { answer(*unary, result); });
      }));
}

namespace {

// Where names of requests are listed, there are no more than variables in one request.
template <typename Request>
absl::StatusOr<CheckpointSpec> CheckpointSpecOf(const RequestScope& scope,
                                                const UnaryRequest& unary) {
  ArenaMessage<Request> in;
  FORMWORK_RETURN_IF_ERROR(Parse(unary.message(), scope.engine.memory(), in));
  CheckpointSpec spec;
  spec.name_space = in->namespace_();
  spec.path = in->path();
  spec.names.assign(in->names().begin(), in->names().end());
  spec.deadline = unary.deadline();
  return spec;
}

}  // namespace

void RunSaveCheckpoint(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary) {
  absl::StatusOr<CheckpointSpec> spec = CheckpointSpecOf<v1::SaveCheckpointRequest>(scope, *unary);
  if (!spec.ok()) return unary->Finish(spec.status());
  unary->Begin(scope.engine.SaveCheckpoint(
      *std::move(spec), [&scope, unary](const CheckpointResult& result) {
        unary->Guard([&] {
          if (!result.status.ok()) return unary->Finish(result.status, result.details);
          v1::SaveCheckpointResponse out;
          out.set_epoch(unary->epoch());
          out.set_variables(result.variables);
          out.set_bytes(result.bytes);
          out.set_left_out(result.left_out);
          unary->Finish(Serialize(out, scope.max_message_bytes, unary->response()));
        });
      }));
}

void RunRestoreCheckpoint(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary) {
  absl::StatusOr<CheckpointSpec> spec =
      CheckpointSpecOf<v1::RestoreCheckpointRequest>(scope, *unary);
  if (!spec.ok()) return unary->Finish(spec.status());
  unary->Begin(scope.engine.RestoreCheckpoint(
      *std::move(spec), [&scope, unary](const CheckpointResult& result) {
        unary->Guard([&] {
          if (!result.status.ok()) return unary->Finish(result.status, result.details);
          v1::RestoreCheckpointResponse out;
          out.set_epoch(unary->epoch());
          out.set_variables(result.variables);
          out.set_created(result.created);
          out.set_bytes(result.bytes);
          unary->Finish(Serialize(out, scope.max_message_bytes, unary->response()));
        });
      }));
}

void RunLoadSavedModel(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary) {
  ArenaMessage<v1::LoadSavedModelRequest> in;
  const absl::Status parsed = Parse(unary->message(), scope.engine.memory(), in);
  if (!parsed.ok()) return unary->Finish(parsed);
  SavedModelSpec spec;
  spec.name_space = in->namespace_();
  spec.path = in->path();
  spec.name = in->name();
  spec.tags.assign(in->tags().begin(), in->tags().end());
  spec.replace = in->replace();
  spec.max_batch_rows = in->max_batch_rows();
  spec.deadline = unary->deadline();
  unary->Begin(
      scope.engine.LoadSavedModel(std::move(spec), [&scope, unary](const SavedModelResult& result) {
        unary->Guard([&] {
          if (!result.status.ok()) return unary->Finish(result.status, result.details);
          v1::LoadSavedModelResponse out;
          out.set_epoch(unary->epoch());
          out.set_path(result.path);
          for (const FunctionInfo& function : result.functions) {
            ToMessage(function, out.add_functions());
          }
          out.set_variables(result.resources);
          out.set_bytes(result.bytes);
          unary->Finish(Serialize(out, scope.max_message_bytes, unary->response()));
        });
      }));
}

void RunTakeSnapshot(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary) {
  ArenaMessage<v1::TakeSnapshotRequest> in;
  const absl::Status parsed = Parse(unary->message(), scope.engine.memory(), in);
  if (!parsed.ok()) return unary->Finish(parsed);
  scope.engine.TakeSnapshot([&scope, unary](const absl::StatusOr<SnapshotInfo>& taken) {
    unary->Guard([&] {
      if (!taken.ok()) return unary->Finish(taken.status());
      v1::TakeSnapshotResponse out;
      out.set_epoch(unary->epoch());
      ToMessage(taken->duration, out.mutable_duration());
      out.set_variables(taken->resources);
      out.set_functions(taken->functions);
      out.set_bytes_written(taken->bytes_written);
      out.set_left_out(taken->left_out);
      unary->Finish(Serialize(out, scope.max_message_bytes, unary->response()));
    });
  });
}

void RunReadTensor(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary) {
  const auto in = std::make_shared<ArenaMessage<v1::ReadTensorRequest>>();
  ErrorDetails details = NothingDone();
  absl::StatusOr<Tensor> tensor = TensorToRead(scope, *unary, *in, &details);
  if (!tensor.ok()) return unary->Finish(tensor.status(), details);
  const bool slow = SlowToEncode(*tensor);
  auto encode = [&scope, &unary = *unary, in, tensor = *std::move(tensor)] {
    return EncodeReadTensor(unary.epoch(), tensor, (*in)->has_range() ? &(*in)->range() : nullptr,
                            scope.max_message_bytes, unary.response());
  };
  if (!slow) return unary->Finish(encode(), NothingDone());
  unary->AnswerLarge(std::move(encode), NothingDone());
}

}  // namespace formwork::server
