#include "server/serving/prediction_service.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "server/inline_turn.h"
#include "server/parsed_message.h"
#include "server/serving/predict.h"
#include "server/serving/predict_codec.h"
#include "server/value_codec.h"

namespace formwork::server {
namespace {

namespace serving = tensorflow::serving;

constexpr char kNamespaceKey[] = "formwork-namespace";

std::string NamespaceFrom(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(kNamespaceKey);
  if (found == metadata.end()) return "";
  return std::string(found->second.data(), found->second.size());
}

// --- Predict ---

absl::StatusOr<PredictCall> ReadPredict(const RequestScope& scope, UnaryRequest& unary) {
  DecodedPredict request;
  FORMWORK_RETURN_IF_ERROR(
      DecodePredictRequest(unary.message(), scope.engine.allocator(), &request));
  request.model.name_space = NamespaceFrom(unary.context());
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<NamedFunction> functions,
                            FindModel(scope.engine, request.model));
  FORMWORK_ASSIGN_OR_RETURN(PredictCall call,
                            MakePredictCall(request.model, functions, request.names,
                                            std::move(request.values), request.output_filter));
  call.spec.deadline = unary.deadline();
  return call;
}

void AnswerPrediction(const RequestScope& scope, UnaryRequest& unary, PredictCall call,
                      CallResult result) {
  unary.set_function_name(std::move(result.function_name));
  if (!result.status.ok()) return unary.Finish(result.status, result.details, result.printed);
  ErrorDetails details;
  details.effects = Effects::kAll;  // Of a response that cannot be sent: the call has run.
  const bool slow = SlowToEncode(result);
  absl::StatusOr<Prediction> prediction = PredictionOf(std::move(call), std::move(result));
  if (!prediction.ok()) return unary.Finish(prediction.status(), details);
  auto encode = [&scope, &response = *unary.response(), made = *std::move(prediction)] {
    return EncodePredictResponse(made.model, made.names, made.values, scope.max_message_bytes,
                                 &response);
  };
  if (!slow) return unary.Finish(encode(), details);
  unary.AnswerLarge(std::move(encode), std::move(details));
}

// `again`: where the model's function was replaced once between being found and called.
void RunPredict(const RequestScope& scope, const std::shared_ptr<UnaryRequest>& unary,
                bool again = false) {
  absl::StatusOr<PredictCall> call =
      HoldToBudget(scope.engine.memory(), [&] { return ReadPredict(scope, *unary); });
  if (!call.ok()) return unary->Finish(call.status(), NothingDone());
  const InlineTurn turn(scope.inline_turns, /*wanted=*/true);
  turn.Apply(call->spec);
  CallSpec spec = std::move(call->spec);
  unary->Begin(scope.engine.Call(
      std::move(spec), [&scope, unary, again, made = *std::move(call)](CallResult result) mutable {
        unary->Guard([&] {
          if (!again && WasReplaced(result)) return RunPredict(scope, unary, /*again=*/true);
          AnswerPrediction(scope, *unary, std::move(made), std::move(result));
        });
      }));
}

// --- What there is ---

absl::Status ModelFrom(const serving::ModelSpec& in, const grpc::CallbackServerContext& context,
                       ModelSpec* model) {
  if (!in.version_label().empty()) {
    return Unimplemented("versions by their labels (model_spec.version_label)");
  }
  model->name_space = NamespaceFrom(context);
  model->name = in.name();
  if (in.has_version()) model->version = static_cast<uint64_t>(in.version().value());
  return absl::OkStatus();
}

void ToMessage(absl::Span<const TensorSpec> specs,
               google::protobuf::Map<std::string, tf::TensorInfo>* infos) {
  for (const TensorSpec& spec : specs) {
    tf::TensorInfo& info = (*infos)[spec.name];
    info.set_name(spec.name);
    info.set_dtype(static_cast<tf::DataType>(spec.dtype));
    tf::TensorShapeProto& shape = *info.mutable_tensor_shape();
    shape.set_unknown_rank(!spec.shape.known_rank());
    for (const int64_t dim : spec.shape.dims()) shape.add_dim()->set_size(dim);
  }
}

absl::Status AnswerMetadata(const RequestScope& scope, const grpc::CallbackServerContext& context,
                            const serving::GetModelMetadataRequest& in,
                            serving::GetModelMetadataResponse* out) {
  constexpr char kSignatureDef[] = "signature_def";
  if (in.metadata_field().empty()) {
    return InvalidArgument("metadata_field names nothing: there is '", kSignatureDef, "'");
  }
  for (const std::string& field : in.metadata_field()) {
    if (field != kSignatureDef) {
      return InvalidArgument("metadata_field: there is no '", field, "', but '", kSignatureDef,
                             "'");
    }
  }
  ModelSpec model;
  FORMWORK_RETURN_IF_ERROR(ModelFrom(in.model_spec(), context, &model));
  using Signatures = std::map<std::string, NamedFunction>;
  FORMWORK_ASSIGN_OR_RETURN(const Signatures signatures, SignaturesOf(scope.engine, model));
  auto* const map =
      google::protobuf::Arena::CreateMessage<serving::SignatureDefMap>(out->GetArena());
  for (const auto& [name, function] : signatures) {
    tf::SignatureDef& signature = (*map->mutable_signature_def())[name];
    signature.set_method_name("tensorflow/serving/predict");
    ToMessage(function.values->inputs, signature.mutable_inputs());
    ToMessage(function.values->outputs, signature.mutable_outputs());
  }
  (*out->mutable_metadata())[kSignatureDef].PackFrom(*map);
  out->mutable_model_spec()->set_name(model.name);
  out->mutable_model_spec()->mutable_version()->set_value(
      static_cast<int64_t>(signatures.begin()->second.model_version));
  return absl::OkStatus();
}

absl::Status AnswerStatus(const RequestScope& scope, const grpc::CallbackServerContext& context,
                          const serving::GetModelStatusRequest& in,
                          serving::GetModelStatusResponse* out) {
  ModelSpec model;
  FORMWORK_RETURN_IF_ERROR(ModelFrom(in.model_spec(), context, &model));
  using Signatures = std::map<std::string, NamedFunction>;
  FORMWORK_ASSIGN_OR_RETURN(const Signatures signatures, SignaturesOf(scope.engine, model));
  serving::ModelVersionStatus* const status = out->add_model_version_status();
  status->set_version(static_cast<int64_t>(signatures.begin()->second.model_version));
  status->set_state(serving::ModelVersionStatus::AVAILABLE);
  status->mutable_status();
  return absl::OkStatus();
}

// Runs `answer` with parsed messages on a thread of ours.
template <typename Request, typename Response>
grpc::ServerUnaryReactor* AnswerParsed(const RequestScope& scope, const char* method,
                                       grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* message, grpc::ByteBuffer* answered,
                                       absl::Status (*answer)(const RequestScope&,
                                                              const grpc::CallbackServerContext&,
                                                              const Request&, Response*)) {
  const auto body = [&scope, answer](const std::shared_ptr<UnaryRequest>& unary) {
    ArenaMessage<Request> request;
    ArenaMessage<Response> response;
    const auto run = [&]() -> absl::Status {
      FORMWORK_RETURN_IF_ERROR(Parse(unary->message(), scope.engine.memory(), request));
      FORMWORK_RETURN_IF_ERROR(HoldToBudget(scope.engine.memory(), [&] {
        return answer(scope, unary->context(), *request, &*response);
      }));
      return Serialize(*response, scope.max_message_bytes, unary->response());
    };
    unary->Finish(run(), NothingDone());
  };
  return UnaryRequest::Start(scope, method, context, message, answered, &scope.transfers, body,
                             NamespaceFrom(*context));
}

// `instead`: what there is.
grpc::ServerUnaryReactor* RefuseMethod(const RequestScope& scope, const char* method,
                                       absl::string_view instead,
                                       grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) {
  const auto body = [method, instead](const std::shared_ptr<UnaryRequest>& unary) {
    unary->Finish(Unimplemented("tensorflow.serving's ", method, ": there is ", instead),
                  NothingDone());
  };
  return UnaryRequest::Start(scope, method, context, request, response, nullptr, body,
                             NamespaceFrom(*context));
}

}  // namespace

