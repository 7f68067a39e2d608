#pragma once

// What gRPC methods about models share, whichever service they are of.

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/memory_budget.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/parsed_message.h"
#include "server/request_scope.h"
#include "server/serving/predict.h"
#include "server/unary_request.h"

namespace formwork::server {

/// The namespace of a request: what its metadata calls `formwork-namespace`.
std::string NamespaceFrom(const grpc::CallbackServerContext& context);

/// How the messages of a method that predicts are read and written.
struct PredictionCodec {
  /// The call that `message` asks for, without a deadline.
  absl::StatusOr<PredictCall> (*read)(const RequestScope& scope, const grpc::ByteBuffer& message,
                                      std::string name_space);
  absl::Status (*write)(const Prediction& prediction, size_t limit, grpc::ByteBuffer* message);
};

/// The deadline of a call that came at `arrival` over an RPC whose own deadline is `deadline`.
inline absl::Time DeadlineOf(const PredictCall& call, absl::Time arrival, absl::Time deadline) {
  return std::min(deadline, arrival + call.timeout);
}

/// Runs a method that predicts, counted as a call; to be called in its handler, which returns what
/// this does. `codec` outlives the request.
grpc::ServerUnaryReactor* AnswerPredict(const RequestScope& scope, const PredictionCodec& codec,
                                        grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response);

/// Runs a method that says what there is: `answer` with parsed messages, on a thread of `pool`, or
/// here where that is null and the message small, for what takes no time.
template <typename Request, typename Response>
grpc::ServerUnaryReactor* AnswerParsed(
    const RequestScope& scope, const char* method, TaskPool* pool,
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* message,
    grpc::ByteBuffer* answered,
    std::function<absl::Status(const std::string& name_space, const Request&, Response*)> answer) {
  if (pool == nullptr && message->Length() >= kLargeMessageBytes) pool = &scope.transfers;
  std::string name_space = NamespaceFrom(*context);
  auto body = [&scope, name_space,
               answer = std::move(answer)](const std::shared_ptr<UnaryRequest>& unary) {
    ArenaMessage<Request> request;
    ArenaMessage<Response> response;
    const auto run = [&]() -> absl::Status {
      FORMWORK_RETURN_IF_ERROR(Parse(unary->message(), scope.engine.memory(), request));
      FORMWORK_RETURN_IF_ERROR(HoldToBudget(
          scope.engine.memory(), [&] { return answer(name_space, *request, &*response); }));
      return Serialize(*response, scope.max_message_bytes, unary->response());
    };
    unary->Finish(run(), NothingDone());
  };
  return UnaryRequest::Start(scope, method, context, message, answered, pool, std::move(body),
                             name_space);
}

/// The same on a thread of ours, of the models that there are.
template <typename Request, typename Response>
grpc::ServerUnaryReactor* AnswerModels(
    const RequestScope& scope, const char* method, grpc::CallbackServerContext* context,
    const grpc::ByteBuffer* request, grpc::ByteBuffer* response,
    absl::Status (*answer)(Engine&, const std::string& name_space, const Request&, Response*)) {
  return AnswerParsed<Request, Response>(
      scope, method, &scope.transfers, context, request, response,
      [&engine = scope.engine, answer](const std::string& name_space, const Request& in,
                                       Response* out) {
        return answer(engine, name_space, in, out);
      });
}

/// Refuses a method that a service has and we do not: UNIMPLEMENTED. `service`: whose it is;
/// `instead`: what there is. What these point to outlives the request.
grpc::ServerUnaryReactor* RefuseMethod(const RequestScope& scope, absl::string_view service,
                                       const char* method, absl::string_view instead,
                                       grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request, grpc::ByteBuffer* response);

}  // namespace formwork::server
