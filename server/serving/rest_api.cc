#include "server/serving/rest_api.h"

#include <utility>

#include "server/serving/predict_rest.h"

namespace formwork::server {

RestApi::RestApi(const RequestScope& scope) : scope_(scope) {}

RestApi::~RestApi() { requests_.WaitForNone(); }

void RestApi::AddTo(HttpServer::Handlers& handlers) {
  HttpServer::Handler predict;
  predict.methods = {"GET", "POST"};
  predict.max_body_bytes = scope_.max_message_bytes;
  predict.handle = [this](HttpRequest request, HttpServer::Reply reply) {
    MakePredictRest(scope_, requests_, std::move(request), std::move(reply))->Start();
  };
  handlers[kPredictPath] = std::move(predict);
}

}  // namespace formwork::server
