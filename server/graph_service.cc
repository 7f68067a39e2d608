#include "server/graph_service.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "server/call_codec.h"
#include "server/info_messages.h"
#include "server/status_to_grpc.h"
#include "server/tensor_codec.h"
#include "server/type_messages.h"

namespace formwork::server {
namespace {

constexpr size_t kMaxQueued = 4096;

template <typename Message>
bool Parse(const grpc::ByteBuffer& bytes, Message* message) {
  grpc::ByteBuffer copy(bytes);  // Shares the slices; Deserialize clears what it is given.
  return grpc::SerializationTraits<Message>::Deserialize(&copy, message).ok();
}

template <typename Message>
absl::Status Serialize(const Message& message, grpc::ByteBuffer* bytes) {
  bool own;
  const grpc::Status status = grpc::SerializationTraits<Message>::Serialize(message, bytes, &own);
  if (status.ok()) return absl::OkStatus();
  return ResourceExhausted("the response is too large to send: bytes=", message.ByteSizeLong());
}

}  // namespace

struct GraphService::Exchange {
  const char* method;
  Context* context;
  const Bytes* request;
  Bytes* response;
  Reactor* reactor;

  Exchange(const char* method_name, Context* rpc, const Bytes* in, Bytes* out)
      : method(method_name),
        context(rpc),
        request(in),
        response(out),
        reactor(rpc->DefaultReactor()) {}
};

GraphService::GraphService(Engine& engine, Metrics& metrics)
    : engine_(engine),
      metrics_(metrics),
      requests_(4, kMaxQueued),
      scope_{engine, metrics, requests_} {}

void GraphService::Finish(const Exchange& exchange, const absl::Status& status,
                          const ErrorDetails& details) {
  metrics_.CountReceived(exchange.request->Length());
  if (status.ok()) metrics_.CountSent(exchange.response->Length());
  metrics_.CountRequest(exchange.method, status.code());
  exchange.reactor->Finish(ToGrpc(status, details, engine_.epoch(), exchange.context));
}

template <typename Body>
GraphService::Reactor* GraphService::Defer(TaskPool& pool, const Exchange& exchange, Body body) {
  if (!pool.Add(std::move(body))) {
    Finish(exchange, ResourceExhausted("too many requests wait: limit=", kMaxQueued));
  }
  return exchange.reactor;
}

template <typename Request, typename Response, typename Body>
GraphService::Reactor* GraphService::Answer(TaskPool& pool, const Exchange& exchange, Body body) {
  return Defer(pool, exchange, [this, exchange, body = std::move(body)] {
    Request request;
    Response response;
    ErrorDetails details;
    absl::Status status = InvalidArgument("malformed message: ", exchange.method, "Request");
    if (Parse(*exchange.request, &request)) {
      response.set_epoch(engine_.epoch());
      status = body(request, &response, &details);
    }
    if (status.ok()) status = Serialize(response, exchange.response);
    Finish(exchange, status, details);
  });
}

GraphService::Reactor* GraphService::Call(Context* context, const Bytes* request, Bytes* response) {
  return std::make_shared<UnaryCall>(scope_, context, request, response)->Start();
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* GraphService::CallStream(
    Context* context) {
  auto stream = std::make_shared<server::CallStream>(scope_, streams_, DeadlineOf(*context));
  stream->Start();
  return stream.get();  // Held by streams_ until gRPC is done with it.
}

GraphService::Reactor* GraphService::Register(Context* context, const Bytes* request,
                                              Bytes* response) {
  const Exchange exchange("Register", context, request, response);
  return Defer(requests_, exchange, [this, exchange] {
    v1::RegisterRequest in;
    if (!Parse(*exchange.request, &in)) {
      return Finish(exchange, InvalidArgument("malformed message: RegisterRequest"));
    }
    if (in.retrace()) metrics_.CountRetrace(exchange.context->peer());
    absl::StatusOr<Registration> registration = RegistrationFrom(in, engine_.allocator());
    if (!registration.ok()) return Finish(exchange, registration.status());
    registration->deadline = DeadlineOf(*exchange.context);
    engine_
        .Register(*std::move(registration),
                  [this, exchange](RegisterResult result) {
                    if (result.status.ok()) {
                      v1::RegisterResponse out;
                      out.set_epoch(engine_.epoch());
                      ToMessage(result.registered.function, out.mutable_function());
                      out.set_existed(result.registered.existed);
                      result.status = Serialize(out, exchange.response);
                    }
                    Finish(exchange, result.status, result.details);
                  })
        ->Start();
  });
}

GraphService::Reactor* GraphService::Resolve(Context* context, const Bytes* request,
                                             Bytes* response) {
  return Answer<v1::ResolveRequest, v1::ResolveResponse>(
      requests_, {"Resolve", context, request, response},
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
      requests_, {"ListFunctions", context, request, response},
      [this](const auto& in, auto* out, ErrorDetails*) -> absl::Status {
        for (const FunctionInfo& function : engine_.ListFunctions(in.namespace_())) {
          ToMessage(function, out->add_functions());
        }
        return absl::OkStatus();
      });
}

GraphService::Reactor* GraphService::DescribeFunction(Context* context, const Bytes* request,
                                                      Bytes* response) {
  return Answer<v1::DescribeFunctionRequest, v1::DescribeFunctionResponse>(
      requests_, {"DescribeFunction", context, request, response},
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
      requests_, {"Unregister", context, request, response},
      [this](const auto& in, auto* out, ErrorDetails*) -> absl::Status {
        FORMWORK_ASSIGN_OR_RETURN(
            const int64_t removed,
            engine_.Unregister(in.namespace_(), {in.function_id(), in.name()}));
        out->set_removed(removed);
        return absl::OkStatus();
      });
}

GraphService::Reactor* GraphService::CreateVariable(Context* context, const Bytes* request,
                                                    Bytes* response) {
  return Answer<v1::CreateVariableRequest, v1::CreateVariableResponse>(
      requests_, {"CreateVariable", context, request, response},
      [this](const auto& in, auto* out, ErrorDetails*) -> absl::Status {
        FORMWORK_ASSIGN_OR_RETURN(const DType dtype, DTypeFrom(in.dtype()));
        FORMWORK_ASSIGN_OR_RETURN(const PartialShape shape, ShapeFrom(in.shape()));
        std::optional<Tensor> value;
        if (in.has_initial_value()) {
          FORMWORK_ASSIGN_OR_RETURN(value,
                                    TensorFromMessage(in.initial_value(), engine_.allocator()));
        }
        FORMWORK_ASSIGN_OR_RETURN(
            const Engine::CreatedVariable created,
            engine_.CreateVariable(in.namespace_(), in.name(), dtype, shape, std::move(value)));
        ToMessage(created.variable, out->mutable_variable());
        out->set_existed(created.existed);
        return absl::OkStatus();
      });
}

GraphService::Reactor* GraphService::ReadVariable(Context* context, const Bytes* request,
                                                  Bytes* response) {
  const Exchange exchange("ReadVariable", context, request, response);
  DecodedRead read;
  const absl::Status decoded = DecodeReadRequest(*request, &read);
  if (!decoded.ok()) {
    Finish(exchange, decoded);
    return exchange.reactor;
  }
  engine_
      .ReadVariables({read.name_space, {{read.id, read.name}}, DeadlineOf(*context)},
                     [this, exchange](ReadResult result) {
                       if (!result.status.ok()) return Finish(exchange, result.status);
                       const VariableValue& value = result.values[0];
                       Finish(exchange, EncodeReadResponse(engine_.epoch(), &value.variable,
                                                           value.value, exchange.response));
                     })
      ->Start();
  return exchange.reactor;
}

GraphService::Reactor* GraphService::AssignVariable(Context* context, const Bytes* request,
                                                    Bytes* response) {
  const Exchange exchange("AssignVariable", context, request, response);
  return Defer(requests_, exchange, [this, exchange] {
    DecodedAssign assign;
    const absl::Status decoded =
        DecodeAssignRequest(*exchange.request, engine_.allocator(), &assign);
    if (!decoded.ok()) return Finish(exchange, decoded);
    AssignSpec spec;
    spec.name_space = assign.name_space;
    spec.values.push_back({{assign.id, assign.name}, std::move(assign.value)});
    spec.deadline = DeadlineOf(*exchange.context);
    engine_
        .AssignVariables(std::move(spec),
                         [this, exchange](AssignResult result) {
                           if (!result.status.ok()) return Finish(exchange, result.status);
                           v1::AssignVariableResponse out;
                           out.set_epoch(engine_.epoch());
                           ToMessage(result.variables[0], out.mutable_variable());
                           Finish(exchange, Serialize(out, exchange.response));
                         })
        ->Start();
  });
}

GraphService::Reactor* GraphService::ListVariables(Context* context, const Bytes* request,
                                                   Bytes* response) {
  return Answer<v1::ListVariablesRequest, v1::ListVariablesResponse>(
      requests_, {"ListVariables", context, request, response},
      [this](const auto& in, auto* out, ErrorDetails*) -> absl::Status {
        for (const VariableInfo& variable : engine_.ListVariables(in.namespace_())) {
          ToMessage(variable, out->add_variables());
        }
        return absl::OkStatus();
      });
}

GraphService::Reactor* GraphService::DeleteVariable(Context* context, const Bytes* request,
                                                    Bytes* response) {
  return Answer<v1::DeleteVariableRequest, v1::DeleteVariableResponse>(
      requests_, {"DeleteVariable", context, request, response},
      [this](const auto& in, auto*, ErrorDetails*) -> absl::Status {
        return engine_.DeleteVariable(in.namespace_(), {in.id(), in.name()});
      });
}

GraphService::Reactor* GraphService::ReadTensor(Context* context, const Bytes* request,
                                                Bytes* response) {
  const Exchange exchange("ReadTensor", context, request, response);
  return Defer(requests_, exchange, [this, exchange] {
    DecodedRead read;
    absl::Status status = DecodeReadRequest(*exchange.request, &read);
    if (!status.ok()) return Finish(exchange, status);
    const absl::StatusOr<Tensor> tensor = engine_.ReadTensor(read.name_space, read.id);
    if (!tensor.ok()) return Finish(exchange, tensor.status());
    Finish(exchange, EncodeReadResponse(engine_.epoch(), nullptr, *tensor, exchange.response));
  });
}

GraphService::Reactor* GraphService::ReleaseTensors(Context* context, const Bytes* request,
                                                    Bytes* response) {
  return Answer<v1::ReleaseTensorsRequest, v1::ReleaseTensorsResponse>(
      requests_, {"ReleaseTensors", context, request, response},
      [this](const auto& in, auto* out, ErrorDetails*) -> absl::Status {
        out->set_released(engine_.ReleaseTensors(in.namespace_(), in.ids()));
        return absl::OkStatus();
      });
}

GraphService::Reactor* GraphService::Clear(Context* context, const Bytes* request,
                                           Bytes* response) {
  return Answer<v1::ClearRequest, v1::ClearResponse>(
      requests_, {"Clear", context, request, response},
      [this](const auto& in, auto*, ErrorDetails*) -> absl::Status {
        engine_.Clear(in.namespace_());
        return absl::OkStatus();
      });
}

}  // namespace formwork::server
