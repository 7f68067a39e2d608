#include "server/serving/infer_rest.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "core/base/status.h"
#include "server/serving/infer.h"
#include "server/serving/infer_models.h"
#include "server/serving/json_infer.h"
#include "server/serving/json_input.h"
#include "server/serving/rest_path.h"
#include "server/tensor_codec.h"
#include "server/version.h"

namespace formwork::server {
namespace {

using InferJson = nlohmann::ordered_json;

// How many bytes of a body are JSON, where others follow.
constexpr char kHeaderLength[] = "Inference-Header-Content-Length";

InferJson ServerAsJson() {
  return {{"name", kServerName}, {"version", kVersion}, {"extensions", kExtensions}};
}

InferJson VersionsAsJson(uint64_t version) {
  return version == 0 ? InferJson::array() : InferJson::array({VersionTextOf(version)});
}

InferJson ModelAsJson(const InferModel& model) {
  const auto values = [](const std::vector<InferModel::Value>& all) {
    InferJson list = InferJson::array();
    for (const InferModel::Value& value : all) {
      list.push_back({{"name", value.name},
                      {"datatype", std::string(DatatypeOf(value.dtype))},
                      {"shape", std::vector<int64_t>(value.shape.begin(), value.shape.end())}});
    }
    return list;
  };
  return {{"name", model.name},
          {"versions", VersionsAsJson(model.version)},
          {"platform", kPlatform},
          {"inputs", values(model.inputs)},
          {"outputs", values(model.outputs)}};
}

InferJson ConfigAsJson(const InferModel& model) {
  const auto values = [&model](const std::vector<InferModel::Value>& all) {
    InferJson list = InferJson::array();
    for (const InferModel::Value& value : all) {
      const absl::Span<const int64_t> dims = model.ConfigDims(value);
      list.push_back({{"name", value.name},
                      {"data_type", ConfigTypeOf(value.dtype)},
                      {"dims", std::vector<int64_t>(dims.begin(), dims.end())}});
    }
    return list;
  };
  InferJson config = {{"name", model.name},
                      {"platform", kPlatform},
                      {"max_batch_size", model.max_batch_size()},
                      {"input", values(model.inputs)},
                      {"output", values(model.outputs)}};
  if (model.max_batch_size() > 0) config["dynamic_batching"] = InferJson::object();
  return config;
}

InferJson IndexAsJson(const std::vector<ModelSpec>& models) {
  InferJson list = InferJson::array();
  for (const ModelSpec& model : models) {
    list.push_back({{"name", model.name},
                    {"version", VersionTextOf(model.version)},
                    {"state", kReadyState},
                    {"reason", ""}});
  }
  return list;
}

HttpAnswer HealthAnswer(const char* what, bool holds) {
  return JsonAnswer(holds ? 200 : 503, {{what, holds}});
}

// The bytes behind the JSON, of inputs in their order.
class BinaryInputs {
 public:
  explicit BinaryInputs(absl::string_view bytes) : bytes_(bytes) {}

  // Errors name the input.
  absl::StatusOr<Tensor> Next(const JsonInferInput& input, Allocator& allocator) {
    absl::StatusOr<Tensor> tensor = Read(input, allocator);
    if (tensor.ok()) return tensor;
    return Annotate(tensor.status(), absl::StrCat("input ", ShownJsonName(input.name)));
  }

  absl::Status Finish() const {
    if (bytes_.empty()) return absl::OkStatus();
    return InvalidArgument("the body has bytes that are of no input: bytes=", bytes_.size());
  }

 private:
  absl::StatusOr<Tensor> Read(const JsonInferInput& input, Allocator& allocator) {
    const uint64_t size = *input.binary_bytes;
    if (size > bytes_.size()) {
      return InvalidArgument("binary_data_size is more than is left of the body: bytes=", size,
                             " left=", bytes_.size());
    }
    FORMWORK_ASSIGN_OR_RETURN(const DType dtype, DTypeFromDatatype(input.datatype));
    const absl::string_view piece = bytes_.substr(0, static_cast<size_t>(size));
    bytes_.remove_prefix(piece.size());
    const WireReader content(absl::MakeConstSpan(&piece, 1), piece.size());
    return TensorParts::Of(dtype, input.shape, content).Build(allocator);
  }

