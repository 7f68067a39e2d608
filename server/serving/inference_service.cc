#include "server/serving/inference_service.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/status.h"
#include "server/serving/infer.h"
#include "server/serving/infer_codec.h"
#include "server/serving/infer_models.h"
#include "server/serving/infer_stream.h"
#include "server/serving/model_methods.h"
#include "server/version.h"

namespace formwork::server {
namespace {

constexpr char kInferService[] = "the Open Inference Protocol";

absl::StatusOr<PredictCall> ReadInfer(const RequestScope& scope, const grpc::ByteBuffer& message,
                                      std::string name_space) {
  InferRequest request;
  FORMWORK_RETURN_IF_ERROR(DecodeInferRequest(message, scope.engine.allocator(), &request));
  request.model.name_space = std::move(name_space);
  return MakeInferCall(scope.engine, std::move(request));
}

constexpr PredictionCodec kInferCodec = {&ReadInfer, &EncodeInferResponse};

// --- What there is ---

// The model that a request of these names.
template <typename Request>
absl::StatusOr<ModelSpec> InferModelFrom(const Request& in, const std::string& name_space) {
  FORMWORK_ASSIGN_OR_RETURN(const uint64_t version, VersionFrom(in.version()));
  return ModelSpec{name_space, in.name(), version, ""};
}

absl::Status AnswerModelReady(Engine& engine, const std::string& name_space,
                              const inference::ModelReadyRequest& in,
                              inference::ModelReadyResponse* out) {
  const absl::StatusOr<ModelSpec> model = InferModelFrom(in, name_space);
  const absl::Status found = model.ok() ? FindModel(engine, *model).status() : model.status();
  if (!found.ok() && !absl::IsNotFound(found)) return found;
  out->set_ready(found.ok());
  return absl::OkStatus();
}

template <typename Infos>
void AddTensorMetadata(const std::vector<InferModel::Value>& values, Infos* infos) {
  for (const InferModel::Value& value : values) {
    auto& info = *infos->Add();
    info.set_name(value.name);
    info.set_datatype(std::string(DatatypeOf(value.dtype)));
    info.mutable_shape()->Add(value.shape.begin(), value.shape.end());
  }
}

absl::Status AnswerModelMetadata(Engine& engine, const std::string& name_space,
                                 const inference::ModelMetadataRequest& in,
                                 inference::ModelMetadataResponse* out) {
  FORMWORK_ASSIGN_OR_RETURN(const ModelSpec asked, InferModelFrom(in, name_space));
  FORMWORK_ASSIGN_OR_RETURN(const InferModel model, DescribeModel(engine, asked));
  out->set_name(model.name);
  if (model.version != 0) out->add_versions(VersionTextOf(model.version));
  out->set_platform(kPlatform);
  AddTensorMetadata(model.inputs, out->mutable_inputs());
  AddTensorMetadata(model.outputs, out->mutable_outputs());
  return absl::OkStatus();
}

template <typename Infos>
void AddConfig(const InferModel& model, const std::vector<InferModel::Value>& values,
               Infos* infos) {
  for (const InferModel::Value& value : values) {
    auto& info = *infos->Add();
    info.set_name(value.name);
    inference::DataType type = inference::TYPE_INVALID;
    inference::DataType_Parse(ConfigTypeOf(value.dtype), &type);
    info.set_data_type(type);
    const absl::Span<const int64_t> dims = model.ConfigDims(value);
    info.mutable_dims()->Add(dims.begin(), dims.end());
  }
}

absl::Status AnswerModelConfig(Engine& engine, const std::string& name_space,
                               const inference::ModelConfigRequest& in,
                               inference::ModelConfigResponse* out) {
  FORMWORK_ASSIGN_OR_RETURN(const ModelSpec asked, InferModelFrom(in, name_space));
  FORMWORK_ASSIGN_OR_RETURN(const InferModel model, DescribeModel(engine, asked));
  inference::ModelConfig& config = *out->mutable_config();
  config.set_name(model.name);
  config.set_platform(kPlatform);
  config.set_max_batch_size(model.max_batch_size());
  if (model.max_batch_size() > 0) config.mutable_dynamic_batching();
  AddConfig(model, model.inputs, config.mutable_input());
  AddConfig(model, model.outputs, config.mutable_output());
  return absl::OkStatus();
}

absl::Status AnswerIndex(Engine& engine, const std::string& name_space,
                         const inference::RepositoryIndexRequest& in,
                         inference::RepositoryIndexResponse* out) {
  FORMWORK_RETURN_IF_ERROR(CheckRepository(in.repository_name()));
  for (const ModelSpec& model : ListModels(engine, name_space)) {
    auto& listed = *out->add_models();
    listed.set_name(model.name);
    listed.set_version(VersionTextOf(model.version));
    listed.set_state(kReadyState);
  }
  return absl::OkStatus();
}

}  // namespace

// --- Inferences ---

InferenceService::Reactor* InferenceService::ModelInfer(Context* context, const Bytes* request,
                                                        Bytes* response) {
  return AnswerPredict(scope_, kInferCodec, context, request, response);
}

// It is held by streams_ until gRPC is done with it.
grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* InferenceService::ModelStreamInfer(
    Context* context) {
  auto stream = std::make_shared<InferStream>(scope_, streams_, *context);
  stream->Start();
  return stream.get();
}

// --- What there is ---

InferenceService::Reactor* InferenceService::ServerLive(Context* context, const Bytes* request,
                                                        Bytes* response) {
  return AnswerParsed<inference::ServerLiveRequest, inference::ServerLiveResponse>(
      scope_, "ServerLive", /*pool=*/nullptr, context, request, response,
      [this](const std::string&, const auto&, auto* out) {
        out->set_live(scope_.engine.DeviceStatus().ok());
        return absl::OkStatus();
      });
}

InferenceService::Reactor* InferenceService::ServerReady(Context* context, const Bytes* request,
                                                         Bytes* response) {
  return AnswerParsed<inference::ServerReadyRequest, inference::ServerReadyResponse>(
      scope_, "ServerReady", /*pool=*/nullptr, context, request, response,
      [this](const std::string&, const auto&, auto* out) {
        out->set_ready(is_ready_());
        return absl::OkStatus();
      });
}

InferenceService::Reactor* InferenceService::ServerMetadata(Context* context, const Bytes* request,
                                                            Bytes* response) {
  return AnswerParsed<inference::ServerMetadataRequest, inference::ServerMetadataResponse>(
      scope_, "ServerMetadata", /*pool=*/nullptr, context, request, response,
      [](const std::string&, const auto&, auto* out) {
        out->set_name(kServerName);
        out->set_version(kVersion);
        for (const char* extension : kExtensions) out->add_extensions(extension);
        return absl::OkStatus();
      });
}

InferenceService::Reactor* InferenceService::ModelReady(Context* context, const Bytes* request,
                                                        Bytes* response) {
  return AnswerModels(scope_, "ModelReady", context, request, response, &AnswerModelReady);
}

InferenceService::Reactor* InferenceService::ModelMetadata(Context* context, const Bytes* request,
                                                           Bytes* response) {
  return AnswerModels(scope_, "ModelMetadata", context, request, response, &AnswerModelMetadata);
}

InferenceService::Reactor* InferenceService::ModelConfig(Context* context, const Bytes* request,
                                                         Bytes* response) {
  return AnswerModels(scope_, "ModelConfig", context, request, response, &AnswerModelConfig);
}

InferenceService::Reactor* InferenceService::RepositoryIndex(Context* context, const Bytes* request,
                                                             Bytes* response) {
  return AnswerModels(scope_, "RepositoryIndex", context, request, response, &AnswerIndex);
}

// --- What there is not ---

#define FORMWORK_UNANSWERED(method, instead)                                                  \
  InferenceService::Reactor* InferenceService::method(Context* context, const Bytes* request, \
                                                      Bytes* response) {                      \
    return RefuseMethod(scope_, kInferService, #method, instead, context, request, response); \
  }
FORMWORK_UNANSWERED(ModelStatistics, kInsteadOfStatistics)
FORMWORK_UNANSWERED(RepositoryModelLoad, kInsteadOfLoading)
FORMWORK_UNANSWERED(RepositoryModelUnload, kInsteadOfUnloading)
FORMWORK_UNANSWERED(SystemSharedMemoryStatus, kInsteadOfSharedMemory)
FORMWORK_UNANSWERED(SystemSharedMemoryRegister, kInsteadOfSharedMemory)
FORMWORK_UNANSWERED(SystemSharedMemoryUnregister, kInsteadOfSharedMemory)
FORMWORK_UNANSWERED(CudaSharedMemoryStatus, kInsteadOfSharedMemory)
FORMWORK_UNANSWERED(CudaSharedMemoryRegister, kInsteadOfSharedMemory)
FORMWORK_UNANSWERED(CudaSharedMemoryUnregister, kInsteadOfSharedMemory)
FORMWORK_UNANSWERED(TraceSetting, kInsteadOfTraces)
FORMWORK_UNANSWERED(LogSettings, kInsteadOfLogSettings)
#undef FORMWORK_UNANSWERED

}  // namespace formwork::server
