#include "core/engine/answers.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/engine/engine_impl.h"
#include "core/engine/task.h"
#include "core/function/type_messages.h"

namespace formwork {
namespace {

class StoredMessage final : public MessageAnswer {
 public:
  explicit StoredMessage(std::string text) : text_(std::move(text)) {}
  size_t bytes() const override { return sizeof(*this) + text_.size(); }
  std::string Text() const override { return text_; }

 private:
  const std::string text_;
};

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("data directory: an answer is damaged: ", what));
}

void StatusToStored(const absl::Status& status, const ErrorDetails& details, state::Answer* to) {
  if (status.ok()) return;
  state::Answer::Status* stored = to->mutable_status();
  stored->set_code(static_cast<int32_t>(status.code()));
  stored->set_text(std::string(status.message()));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& content) {
    state::Answer::Payload* payload = stored->add_payloads();
    payload->set_type(std::string(type));
    payload->set_content(std::string(content));
  });
  stored->set_effects(static_cast<int32_t>(details.effects));
  for (const std::string& culprit : details.culprits) stored->add_culprits(culprit);
}

absl::Status StatusFromStored(const state::Answer& from, ErrorDetails* details) {
  if (!from.has_status()) return absl::OkStatus();
  const state::Answer::Status& stored = from.status();
  absl::Status status(static_cast<absl::StatusCode>(stored.code()), stored.text());
  if (status.ok()) status = absl::UnknownError(stored.text());
  for (const state::Answer::Payload& payload : stored.payloads()) {
    status.SetPayload(payload.type(), absl::Cord(payload.content()));
  }
  details->effects = static_cast<Effects>(stored.effects());
  details->culprits.assign(stored.culprits().begin(), stored.culprits().end());
  return status;
}

absl::StatusOr<CallResult> CallFrom(const state::Answer& message, std::vector<Tensor> parts) {
  CallResult result;
  result.status = StatusFromStored(message, &result.details);
  result.printed.assign(message.printed().begin(), message.printed().end());
  result.function_id = message.call().function_id();
  result.function_name = message.call().function_name();
  size_t next = 1;
  for (const state::Answer::Output& stored : message.call().outputs()) {
    CallOutput& output = result.outputs.emplace_back();
    output.kept_id = stored.kept_id();
    output.opaque = static_cast<DType>(stored.opaque());
    if (stored.none()) continue;
    if (next == parts.size()) return Damaged("an output is not there");
    output.tensor = std::move(parts[next++]);
  }
  return result;
}

absl::StatusOr<AssignResult> AssignFrom(const state::Answer& message) {
  AssignResult result;
  result.status = StatusFromStored(message, &result.details);
  for (const state::Answer::Variable& stored : message.assign().variables()) {
    ResourceInfo& info = result.variables.emplace_back();
    info.id = stored.resource().id();
    info.name = stored.resource().name();
    for (const state::Resource::Part& part : stored.resource().parts()) {
      FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, ShapeFrom(part.shape()));
      info.type.parts.push_back({static_cast<DType>(part.dtype()), std::move(shape)});
    }
    if (info.type.parts.empty()) return Damaged("a variable has no dtype");
    info.version = stored.resource().version();
    info.initialized = stored.resource().initialized();
    info.bytes = stored.bytes();
  }
  return result;
}

template <typename Result>
std::shared_ptr<const AnswerWindow::Answer> Remember(Result result) {
  return std::make_shared<const RememberedResult<Result>>(std::move(result));
}

template <typename Result>
bool ToStoredAs(const AnswerWindow::Answer& answer, LoggedAnswer* to) {
  const auto* const known = dynamic_cast<const RememberedResult<Result>*>(&answer);
  if (known == nullptr) return false;
  ToStored(known->result, to);
  return true;
}

}  // namespace

LoggedAnswer StoredAnswerOf(absl::string_view name_space, const RequestId& request,
                            uint64_t content) {
  LoggedAnswer answer;
  answer.message.set_namespace_(std::string(name_space));
  answer.message.set_client(request.client);
  answer.message.set_sequence(request.sequence);
  answer.message.set_content(content);
  return answer;
}

