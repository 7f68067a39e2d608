#pragma once

// tensorflow.serving's PredictionService and ModelService over an Engine, for TensorFlow Serving's
// gRPC clients. The namespace is what a request's metadata calls `formwork-namespace`.

#include "formwork/serving/prediction_service.grpc.pb.h"
#include "server/request_scope.h"
#include "server/unary_request.h"

namespace formwork::server {

namespace raw_methods {

using Serving = tensorflow::serving::PredictionService;
using Predictions = Serving::WithRawCallbackMethod_Predict<
    Serving::WithRawCallbackMethod_GetModelMetadata<Serving::Service>>;
using Models = tensorflow::serving::ModelService::WithRawCallbackMethod_GetModelStatus<
    tensorflow::serving::ModelService::Service>;

}  // namespace raw_methods

/// Thread-safe. What `scope` refers to outlives it; it outlives the gRPC server that it is
/// registered with.
class PredictionService final : public raw_methods::Predictions {
 public:
  explicit PredictionService(const RequestScope& scope) : scope_(scope) {}

  grpc::ServerUnaryReactor* Predict(grpc::CallbackServerContext* context,
                                    const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetModelMetadata(grpc::CallbackServerContext* context,
                                             const grpc::ByteBuffer* request,
                                             grpc::ByteBuffer* response) override;

 private:
  const RequestScope& scope_;
};

/// The same.
class ModelService final : public raw_methods::Models {
 public:
  explicit ModelService(const RequestScope& scope) : scope_(scope) {}

  grpc::ServerUnaryReactor* GetModelStatus(grpc::CallbackServerContext* context,
                                           const grpc::ByteBuffer* request,
                                           grpc::ByteBuffer* response) override;

 private:
  const RequestScope& scope_;
};

}  // namespace formwork::server
