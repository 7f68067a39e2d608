#include "server/serving/rest_request.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/status.h"
#include "server/serving/call_model.h"

namespace formwork::server {
namespace {

// Bodies of less are read where they arrive, on the one thread of all connections.
constexpr size_t kSmallBodyBytes = size_t{16} << 10;
// Of values with fewer elements texts are made by the thread that has run the call.
constexpr int64_t kFewElements = 4096;

constexpr size_t kMostErrorText = 4096;

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

HttpAnswer ErrorAnswer(const absl::Status& status) {
  // What clients sent may be quoted in it.
  const absl::string_view text = status.message().substr(0, kMostErrorText);
  return JsonAnswer(HttpCodeOf(status), {{"error", std::string(text)}});
}

bool IsSlowToWrite(const Prediction& prediction) {
  int64_t elements = 0;
  for (const Tensor& value : prediction.values) elements += value.num_elements();
  return elements >= kFewElements;
}

}  // namespace

HttpAnswer JsonAnswer(int code, const nlohmann::ordered_json& json) {
  return {
      .code = code,
      .content_type = "application/json",
      .body = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace),
  };
}

struct RestRequest::Caller {
  std::shared_ptr<RestRequest> request;

  absl::StatusOr<PredictCall> Read() {
    FORMWORK_ASSIGN_OR_RETURN(PredictCall call, request->ReadPredict());
    call.spec.deadline = request->arrival_ + call.timeout;
    return call;
  }
  bool MayTakeTurn() const { return false; }  // All connections wait for its thread.
  void Begin(const std::shared_ptr<CallHandle>& handle) {
    // Nobody else waits for its answer.
    request->http_.peer->OnGone([weak = std::weak_ptr<CallHandle>(handle)] {
      if (const std::shared_ptr<CallHandle> call = weak.lock()) call->Cancel();
    });
    handle->Start();
  }
  void Guard(absl::FunctionRef<void()> work) { request->Guard(work); }
  void Answer(PredictCall call, CallResult result) {
    request->AnswerCall(std::move(call), std::move(result));
  }
  void Refuse(const absl::Status& status) { request->Finish(status); }
};

RestRequest::RestRequest(const RequestScope& scope, RestRequests& requests, HttpRequest http,
                         HttpServer::Reply reply)
    : scope_(scope),
      requests_(requests),
      http_(std::move(http)),
      reply_(std::move(reply)),
      name_space_(http_.Header("Formwork-Namespace")) {
  requests_.Add(1);
}

RestRequest::~RestRequest() { requests_.Add(-1); }

void RestRequest::Start() {
  Guard([this] {
    if (http_.Header("Origin").empty()) return Route();
    Finish(absl::PermissionDeniedError(
        "requests of web pages, which have an Origin, are not answered"));
  });
}

void RestRequest::Guard(absl::FunctionRef<void()> work) {
  const absl::Status ran = CatchOutOfMemory([&] {
    work();
    return absl::OkStatus();
  });
  if (!ran.ok()) Finish(ran);
}

void RestRequest::Predict() {
  is_call_ = true;
  Caller caller{shared_from_this()};
  if (http_.body.size() < kSmallBodyBytes) return CallModel(scope_, std::move(caller));
  const absl::Status added = scope_.transfers.Add(name_space_, [caller = std::move(caller)] {
    caller.request->Guard([&] { CallModel(caller.request->scope_, caller); });
  });
  if (!added.ok()) Finish(added);
}

void RestRequest::Tell(absl::AnyInvocable<absl::StatusOr<HttpAnswer>()> tell) {
  const absl::Status added = scope_.transfers.Add(
      name_space_, [self = shared_from_this(), tell = std::move(tell)]() mutable {
        self->Guard([&] {
          absl::StatusOr<HttpAnswer> told = HoldToBudget(self->scope_.engine.memory(), tell);
          if (!told.ok()) return self->Finish(told.status());
          self->Count(told.status());
          self->Send(*std::move(told));
        });
      });
  if (!added.ok()) Finish(added);
}

void RestRequest::RefuseMethod(absl::string_view instead) {
  HttpAnswer answer = ErrorAnswer(InvalidArgument(instead));
  answer.code = 405;
  Send(std::move(answer));
}

void RestRequest::AnswerCall(PredictCall call, CallResult result) {
  function_name_ = std::move(result.function_name);
  if (!result.status.ok()) return Finish(result.status);
  absl::StatusOr<Prediction> prediction = PredictionOf(std::move(call), std::move(result));
  if (!prediction.ok()) return Finish(prediction.status());
  prediction_ = *std::move(prediction);
  if (!IsSlowToWrite(prediction_)) return Write();
  scope_.transfers.AddOrRun(name_space_,
                            [self = shared_from_this()] { self->Guard([&] { self->Write(); }); });
}

void RestRequest::Write() {
  absl::StatusOr<HttpAnswer> answer =
      HoldToBudget(scope_.engine.memory(), [this] { return WritePrediction(prediction_); });
  if (!answer.ok()) return Finish(answer.status());
  Count(absl::OkStatus());
  Send(*std::move(answer));
}

void RestRequest::Finish(const absl::Status& status) {
  const HeapScope unlimited(nullptr);
  Count(status);
  Send(ErrorAnswer(status));
}

void RestRequest::Count(const absl::Status& status) {
  if (!is_call_) return scope_.metrics.CountRequest("RestModels", status);
  scope_.metrics.CountCall({name_space_, function_name_, status, absl::Now() - arrival_});
}

// The first time.
void RestRequest::Send(HttpAnswer answer) {
  if (!reply_) return;
  scope_.metrics.CountReceived(http_.body.size());
  scope_.metrics.CountSent(answer.body.size());
  std::exchange(reply_, nullptr)(std::move(answer));
}

}  // namespace formwork::server