void ToStored(const CallResult& result, LoggedAnswer* answer) {
  StatusToStored(result.status, result.details, &answer->message);
  for (const std::string& text : result.printed) answer->message.add_printed(text);
  state::Answer::Call* call = answer->message.mutable_call();
  call->set_function_id(result.function_id);
  call->set_function_name(result.function_name);
  for (const CallOutput& output : result.outputs) {
    state::Answer::Output* to = call->add_outputs();
    to->set_kept_id(output.kept_id);
    to->set_opaque(static_cast<tf::DataType>(output.opaque));
    to->set_none(!output.tensor.has_value());
    if (output.tensor.has_value()) answer->parts.push_back(output.tensor);
  }
}

void ToStored(const AssignResult& result, LoggedAnswer* answer) {
  StatusToStored(result.status, result.details, &answer->message);
  state::Answer::Assign* assign = answer->message.mutable_assign();
  for (const ResourceInfo& info : result.variables) {
    state::Answer::Variable* to = assign->add_variables();
    to->mutable_resource()->set_id(info.id);
    to->mutable_resource()->set_name(info.name);
    for (const ResourceType::Part& part : info.type.parts) {
      state::Resource::Part* to_part = to->mutable_resource()->add_parts();
      to_part->set_dtype(static_cast<tf::DataType>(part.dtype));
      ToMessage(part.shape, to_part->mutable_shape());
    }
    to->mutable_resource()->set_version(info.version);
    to->mutable_resource()->set_initialized(info.initialized);
    to->set_bytes(info.bytes);
  }
}

void ToStored(const RegisterResult& result, LoggedAnswer* answer) {
  StatusToStored(result.status, result.details, &answer->message);
  state::Answer::Register* to = answer->message.mutable_register_();
  to->set_function_id(result.registered.function.id);
  to->set_existed(result.registered.existed);
}

bool ToStored(const AnswerWindow::Answer& answer, LoggedAnswer* to) {
  if (const auto* const message = dynamic_cast<const MessageAnswer*>(&answer)) {
    to->message.set_message(message->Text());
    return true;
  }
  return ToStoredAs<CallResult>(answer, to) || ToStoredAs<AssignResult>(answer, to) ||
         ToStoredAs<RegisterResult>(answer, to);
}

absl::StatusOr<std::shared_ptr<const AnswerWindow::Answer>> FromStored(EngineImpl& engine,
                                                                       std::vector<Tensor> parts,
                                                                       state::Answer* message) {
  if (parts.empty() || parts[0].dtype() != DType::kString || parts[0].rank() != 0 ||
      !message->ParseFromString(parts[0].scalar<std::string>()) || message->sequence() == 0) {
    return Damaged("it is no message");
  }
  switch (message->result_case()) {
    case state::Answer::kCall: {
      FORMWORK_ASSIGN_OR_RETURN(CallResult result, CallFrom(*message, std::move(parts)));
      return Remember(std::move(result));
    }
    case state::Answer::kAssign: {
      FORMWORK_ASSIGN_OR_RETURN(AssignResult result, AssignFrom(*message));
      return Remember(std::move(result));
    }
    case state::Answer::kRegister: {
      const std::optional<FunctionInfo> function =
          engine.FindFunction(message->namespace_(), message->register_().function_id());
      if (!function) return nullptr;
      RegisterResult result;
      result.status = StatusFromStored(*message, &result.details);
      result.registered = {*function, message->register_().existed()};
      return Remember(std::move(result));
    }
    case state::Answer::kMessage:
      return std::make_shared<const StoredMessage>(std::move(*message->mutable_message()));
    case state::Answer::kLost:
    case state::Answer::RESULT_NOT_SET:
      break;
  }
  return nullptr;
}

AnsweredClient FromStored(const state::Client& client) {
  AnsweredClient known;
  known.number = client.number();
  known.name_space = client.namespace_();
  known.id = client.id();
  known.acknowledged = client.acknowledged();
  for (const state::Client::Range& range : client.gone()) {
    known.gone.push_back({range.first(), range.last()});
  }
  known.begins = absl::FromUnixMicros(client.begins_micros());
  return known;
}

}  // namespace formwork
