#pragma once

// The Open Inference Protocol's gRPC service over an Engine, for Triton's clients and others that
// speak it. The namespace is what a request's metadata calls `formwork-namespace`.

#include <functional>
#include <utility>

#include "formwork/serving/inference_service.grpc.pb.h"
#include "server/open_streams.h"
#include "server/request_scope.h"
#include "server/unary_request.h"

namespace formwork::server {

namespace raw_methods {

using Infer = inference::GRPCInferenceService;
using UnansweredMemory = Infer::WithRawCallbackMethod_SystemSharedMemoryStatus<
    Infer::WithRawCallbackMethod_SystemSharedMemoryRegister<
        Infer::WithRawCallbackMethod_SystemSharedMemoryUnregister<
            Infer::WithRawCallbackMethod_CudaSharedMemoryStatus<
                Infer::WithRawCallbackMethod_CudaSharedMemoryRegister<
                    Infer::WithRawCallbackMethod_CudaSharedMemoryUnregister<Infer::Service>>>>>>;
using UnansweredInfer =
    Infer::WithRawCallbackMethod_ModelStatistics<Infer::WithRawCallbackMethod_RepositoryModelLoad<
        Infer::WithRawCallbackMethod_RepositoryModelUnload<
            Infer::WithRawCallbackMethod_TraceSetting<
                Infer::WithRawCallbackMethod_LogSettings<UnansweredMemory>>>>>;
using Inferences = Infer::WithRawCallbackMethod_ModelInfer<
    Infer::WithRawCallbackMethod_ModelStreamInfer<UnansweredInfer>>;
using AllInferences =
    Infer::WithRawCallbackMethod_ServerLive<Infer::WithRawCallbackMethod_ServerReady<
        Infer::WithRawCallbackMethod_ModelReady<Infer::WithRawCallbackMethod_ServerMetadata<
            Infer::WithRawCallbackMethod_ModelMetadata<Infer::WithRawCallbackMethod_ModelConfig<
                Infer::WithRawCallbackMethod_RepositoryIndex<Inferences>>>>>>>;

}  // namespace raw_methods

/// Thread-safe. What `scope` and `streams` refer to outlives it; it outlives the gRPC server that
/// it is registered with.
class InferenceService final : public raw_methods::AllInferences {
 public:
  /// `is_ready`: whether the server serves; from any thread, and does not wait.
  InferenceService(const RequestScope& scope, OpenStreams& streams, std::function<bool()> is_ready)
      : scope_(scope), streams_(streams), is_ready_(std::move(is_ready)) {}

  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;
  using Reactor = grpc::ServerUnaryReactor;

  Reactor* ServerLive(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ServerReady(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ModelReady(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ServerMetadata(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ModelMetadata(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ModelInfer(Context* context, const Bytes* request, Bytes* response) override;
  grpc::ServerBidiReactor<Bytes, Bytes>* ModelStreamInfer(Context* context) override;
  Reactor* ModelConfig(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* RepositoryIndex(Context* context, const Bytes* request, Bytes* response) override;
  // UNIMPLEMENTED.
  Reactor* ModelStatistics(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* RepositoryModelLoad(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* RepositoryModelUnload(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* SystemSharedMemoryStatus(Context* context, const Bytes* request,
                                    Bytes* response) override;
  Reactor* SystemSharedMemoryRegister(Context* context, const Bytes* request,
                                      Bytes* response) override;
  Reactor* SystemSharedMemoryUnregister(Context* context, const Bytes* request,
                                        Bytes* response) override;
  Reactor* CudaSharedMemoryStatus(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* CudaSharedMemoryRegister(Context* context, const Bytes* request,
                                    Bytes* response) override;
  Reactor* CudaSharedMemoryUnregister(Context* context, const Bytes* request,
                                      Bytes* response) override;
  Reactor* TraceSetting(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* LogSettings(Context* context, const Bytes* request, Bytes* response) override;

 private:
  const RequestScope& scope_;
  OpenStreams& streams_;
  const std::function<bool()> is_ready_;
};

}  // namespace formwork::server