PredictionService::Reactor* PredictionService::Predict(Context* context, const Bytes* request,
                                                       Bytes* response) {
  TaskPool* const pool = request->Length() < kLargeMessageBytes ? nullptr : &scope_.transfers;
  return UnaryRequest::Start(
      scope_, /*method=*/nullptr, context, request, response, pool,
      [this](const auto& unary) { RunPredict(scope_, unary); }, NamespaceFrom(*context));
}

PredictionService::Reactor* PredictionService::GetModelMetadata(Context* context,
                                                                const Bytes* request,
                                                                Bytes* response) {
  return AnswerParsed(scope_, "GetModelMetadata", context, request, response, &AnswerMetadata);
}

PredictionService::Reactor* PredictionService::Classify(Context* context, const Bytes* request,
                                                        Bytes* response) {
  return RefuseMethod(scope_, "Classify", "Predict", context, request, response);
}

PredictionService::Reactor* PredictionService::Regress(Context* context, const Bytes* request,
                                                       Bytes* response) {
  return RefuseMethod(scope_, "Regress", "Predict", context, request, response);
}

PredictionService::Reactor* PredictionService::MultiInference(Context* context,
                                                              const Bytes* request,
                                                              Bytes* response) {
  return RefuseMethod(scope_, "MultiInference", "Predict", context, request, response);
}

ModelService::Reactor* ModelService::GetModelStatus(Context* context, const Bytes* request,
                                                    Bytes* response) {
  return AnswerParsed(scope_, "GetModelStatus", context, request, response, &AnswerStatus);
}

ModelService::Reactor* ModelService::HandleReloadConfigRequest(Context* context,
                                                               const Bytes* request,
                                                               Bytes* response) {
  return RefuseMethod(scope_, "HandleReloadConfigRequest",
                      "formwork.v1's LoadSavedModel (formwork load)", context, request, response);
}

}  // namespace formwork::server
