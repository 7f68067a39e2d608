#pragma once

// tensorflow.serving's PredictionService and ModelService over an Engine, for TensorFlow Serving's
// gRPC clients. The namespace is what a request's metadata calls `formwork-namespace`.

#include "formwork/serving/prediction_service.grpc.pb.h"
#include "server/request_scope.h"
#include "server/unary_request.h"

namespace formwork::server {

namespace raw_methods {

using Predictions = tensorflow::serving::PredictionService;
using Unanswered =
    Predictions::WithRawCallbackMethod_Classify<Predictions::WithRawCallbackMethod_Regress<
        Predictions::WithRawCallbackMethod_MultiInference<Predictions::Service>>>;
using AllPredictions = Predictions::WithRawCallbackMethod_Predict<
    Predictions::WithRawCallbackMethod_GetModelMetadata<Unanswered>>;
using Models = tensorflow::serving::ModelService;
using AllModels = Models::WithRawCallbackMethod_GetModelStatus<
    Models::WithRawCallbackMethod_HandleReloadConfigRequest<Models::Service>>;

}  // namespace raw_methods

/// Thread-safe. What `scope` refers to outlives it; it outlives the gRPC server that it is
/// registered with.
class PredictionService final : public raw_methods::AllPredictions {
 public:
  explicit PredictionService(const RequestScope& scope) : scope_(scope) {}

  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;
  using Reactor = grpc::ServerUnaryReactor;

  Reactor* Predict(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* GetModelMetadata(Context* context, const Bytes* request, Bytes* response) override;
  // UNIMPLEMENTED.
  Reactor* Classify(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* Regress(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* MultiInference(Context* context, const Bytes* request, Bytes* response) override;

 private:
  const RequestScope& scope_;
};

/// The same.
class ModelService final : public raw_methods::AllModels {
 public:
  explicit ModelService(const RequestScope& scope) : scope_(scope) {}

  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;
  using Reactor = grpc::ServerUnaryReactor;

  Reactor* GetModelStatus(Context* context, const Bytes* request, Bytes* response) override;
  // UNIMPLEMENTED.
  Reactor* HandleReloadConfigRequest(Context* context, const Bytes* request,
                                     Bytes* response) override;

 private:
  const RequestScope& scope_;
};

}  // namespace formwork::server
