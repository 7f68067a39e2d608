#include "server/serving/model_methods.h"

#include "core/base/status.h"
#include "server/serving/call_model.h"
#include "server/value_codec.h"

namespace formwork::server {
namespace {

constexpr char kNamespaceKey[] = "formwork-namespace";

// A unary request for a prediction, as CallModel takes it.
struct UnaryPrediction {
  const RequestScope& scope;
  const PredictionCodec& codec;
  std::shared_ptr<UnaryRequest> unary;

  absl::StatusOr<PredictCall> Read() {
    FORMWORK_ASSIGN_OR_RETURN(PredictCall call,
                              codec.read(scope, unary->message(), NamespaceFrom(unary->context())));
    call.spec.deadline = DeadlineOf(call, unary->arrival(), unary->deadline());
    return call;
  }
  bool MayTakeTurn() const { return true; }
  void Begin(std::shared_ptr<CallHandle> handle) { unary->Begin(std::move(handle)); }
  void Guard(absl::FunctionRef<void()> work) { unary->Guard(work); }
  void Refuse(const absl::Status& status) { unary->Finish(status, NothingDone()); }

  void Answer(PredictCall call, CallResult result) {
    unary->set_function_name(std::move(result.function_name));
    if (!result.status.ok()) return unary->Finish(result.status, result.details, result.printed);
    ErrorDetails details;
    details.effects = Effects::kAll;  // Of a response that cannot be sent: the call has run.
    const bool slow = SlowToEncode(result);
    absl::StatusOr<Prediction> prediction = PredictionOf(std::move(call), std::move(result));
    if (!prediction.ok()) return unary->Finish(prediction.status(), details);
    auto encode = [&codec = codec, limit = scope.max_message_bytes, &response = *unary->response(),
                   made = *std::move(prediction)] { return codec.write(made, limit, &response); };
    if (!slow) return unary->Finish(encode(), details);
    unary->AnswerLarge(std::move(encode), std::move(details));
  }
};

}  // namespace

std::string NamespaceFrom(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(kNamespaceKey);
  if (found == metadata.end()) return "";
  return std::string(found->second.data(), found->second.size());
}

grpc::ServerUnaryReactor* AnswerPredict(const RequestScope& scope, const PredictionCodec& codec,
                                        grpc::CallbackServerContext* context,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) {
  TaskPool* const pool = request->Length() < kLargeMessageBytes ? nullptr : &scope.transfers;
  return UnaryRequest::Start(
      scope, /*method=*/nullptr, context, request, response, pool,
      [&scope, &codec](const auto& unary) {
        CallModel(scope, UnaryPrediction{scope, codec, unary});
      },
      NamespaceFrom(*context));
}

grpc::ServerUnaryReactor* RefuseMethod(const RequestScope& scope, absl::string_view service,
                                       const char* method, absl::string_view instead,
                                       grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) {
  const auto body = [service, method, instead](const std::shared_ptr<UnaryRequest>& unary) {
    unary->Finish(Unimplemented(service, "'s ", method, ": there is ", instead), NothingDone());
  };
  return UnaryRequest::Start(scope, method, context, request, response, nullptr, body,
                             NamespaceFrom(*context));
}

}  // namespace formwork::server