  absl::string_view bytes_;
};

class InferRest final : public RestRequest {
 public:
  InferRest(const RequestScope& scope, RestRequests& requests,
            const std::function<bool()>& is_ready, HttpRequest http, HttpServer::Reply reply)
      : RestRequest(scope, requests, std::move(http), std::move(reply)), is_ready_(is_ready) {}

 private:
  using What = InferPath::What;

  void Route() override {
    absl::StatusOr<InferPath> path =
        ParseInferPath(absl::string_view(http().path).substr(sizeof(kInferPath) - 1));
    if (!path.ok()) return Finish(path.status());
    path_ = *std::move(path);
    path_.model.name_space = name_space();
    if (path_.by_post() != is_post()) return RefuseMethod(is_post() ? "only GET" : "only POST");
    switch (path_.what) {
      case What::kServer:
        return Send(JsonAnswer(200, ServerAsJson()));
      case What::kLive:
        return Send(HealthAnswer("live", scope().engine.DeviceStatus().ok()));
      case What::kReady:
        return Send(HealthAnswer("ready", is_ready_()));
      case What::kInfer:
        return Predict();
      default:
        return Tell([this] { return Describe(); });
    }
  }

  absl::StatusOr<HttpAnswer> Describe() {
    Engine& engine = scope().engine;
    if (path_.what == What::kIndex) {
      return JsonAnswer(200, IndexAsJson(ListModels(engine, name_space())));
    }
    FORMWORK_ASSIGN_OR_RETURN(const InferModel model, DescribeModel(engine, path_.model));
    if (path_.what == What::kModelReady) {
      return JsonAnswer(200, {{"name", model.name}, {"ready", true}});
    }
    return JsonAnswer(200, path_.what == What::kConfig ? ConfigAsJson(model) : ModelAsJson(model));
  }

  absl::StatusOr<PredictCall> ReadPredict() override {
    absl::StatusOr<InferRequest> request = ReadRequest();
    if (!request.ok()) {
      return Annotate(request.status(), absl::StrCat("model '", path_.model.name, "'"));
    }
    request->model = path_.model;
    return MakeInferCall(scope().engine, *std::move(request));
  }

  absl::StatusOr<InferRequest> ReadRequest() {
    const absl::string_view encoding = http().Header("Content-Encoding");
    if (!encoding.empty() && encoding != "identity") {
      return Unimplemented("bodies are read as they are, and not with the Content-Encoding '",
                           encoding, "'");
    }
    const absl::string_view body = http().body.text();
    size_t head = body.size();
    const absl::string_view given = http().Header(kHeaderLength);
    if (!given.empty() && (!absl::SimpleAtoi(given, &head) || head > body.size())) {
      return InvalidArgument(kHeaderLength, " is no size of a part of the body: '", given,
                             "' bytes=", body.size());
    }
    FORMWORK_ASSIGN_OR_RETURN(JsonInfer json, ReadJsonInfer(body.substr(0, head)));
    forms_ = std::move(json.forms);
    BinaryInputs binary(body.substr(head));
    for (const JsonInferInput& input : json.inputs) {
      Allocator& allocator = scope().engine.allocator();
      FORMWORK_ASSIGN_OR_RETURN(Tensor tensor, input.binary_bytes
                                                   ? binary.Next(input, allocator)
                                                   : ReadJsonInferInput(input, allocator));
      json.request.names.push_back(input.name);
      json.request.values.push_back(std::move(tensor));
    }
    FORMWORK_RETURN_IF_ERROR(binary.Finish());
    return std::move(json.request);
  }

  absl::StatusOr<HttpAnswer> WritePrediction(const Prediction& prediction) override {
    HttpAnswer answer = {.content_type = "application/json", .body = {}};
    size_t head = 0;
    FORMWORK_ASSIGN_OR_RETURN(answer.body, WriteJsonInfer(prediction, forms_, &head));
    if (head < answer.body.size() || forms_.AnyBinary(prediction.names.size())) {
      answer.content_type = "application/octet-stream";
      answer.headers = {{kHeaderLength, absl::StrCat(head)}};
    }
    return answer;
  }

  const std::function<bool()>& is_ready_;
  InferPath path_;
  JsonInferForms forms_;
};

}  // namespace

std::shared_ptr<RestRequest> MakeInferRest(const RequestScope& scope, RestRequests& requests,
                                           const std::function<bool()>& is_ready, HttpRequest http,
                                           HttpServer::Reply reply) {
  return std::make_shared<InferRest>(scope, requests, is_ready, std::move(http), std::move(reply));
}

}  // namespace formwork::server
