#include "server/serving/rest_api.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "formwork/tf/types.pb.h"
#include "server/serving/json_tensors.h"
#include "server/serving/model.h"
#include "server/serving/predict.h"
#include "server/serving/rest_path.h"

namespace formwork::server {
namespace {

using Json = nlohmann::ordered_json;

// Bodies of less are read where they arrive, on the one thread of all connections.
constexpr size_t kSmallBodyBytes = size_t{16} << 10;
// Of values with fewer elements texts are made by the thread that has run the call.
constexpr int64_t kFewElements = 4096;

int HttpCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

HttpAnswer JsonAnswer(int code, std::string body) {
  return {.code = code, .content_type = "application/json", .body = std::move(body)};
}

HttpAnswer ErrorAnswer(const absl::Status& status) {
  const Json error = {{"error", std::string(status.message())}};
  // What clients sent is quoted as far as it is text.
  return JsonAnswer(HttpCodeOf(status), error.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

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

bool IsSlowToWrite(const Prediction& prediction) {
  int64_t elements = 0;
  for (const Tensor& value : prediction.values) elements += value.num_elements();
  return elements >= kFewElements;
}

}  // namespace

// How many are under way, from their first step until their answer.
class RestApi::Requests {
 public:
  void Add(int change) {
    absl::MutexLock lock(&mutex_);
    count_ += change;
  }
  void WaitForNone() {
    const auto none = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return count_ == 0; };
    absl::MutexLock lock(&mutex_, absl::Condition(&none));
  }

 private:
  absl::Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

// One request from its body to its answer.
class RestApi::Request : public std::enable_shared_from_this<Request> {
 public:
  Request(const RequestScope& scope, Requests& requests, HttpRequest http, HttpServer::Reply reply)
      : scope_(scope),
        requests_(requests),
        http_(std::move(http)),
        reply_(std::move(reply)),
        name_space_(http_.Header("Formwork-Namespace")) {
    requests_.Add(1);
  }
  ~Request() { requests_.Add(-1); }

  void Start() {
    Guard([this] {
      absl::StatusOr<RestPath> path =
          ParseRestPath(absl::string_view(http_.path).substr(sizeof(kPath) - 1));
      if (!path.ok()) return Finish(path.status());
      path_ = *std::move(path);
      path_.model.name_space = name_space_;
      if (!http_.Header("Origin").empty()) {
        return Finish(absl::PermissionDeniedError(
            "requests of web pages, which have an Origin, are not answered"));
      }
      const bool is_post = http_.method == "POST";
      if (is_post != (path_.what == RestPath::What::kPredict)) return RefuseMethod(is_post);
      if (!is_post) return OnPool([](Request& self) { self.Describe(); });
      if (http_.body.size() < kSmallBodyBytes) return Predict(/*again=*/false);
      OnPool([](Request& self) { self.Predict(/*again=*/false); });
    });
  }

 private:
  // Runs `work`, which sees to it that there is an answer; what it throws for want of memory is
  // the answer.
  void Guard(absl::FunctionRef<void()> work) {
    const absl::Status ran = CatchOutOfMemory([&] {
      work();
      return absl::OkStatus();
    });
    if (!ran.ok()) Finish(ran);
  }

  void OnPool(void (*step)(Request&)) {
    const absl::Status added = scope_.transfers.Add(
        name_space_, [self = shared_from_this(), step] { self->Guard([&] { step(*self); }); });
    if (!added.ok()) Finish(added);
  }

  void RefuseMethod(bool is_post) {
    HttpAnswer answer = ErrorAnswer(InvalidArgument(
        is_post ? "only GET: predictions are asked for by POST of NAME:predict" : "only POST"));
    answer.code = 405;
    Send(std::move(answer));
  }

  void Describe() {
    Json json;
    const absl::Status made = HoldToBudget(scope_.engine.memory(), [&]() -> absl::Status {
      using Signatures = std::map<std::string, NamedFunction>;
      FORMWORK_ASSIGN_OR_RETURN(const Signatures signatures,
                                SignaturesOf(scope_.engine, path_.model));
      json = path_.what == RestPath::What::kMetadata ? MetadataAsJson(path_.model, signatures)
                                                     : StatusAsJson(signatures);
      return absl::OkStatus();
    });
    if (!made.ok()) return Finish(made);
    scope_.metrics.CountRequest("RestModels", made);
    Send(JsonAnswer(200, Text(json)));
  }

  absl::StatusOr<PredictCall> ReadPredict() {
    FORMWORK_ASSIGN_OR_RETURN(const JsonPredict head, ReadJsonPredictHead(http_.body.text()));
    row_format_ = head.row_format;
    path_.model.signature = head.signature_name;
    FORMWORK_ASSIGN_OR_RETURN(const std::vector<NamedFunction> functions,
                              FindModel(scope_.engine, path_.model));
    const std::vector<TensorSpec>& inputs = functions.front().values->inputs;
    FORMWORK_ASSIGN_OR_RETURN(std::vector<Tensor> values,
                              ReadJsonInputs(head, inputs, scope_.engine.allocator()));
    std::vector<std::string> names;
    for (const TensorSpec& input : inputs) names.push_back(input.name);
    return MakePredictCall(path_.model, functions, names, std::move(values), {});
  }

  // `again`: where the model's function was replaced once between being found and called.
  void Predict(bool again) {
    absl::StatusOr<PredictCall> call =
        HoldToBudget(scope_.engine.memory(), [this] { return ReadPredict(); });
    if (!call.ok()) return Finish(call.status());
    CallSpec spec = std::move(call->spec);
    const std::shared_ptr<CallHandle> handle = scope_.engine.Call(
        std::move(spec),
        [self = shared_from_this(), again, made = *std::move(call)](CallResult result) mutable {
          self->Guard([&] {
            if (!again && WasReplaced(result)) return self->Predict(/*again=*/true);
            self->AnswerCall(std::move(made), std::move(result));
          });
        });
    // Nobody else waits for its answer.
    http_.peer->OnGone([weak = std::weak_ptr<CallHandle>(handle)] {
      if (const std::shared_ptr<CallHandle> call = weak.lock()) call->Cancel();
    });
    handle->Start();
  }

  void AnswerCall(PredictCall call, CallResult result) {
    function_name_ = std::move(result.function_name);
    if (!result.status.ok()) return Finish(result.status);
    absl::StatusOr<Prediction> prediction = PredictionOf(std::move(call), std::move(result));
    if (!prediction.ok()) return Finish(prediction.status());
    prediction_ = *std::move(prediction);
    if (!IsSlowToWrite(prediction_)) return Write();
    scope_.transfers.AddOrRun(name_space_,
                              [self = shared_from_this()] { self->Guard([&] { self->Write(); }); });
  }

  void Write() {
    absl::StatusOr<std::string> text = HoldToBudget(scope_.engine.memory(), [this] {
      return WriteJsonOutputs(row_format_, prediction_.names, prediction_.values);
    });
    if (!text.ok()) return Finish(text.status());
    Count(absl::OkStatus());
    Send(JsonAnswer(200, *std::move(text)));
  }

  void Finish(const absl::Status& status) {
    const HeapScope unlimited(nullptr);
    if (path_.what == RestPath::What::kPredict) {
      Count(status);
    } else {
      scope_.metrics.CountRequest("RestModels", status);
    }
    Send(ErrorAnswer(status));
  }

  void Count(const absl::Status& status) {
    scope_.metrics.CountCall({name_space_, function_name_, status, absl::Now() - arrival_});
  }

  // The first time.
  void Send(HttpAnswer answer) {
    if (!reply_) return;
    scope_.metrics.CountReceived(http_.body.size());
    scope_.metrics.CountSent(answer.body.size());
    std::exchange(reply_, nullptr)(std::move(answer));
  }

  const RequestScope& scope_;
  Requests& requests_;
  const HttpRequest http_;
  HttpServer::Reply reply_;
  const std::string name_space_;
  const absl::Time arrival_ = absl::Now();
  RestPath path_;
  bool row_format_ = true;
  std::string function_name_;
  Prediction prediction_;
};

RestApi::RestApi(const RequestScope& scope)
    : scope_(scope), requests_(std::make_unique<Requests>()) {}

RestApi::~RestApi() { requests_->WaitForNone(); }

HttpServer::Handler RestApi::handler() {
  HttpServer::Handler handler;
  handler.handle = [this](HttpRequest request, HttpServer::Reply reply) {
    std::make_shared<Request>(scope_, *requests_, std::move(request), std::move(reply))->Start();
  };
  handler.methods = {"GET", "POST"};
  handler.max_body_bytes = scope_.max_message_bytes;
  return handler;
}

}  // namespace formwork::server
