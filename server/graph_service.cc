#include "server/graph_service.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/reason.h"
#include "core/base/status.h"
#include "server/call_codec.h"
#include "server/info_messages.h"
#include "server/page.h"
#include "server/tensor_codec.h"
#include "server/type_messages.h"
#include "server/unary_call.h"
#include "server/value_codec.h"
#include "server/variable_codec.h"

namespace formwork::server {
namespace {

constexpr size_t kMaxQueued = 4096;

template <typename Message>
bool Parse(const grpc::ByteBuffer& bytes, Message* message) {
  grpc::ByteBuffer copy(bytes);  // Shares the slices; Deserialize clears what it is given.
  return grpc::SerializationTraits<Message>::Deserialize(&copy, message).ok();
}

template <typename Message>
absl::Status Serialize(const Message& message, size_t limit, grpc::ByteBuffer* bytes) {
  const size_t size = message.ByteSizeLong();
  if (size > limit) return ResponseTooLarge(size, limit, "ask for smaller pages");
  bool own;
  const grpc::Status status = grpc::SerializationTraits<Message>::Serialize(message, bytes, &own);
  return status.ok() ? absl::OkStatus() : Internal("the response cannot be serialized");
}

// What is there to delete, or is to be looked at, by ID or name.
template <typename Request>
absl::StatusOr<Target> FunctionTarget(const Request& request) {
  if (request.function_id() != 0) return Target{request.function_id(), ""};
  if (!request.function_name().empty()) return Target{0, request.function_name()};
  return InvalidArgument("the request names no function");
}

absl::Duration IdleTimeout(const ServerOptions& options) {
  const double seconds = options.stream_idle_timeout_seconds;
  return seconds > 0 ? absl::Seconds(seconds) : absl::InfiniteDuration();
}

std::string OwnerOf(const std::string& client_id, const grpc::CallbackServerContext& context) {
  return client_id.empty() ? context.peer() : client_id;
}

}  // namespace

GraphService::GraphService(const ServerOptions& options, Engine& engine, Metrics& metrics)
    : options_(options),
      started_(absl::Now()),
      engine_(engine),
      metrics_(metrics),
      streams_(IdleTimeout(options)),
      requests_(4, kMaxQueued),
      scope_{engine, metrics, requests_, static_cast<size_t>(options.max_message_bytes)} {}

template <typename Request, typename Response, typename Body>
GraphService::Reactor* GraphService::Answer(const Rpc& rpc, Body body) {
  return UnaryRequest::Start(
      scope_, rpc.method, rpc.context, rpc.request, rpc.response, &requests_,
      [this, method = rpc.method, body = std::move(body)](const auto& unary) {
        Request request;
        if (!Parse(unary->message(), &request)) return unary->Finish(Malformed(method));
        Response response;
        response.set_epoch(engine_.epoch());
        ErrorDetails details;
        absl::Status status = unary->CheckWanted();
        if (status.ok()) status = body(request, &response, &details);
        if (status.ok()) {
          status = Serialize(response, scope_.max_message_bytes, unary->response());
        }
        unary->Finish(status, details);
      });
}

template <typename Request, typename Body>
GraphService::Reactor* GraphService::Begin(const Rpc& rpc, Body body) {
  return UnaryRequest::Start(scope_, rpc.method, rpc.context, rpc.request, rpc.response,
                             PoolFor(*rpc.request),
                             [method = rpc.method, body = std::move(body)](const auto& unary) {
                               Request request;
                               if (!Parse(unary->message(), &request))
                                 return unary->Finish(Malformed(method));
                               body(unary, std::move(request));
                             });
}

TaskPool* GraphService::PoolFor(const Bytes& message) {
  return message.Length() < kLargeMessageBytes ? nullptr : &requests_;
}

// --- Calls.

GraphService::Reactor* GraphService::Call(Context* context, const Bytes* request, Bytes* response) {
  return UnaryRequest::Start(scope_, nullptr, context, request, response, PoolFor(*request),
                             [this](const auto& unary) { RunUnaryCall(scope_, unary); });
}

// Streams are held by streams_ until gRPC is done with them.

grpc::ServerWriteReactor<grpc::ByteBuffer>* GraphService::CallInParts(Context* context,
                                                                      const Bytes* request) {
  auto stream = std::make_shared<server::CallInParts>(scope_, streams_, *context, *request);
  stream->Start();
  return stream.get();
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* GraphService::CallStream(
    Context* context) {
  auto stream = std::make_shared<server::CallStream>(scope_, streams_, *context);
  stream->Start();
  return stream.get();
}

// --- Functions.

GraphService::Reactor* GraphService::Register(Context* context, const Bytes* request,
                                              Bytes* response) {
  // Always parsed on a thread of ours: a graph of a few hundred kilobytes takes a while.
  return UnaryRequest::Start(
      scope_, "Register", context, request, response, &requests_, [this](const auto& unary) {
        v1::RegisterRequest in;
        if (!Parse(unary->message(), &in)) return unary->Finish(Malformed("RegisterRequest"));
        if (in.retrace()) metrics_.CountRetrace(unary->context().peer());
        ErrorDetails details;
        const uint64_t expected_epoch = in.expected_epoch();
        absl::StatusOr<Registration> registration =
            RegistrationFrom(std::move(in), engine_.allocator());
        absl::Status status = registration.status();
        if (status.ok() && NamesById(*registration)) {
          status = engine_.CheckEpoch(expected_epoch, &details);
        }
        if (!status.ok()) return unary->Finish(status, details);
        registration->deadline = unary->deadline();
        unary->Begin(
            engine_.Register(*std::move(registration), [this, unary](RegisterResult result) {
              if (!result.registered.existed) {
                metrics_.CountCompile(absl::Now() - unary->arrival());
              }
              if (!result.status.ok()) return unary->Finish(result.status, result.details);
              v1::RegisterResponse out;
              out.set_epoch(engine_.epoch());
              ToMessage(result.registered.function, out.mutable_function());
              out.set_existed(result.registered.existed);
              unary->Finish(Serialize(out, scope_.max_message_bytes, unary->response()));
            }));
      });
}

GraphService::Reactor* GraphService::Resolve(Context* context, const Bytes* request,
                                             Bytes* response) {
  return Answer<v1::ResolveRequest, v1::ResolveResponse>(
      {"Resolve", context, request, response},
      [this](const auto& in, auto* out, ErrorDetails* details) -> absl::Status {
        FORMWORK_ASSIGN_OR_RETURN(const FunctionType type, FunctionTypeFrom(in.signature()));
        FORMWORK_ASSIGN_OR_RETURN(const FunctionInfo function,
                                  engine_.Resolve(in.namespace_(), in.name(), type, details));
        ToMessage(function, out->mutable_function());
        return absl::OkStatus();
      });
}

GraphService::Reactor* GraphService::ListFunctions(Context* context, const Bytes* request,
                                                   Bytes* response) {
  return Answer<v1::ListFunctionsRequest, v1::ListFunctionsResponse>(
      {"ListFunctions", context, request, response},
      [this](const auto& in, auto* out, ErrorDetails*) -> absl::Status {
        const bool signatures = in.view() != v1::FUNCTION_VIEW_BASIC;
        FORMWORK_ASSIGN_OR_RETURN(
            const std::vector<FunctionInfo> page,
            PageOf(
                engine_.ListFunctions(in.namespace_(), signatures), in.page_size(), in.page_token(),
                [](const FunctionInfo& function) { return PageKey(function.name, function.id); },
                [&](const FunctionInfo& function) {
                  return FitsPattern(function.name, in.filter());
                },
                out->mutable_next_page_token()));
        for (const FunctionInfo& function : page) {
          ToMessage(function, out->add_functions(), signatures);
        }
        return absl::OkStatus();
      });
}

GraphService::Reactor* GraphService::DescribeFunction(Context* context, const Bytes* request,
                                                      Bytes* response) {
  return Answer<v1::DescribeFunctionRequest, v1::DescribeFunctionResponse>(
      {"DescribeFunction", context, request, response},
      [this](const auto& in, auto* out, ErrorDetails*) -> absl::Status {
        std::vector<FunctionInfo> functions;
        FORMWORK_ASSIGN_OR_RETURN(*out->mutable_text(),
                                  engine_.DescribeFunction(in.namespace_(), in.name(), &functions));
        for (const FunctionInfo& function : functions) ToMessage(function, out->add_functions());
        return absl::OkStatus();
      });
}

GraphService::Reactor* GraphService::Unregister(Context* context, const Bytes* request,
                                                Bytes* response) {
  return Answer<v1::UnregisterRequest, v1::UnregisterResponse>(
      {"Unregister", context, request, response},
      [this](const auto& in, auto* out, ErrorDetails* details) -> absl::Status {
        FORMWORK_ASSIGN_OR_RETURN(const Target target, FunctionTarget(in));
        if (target.id != 0) {
          FORMWORK_RETURN_IF_ERROR(engine_.CheckEpoch(in.expected_epoch(), details));
        }
        FORMWORK_ASSIGN_OR_RETURN(const int64_t removed,
                                  engine_.Unregister(in.namespace_(), target, in.allow_missing()));
        out->set_removed(removed);
        return absl::OkStatus();
      });
}

// --- Variables.

GraphService::Reactor* GraphService::CreateVariable(Context* context, const Bytes* request,
                                                    Bytes* response) {
  return Answer<v1::CreateVariableRequest, v1::CreateVariableResponse>(
      {"CreateVariable", context, request, response},
      [this](const auto& in, auto* out, ErrorDetails* details) -> absl::Status {
        FORMWORK_ASSIGN_OR_RETURN(const DType dtype, DTypeFrom(in.dtype()));
        FORMWORK_ASSIGN_OR_RETURN(const PartialShape shape, ShapeFrom(in.shape()));
        std::optional<Tensor> value;
        if (in.has_initial_value()) {
          FORMWORK_ASSIGN_OR_RETURN(Argument given,
                                    ArgumentFrom(in.initial_value(), engine_.allocator()));
          if (given.kind != Argument::Kind::kTensor) {
            FORMWORK_RETURN_IF_ERROR(engine_.CheckEpoch(in.expected_epoch(), details));
          }
          FORMWORK_ASSIGN_OR_RETURN(value, ValueOf(engine_, in.namespace_(), std::move(given)));
        }
        FORMWORK_ASSIGN_OR_RETURN(
            const Engine::CreatedVariable created,
            engine_.CreateVariable(in.namespace_(), in.name(), dtype, shape, std::move(value)));
        ToMessage(created.variable, out->mutable_variable());
        out->set_existed(created.existed);
        return absl::OkStatus();
      });
}

GraphService::Reactor* GraphService::GetVariable(Context* context, const Bytes* request,
                                                 Bytes* response) {
  return Answer<v1::GetVariableRequest, v1::GetVariableResponse>(
      {"GetVariable", context, request, response},
      [this](const auto& in, auto* out, ErrorDetails* details) -> absl::Status {
        FORMWORK_ASSIGN_OR_RETURN(const Target target, TargetFrom(in.variable()));
        if (target.id != 0) {
          FORMWORK_RETURN_IF_ERROR(engine_.CheckEpoch(in.expected_epoch(), details));
        }
        FORMWORK_ASSIGN_OR_RETURN(const VariableInfo variable,
                                  engine_.GetVariable(in.namespace_(), target));
        ToMessage(variable, out->mutable_variable());
        return absl::OkStatus();
      });
}

GraphService::Reactor* GraphService::ReadVariables(Context* context, const Bytes* request,
                                                   Bytes* response) {
  return Begin<v1::ReadVariablesRequest>(
      {"ReadVariables", context, request, response}, [this](const auto& unary, auto in) {
        RunRead(unary, std::make_shared<v1::ReadVariablesRequest>(std::move(in)));
      });
}

void GraphService::RunRead(const std::shared_ptr<UnaryRequest>& unary,
                           std::shared_ptr<const v1::ReadVariablesRequest> in) {
  ReadSpec spec;
  spec.name_space = in->namespace_();
  spec.deadline = unary->deadline();
  bool by_id = false;
  for (const v1::VariableTarget& variable : in->variables()) {
    absl::StatusOr<Target> target = TargetFrom(variable);
    if (!target.ok()) return unary->Finish(target.status());
    by_id |= target->id != 0;
    spec.variables.push_back(*std::move(target));
  }
  if (in->has_range() && (in->keep() || in->variables_size() != 1)) {
    return unary->Finish(
        InvalidArgument("ReadVariables: a range is of one variable that is not kept"));
  }
  ErrorDetails details;
  const absl::Status checked =
      by_id ? engine_.CheckEpoch(in->expected_epoch(), &details) : absl::OkStatus();
  if (!checked.ok()) return unary->Finish(checked, details);
  unary->Begin(engine_.ReadVariables(std::move(spec), [this, unary, in](ReadResult result) {
    if (!result.status.ok()) return unary->Finish(result.status, result.details);
    const bool slow =
        !in->keep() && std::any_of(result.values.begin(), result.values.end(),
                                   [](const auto& read) { return SlowToEncode(read.value); });
    unary->Encode(slow, [this, unary, in, values = std::move(result.values)] {
      unary->Finish(AnswerRead(*unary, *in, values));
    });
  }));
}

absl::Status GraphService::AnswerRead(UnaryRequest& unary, const v1::ReadVariablesRequest& in,
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
        engine_.KeepTensor(in.namespace_(), OwnerOf(in.client_id(), unary.context()),
                           DurationFrom(in.keep_for()), values[i].value);
    if (!id.ok()) {
      engine_.ReleaseTensors(in.namespace_(), kept);
      return id.status();
    }
    kept.push_back(*id);
    outputs[i].kept_id = *id;
  }
  return EncodeReadVariables(engine_.epoch(), variables, outputs,
                             in.has_range() ? &in.range() : nullptr, scope_.max_message_bytes,
                             unary.response());
}

GraphService::Reactor* GraphService::AssignVariables(Context* context, const Bytes* request,
                                                     Bytes* response) {
  return UnaryRequest::Start(
      scope_, "AssignVariables", context, request, response, PoolFor(*request),
      [this](const auto& unary) {
        DecodedAssign in;
        ErrorDetails details;
        absl::Status status = DecodeAssignRequest(unary->message(), engine_.allocator(), &in);
        if (status.ok() && in.names_by_id()) {
          status = engine_.CheckEpoch(in.expected_epoch, &details);
        }
        if (!status.ok()) return unary->Finish(status, details);
        AssignSpec spec;
        spec.name_space = in.name_space;
        spec.deadline = unary->deadline();
        for (auto& [target, argument] : in.values) {
          absl::StatusOr<Tensor> value = ValueOf(engine_, in.name_space, std::move(argument));
          if (!value.ok()) return unary->Finish(value.status());
          spec.values.emplace_back(std::move(target), *std::move(value));
        }
        unary->Begin(engine_.AssignVariables(std::move(spec), [this, unary](AssignResult result) {
          if (!result.status.ok()) return unary->Finish(result.status, result.details);
          v1::AssignVariablesResponse out;
          out.set_epoch(engine_.epoch());
          for (const VariableInfo& variable : result.variables) {
            ToMessage(variable, out.add_variables());
          }
          unary->Finish(Serialize(out, scope_.max_message_bytes, unary->response()));
        }));
      });
}

GraphService::Reactor* GraphService::ListVariables(Context* context, const Bytes* request,
                                                   Bytes* response) {
  return Answer<v1::ListVariablesRequest, v1::ListVariablesResponse>(
      {"ListVariables", context, request, response},
      [this](const auto& in, auto* out, ErrorDetails*) -> absl::Status {
        FORMWORK_ASSIGN_OR_RETURN(
            const std::vector<VariableInfo> page,
            PageOf(
                engine_.ListVariables(in.namespace_()), in.page_size(), in.page_token(),
                [](const VariableInfo& variable) { return PageKey(variable.name, variable.id); },
                [&](const VariableInfo& variable) {
                  return FitsPattern(variable.name, in.filter());
                },
                out->mutable_next_page_token()));
        for (const VariableInfo& variable : page) ToMessage(variable, out->add_variables());
        return absl::OkStatus();
      });
}

GraphService::Reactor* GraphService::DeleteVariable(Context* context, const Bytes* request,
                                                    Bytes* response) {
  return Answer<v1::DeleteVariableRequest, v1::DeleteVariableResponse>(
      {"DeleteVariable", context, request, response},
      [this](const auto& in, auto* out, ErrorDetails* details) -> absl::Status {
        FORMWORK_ASSIGN_OR_RETURN(const Target target, TargetFrom(in.variable()));
        if (target.id != 0) {
          FORMWORK_RETURN_IF_ERROR(engine_.CheckEpoch(in.expected_epoch(), details));
        }
        const absl::Status deleted = engine_.DeleteVariable(in.namespace_(), target);
        out->set_deleted(deleted.ok());
        return in.allow_missing() && absl::IsNotFound(deleted) ? absl::OkStatus() : deleted;
      });
}

// --- Kept tensors.

grpc::ServerReadReactor<grpc::ByteBuffer>* GraphService::WriteTensor(Context* context,
                                                                     Bytes* response) {
  auto stream = std::make_shared<TensorWriter>(scope_, streams_, *context, *response);
  stream->Start();
  return stream.get();
}

GraphService::Reactor* GraphService::ReadTensor(Context* context, const Bytes* request,
                                                Bytes* response) {
  return Begin<v1::ReadTensorRequest>(
      {"ReadTensor", context, request, response}, [this](const auto& unary, auto in) {
        ErrorDetails details;
        const absl::Status checked = engine_.CheckEpoch(in.expected_epoch(), &details);
        if (!checked.ok()) return unary->Finish(checked, details);
        absl::StatusOr<Tensor> tensor = engine_.ReadTensor(in.namespace_(), in.id());
        if (!tensor.ok()) return unary->Finish(tensor.status());
        const bool slow = SlowToEncode(*tensor);
        unary->Encode(slow, [this, unary, in = std::move(in), tensor = *std::move(tensor)] {
          unary->Finish(EncodeReadTensor(engine_.epoch(), tensor,
                                         in.has_range() ? &in.range() : nullptr,
                                         scope_.max_message_bytes, unary->response()));
        });
      });
}

GraphService::Reactor* GraphService::ListTensors(Context* context, const Bytes* request,
                                                 Bytes* response) {
  return Answer<v1::ListTensorsRequest, v1::ListTensorsResponse>(
      {"ListTensors", context, request, response},
      [this](const auto& in, auto* out, ErrorDetails*) -> absl::Status {
        FORMWORK_ASSIGN_OR_RETURN(
            const std::vector<KeptTensorInfo> page,
            PageOf(
                engine_.ListTensors(in.namespace_()), in.page_size(), in.page_token(),
                [](const KeptTensorInfo& tensor) { return PageKey("", tensor.id); },
                [&](const KeptTensorInfo& tensor) {
                  return in.owner().empty() || tensor.owner == in.owner();
                },
                out->mutable_next_page_token()));
        for (const KeptTensorInfo& tensor : page) ToMessage(tensor, out->add_tensors());
        return absl::OkStatus();
      });
}

GraphService::Reactor* GraphService::ReleaseTensors(Context* context, const Bytes* request,
                                                    Bytes* response) {
  return Answer<v1::ReleaseTensorsRequest, v1::ReleaseTensorsResponse>(
      {"ReleaseTensors", context, request, response},
      [this](const auto& in, auto* out, ErrorDetails* details) -> absl::Status {
        FORMWORK_RETURN_IF_ERROR(engine_.CheckEpoch(in.expected_epoch(), details));
        out->set_released(engine_.ReleaseTensors(in.namespace_(), in.ids()));
        return absl::OkStatus();
      });
}

// --- The server.

GraphService::Reactor* GraphService::GetServerInfo(Context* context, const Bytes* request,
                                                   Bytes* response) {
  return Answer<v1::GetServerInfoRequest, v1::GetServerInfoResponse>(
      {"GetServerInfo", context, request, response},
      [this](const auto&, auto* out, ErrorDetails*) -> absl::Status {
        ToMessage(engine_.Info(), options_, absl::Now() - started_, out->mutable_server());
        ToMessage(engine_.Stats(), out->mutable_stats());
        return absl::OkStatus();
      });
}

GraphService::Reactor* GraphService::Clear(Context* context, const Bytes* request,
                                           Bytes* response) {
  return Answer<v1::ClearRequest, v1::ClearResponse>(
      {"Clear", context, request, response},
      [this](const auto& in, auto*, ErrorDetails*) -> absl::Status {
        engine_.Clear(in.namespace_());
        return absl::OkStatus();
      });
}

}  // namespace formwork::server
