#include "server/serving/prediction_service.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "server/serving/model_methods.h"
#include "server/serving/predict.h"
#include "server/serving/predict_codec.h"

namespace formwork::server {
namespace {

namespace serving = tensorflow::serving;

constexpr char kService[] = "tensorflow.serving";

absl::StatusOr<PredictCall> ReadPredict(const RequestScope& scope, const grpc::ByteBuffer& message,
                                        std::string name_space) {
  DecodedPredict request;
  FORMWORK_RETURN_IF_ERROR(DecodePredictRequest(message, scope.engine.allocator(), &request));
  request.model.name_space = std::move(name_space);
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<NamedFunction> functions,
                            FindModel(scope.engine, request.model));
  return MakePredictCall(request.model, functions, request.names, std::move(request.values),
                         {request.output_filter, "output_filter"});
}

constexpr PredictionCodec kPredictCodec = {&ReadPredict, &EncodePredictResponse};

// --- What there is ---

absl::Status ModelFrom(const serving::ModelSpec& in, const std::string& name_space,
                       ModelSpec* model) {
  if (!in.version_label().empty()) {
    return Unimplemented("versions by their labels (model_spec.version_label)");
  }
  model->name_space = name_space;
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

absl::Status AnswerMetadata(Engine& engine, const std::string& name_space,
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
  FORMWORK_RETURN_IF_ERROR(ModelFrom(in.model_spec(), name_space, &model));
  using Signatures = std::map<std::string, NamedFunction>;
  FORMWORK_ASSIGN_OR_RETURN(const Signatures signatures, SignaturesOf(engine, model));
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

absl::Status AnswerStatus(Engine& engine, const std::string& name_space,
                          const serving::GetModelStatusRequest& in,
                          serving::GetModelStatusResponse* out) {
  ModelSpec model;
  FORMWORK_RETURN_IF_ERROR(ModelFrom(in.model_spec(), name_space, &model));
  using Signatures = std::map<std::string, NamedFunction>;
  FORMWORK_ASSIGN_OR_RETURN(const Signatures signatures, SignaturesOf(engine, model));
  serving::ModelVersionStatus* const status = out->add_model_version_status();
  status->set_version(static_cast<int64_t>(signatures.begin()->second.model_version));
  status->set_state(serving::ModelVersionStatus::AVAILABLE);
  status->mutable_status();
  return absl::OkStatus();
}

}  // namespace

PredictionService::Reactor* PredictionService::Predict(Context* context, const Bytes* request,
                                                       Bytes* response) {
  return AnswerPredict(scope_, kPredictCodec, context, request, response);
}

PredictionService::Reactor* PredictionService::GetModelMetadata(Context* context,
                                                                const Bytes* request,
                                                                Bytes* response) {
  return AnswerModels(scope_, "GetModelMetadata", context, request, response, &AnswerMetadata);
}

PredictionService::Reactor* PredictionService::Classify(Context* context, const Bytes* request,
                                                        Bytes* response) {
  return RefuseMethod(scope_, kService, "Classify", "Predict", context, request, response);
}

PredictionService::Reactor* PredictionService::Regress(Context* context, const Bytes* request,
                                                       Bytes* response) {
  return RefuseMethod(scope_, kService, "Regress", "Predict", context, request, response);
}

PredictionService::Reactor* PredictionService::MultiInference(Context* context,
                                                              const Bytes* request,
                                                              Bytes* response) {
  return RefuseMethod(scope_, kService, "MultiInference", "Predict", context, request, response);
}

ModelService::Reactor* ModelService::GetModelStatus(Context* context, const Bytes* request,
                                                    Bytes* response) {
  return AnswerModels(scope_, "GetModelStatus", context, request, response, &AnswerStatus);
}

ModelService::Reactor* ModelService::HandleReloadConfigRequest(Context* context,
                                                               const Bytes* request,
                                                               Bytes* response) {
  return RefuseMethod(scope_, kService, "HandleReloadConfigRequest",
                      "formwork.v1's LoadSavedModel (formwork load)", context, request, response);
}

}  // namespace formwork::server
