#include "server/serving/rest_api.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/serving/infer_rest.h"
#include "server/serving/predict_rest.h"

namespace formwork::server {

RestApi::RestApi(const RequestScope& scope, std::function<bool()> is_ready)
    : scope_(scope), is_ready_(std::move(is_ready)) {}

RestApi::~RestApi() { requests_.WaitForNone(); }

void RestApi::AddTo(HttpServer::Handlers& handlers) {
  HttpServer::Handler predict;
  predict.methods = {"GET", "POST"};
  predict.max_body_bytes = scope_.max_message_bytes;
  HttpServer::Handler infer = predict;
  predict.handle = [this](HttpRequest request, HttpServer::Reply reply) {
    MakePredictRest(scope_, requests_, std::move(request), std::move(reply))->Start();
  };
  infer.handle = [this](HttpRequest request, HttpServer::Reply reply) {
    MakeInferRest(scope_, requests_, is_ready_, std::move(request), std::move(reply))->Start();
  };
  handlers[kPredictPath] = std::move(predict);
  handlers[kInferPath] = infer;
  handlers[absl::StrCat(kInferPath, "/")] = std::move(infer);
}

}  // namespace formwork::server
