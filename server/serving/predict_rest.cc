#include "server/serving/predict_rest.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "formwork/tf/types.pb.h"
#include "server/serving/json_tensors.h"
#include "server/serving/model.h"
#include "server/serving/predict.h"
#include "server/serving/rest_path.h"

namespace formwork::server {
namespace {

using Json = nlohmann::ordered_json;

// --- What there is ---

Json SpecsAsJson(const std::vector<TensorSpec>& specs) {
  Json all = Json::object();
  for (const TensorSpec& spec : specs) {
    Json dims = Json::array();
    for (const int64_t dim : spec.shape.dims()) {
      dims.push_back({{"size", absl::StrCat(dim)}, {"name", ""}});
    }
    all[spec.name] = {{"dtype", tf::DataType_Name(static_cast<tf::DataType>(spec.dtype))},
                      {"tensor_shape", {{"dim", dims}, {"unknown_rank", !spec.shape.known_rank()}}},
                      {"name", spec.name}};
  }
  return all;
}

std::string VersionText(const std::map<std::string, NamedFunction>& signatures) {
  return absl::StrCat(signatures.begin()->second.model_version);
}

Json MetadataAsJson(const ModelSpec& model,
                    const std::map<std::string, NamedFunction>& signatures) {
  Json all = Json::object();
  for (const auto& [name, function] : signatures) {
    all[name] = {{"inputs", SpecsAsJson(function.values->inputs)},
                 {"outputs", SpecsAsJson(function.values->outputs)},
                 {"method_name", "tensorflow/serving/predict"}};
  }
  return {{"model_spec",
           {{"name", model.name}, {"signature_name", ""}, {"version", VersionText(signatures)}}},
          {"metadata", {{"signature_def", {{"signature_def", all}}}}}};
}

Json StatusAsJson(const std::map<std::string, NamedFunction>& signatures) {
  const Json version = {{"version", VersionText(signatures)},
                        {"state", "AVAILABLE"},
                        {"status", {{"error_code", "OK"}, {"error_message", ""}}}};
  return {{"model_version_status", Json::array({version})}};
}

class PredictRest final : public RestRequest {
 public:
  using RestRequest::RestRequest;

 private:
  void Route() override {
    absl::StatusOr<PredictPath> path =
        ParsePredictPath(absl::string_view(http().path).substr(sizeof(kPredictPath) - 1));
    if (!path.ok()) return Finish(path.status());
    path_ = *std::move(path);
    path_.model.name_space = name_space();
    const bool is_predict = path_.what == PredictPath::What::kPredict;
    if (is_post() && !is_predict) {
      return RefuseMethod("only GET: predictions are asked for by POST of NAME:predict");
    }
    if (!is_post() && is_predict) return RefuseMethod("only POST");
    if (is_predict) return Predict();
    Tell([this] { return Describe(); });
  }

  absl::StatusOr<HttpAnswer> Describe() {
    using Signatures = std::map<std::string, NamedFunction>;
    FORMWORK_ASSIGN_OR_RETURN(const Signatures signatures,
                              SignaturesOf(scope().engine, path_.model));
    return JsonAnswer(200, path_.what == PredictPath::What::kMetadata
                               ? MetadataAsJson(path_.model, signatures)
                               : StatusAsJson(signatures));
  }

  absl::StatusOr<PredictCall> ReadPredict() override {
    FORMWORK_ASSIGN_OR_RETURN(const JsonPredict head, ReadJsonPredictHead(http().body.text()));
    row_format_ = head.row_format;
    path_.model.signature = head.signature_name;
    FORMWORK_ASSIGN_OR_RETURN(const std::vector<NamedFunction> functions,
                              FindModel(scope().engine, path_.model));
    const std::vector<TensorSpec>& inputs = functions.front().values->inputs;
    FORMWORK_ASSIGN_OR_RETURN(std::vector<Tensor> values,
                              ReadJsonInputs(head, inputs, scope().engine.allocator()));
    std::vector<std::string> names;
    for (const TensorSpec& input : inputs) names.push_back(input.name);
    return MakePredictCall(path_.model, functions, names, std::move(values), {});
  }

  absl::StatusOr<HttpAnswer> WritePrediction(const Prediction& prediction) override {
    HttpAnswer answer = {.content_type = "application/json", .body = {}};
    FORMWORK_ASSIGN_OR_RETURN(answer.body,
                              WriteJsonOutputs(row_format_, prediction.names, prediction.values));
    return answer;
  }

  PredictPath path_;
  bool row_format_ = true;
};

}  // namespace

std::shared_ptr<RestRequest> MakePredictRest(const RequestScope& scope, RestRequests& requests,
                                             HttpRequest http, HttpServer::Reply reply) {
  return std::make_shared<PredictRest>(scope, requests, std::move(http), std::move(reply));
}

}  // namespace formwork::server
