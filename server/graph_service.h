#pragma once

// formwork.v1.GraphService over an Engine. Every method is raw: what is large is decoded in place,
// and no message is parsed on a callback thread that may be long.

#include "absl/time/time.h"
#include "core/engine.h"
#include "formwork/v1/graph_service.grpc.pb.h"
#include "server/call_in_parts.h"
#include "server/call_stream.h"
#include "server/flags.h"
#include "server/metrics.h"
#include "server/open_streams.h"
#include "server/request_scope.h"
#include "server/task_pool.h"
#include "server/tensor_writer.h"
#include "server/unary_request.h"

namespace formwork::server {

namespace raw_methods {

using V1 = v1::GraphService;
using Calls = V1::WithRawCallbackMethod_Call<
    V1::WithRawCallbackMethod_CallInParts<V1::WithRawCallbackMethod_CallStream<V1::Service>>>;
using Functions = V1::WithRawCallbackMethod_Register<
    V1::WithRawCallbackMethod_Resolve<V1::WithRawCallbackMethod_ListFunctions<
        V1::WithRawCallbackMethod_DescribeFunction<V1::WithRawCallbackMethod_Unregister<Calls>>>>>;
using Variables = V1::WithRawCallbackMethod_CreateVariable<
    V1::WithRawCallbackMethod_GetVariable<V1::WithRawCallbackMethod_ReadVariables<
        V1::WithRawCallbackMethod_AssignVariables<V1::WithRawCallbackMethod_ListVariables<
            V1::WithRawCallbackMethod_DeleteVariable<Functions>>>>>>;
using Tensors = V1::WithRawCallbackMethod_WriteTensor<V1::WithRawCallbackMethod_ReadTensor<
    V1::WithRawCallbackMethod_ListTensors<V1::WithRawCallbackMethod_ReleaseTensors<Variables>>>>;
using All = V1::WithRawCallbackMethod_GetServerInfo<V1::WithRawCallbackMethod_Clear<Tensors>>;

}  // namespace raw_methods

/// Converts, calls the engine, converts back. Thread-safe. The engine and the metrics outlive it;
/// it outlives the gRPC server that it is registered with.
class GraphService final : public raw_methods::All {
 public:
  GraphService(const ServerOptions& options, Engine& engine, Metrics& metrics);

  /// Ends the open streams of calls, each when it has answered what it has read.
  void CloseStreams() { streams_.CloseWhenIdle(); }

  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;
  using Reactor = grpc::ServerUnaryReactor;

  Reactor* Call(Context* context, const Bytes* request, Bytes* response) override;
  grpc::ServerWriteReactor<Bytes>* CallInParts(Context* context, const Bytes* request) override;
  grpc::ServerBidiReactor<Bytes, Bytes>* CallStream(Context* context) override;
  Reactor* Register(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* Resolve(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ListFunctions(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* DescribeFunction(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* Unregister(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* CreateVariable(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* GetVariable(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ReadVariables(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* AssignVariables(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ListVariables(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* DeleteVariable(Context* context, const Bytes* request, Bytes* response) override;
  grpc::ServerReadReactor<Bytes>* WriteTensor(Context* context, Bytes* response) override;
  Reactor* ReadTensor(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ListTensors(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ReleaseTensors(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* GetServerInfo(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* Clear(Context* context, const Bytes* request, Bytes* response) override;

 private:
  struct Rpc {
    const char* method;
    Context* context;
    const Bytes* request;
    Bytes* response;
  };

  // Runs `body(request, &response, &details)` with parsed messages on a thread of ours.
  template <typename Request, typename Response, typename Body>
  Reactor* Answer(const Rpc& rpc, Body body);
  // Runs `body(unary, request)`, which finishes it, with a parsed message: here where it is small,
  // else on a thread of ours.
  template <typename Request, typename Body>
  Reactor* Begin(const Rpc& rpc, Body body);
  TaskPool* PoolFor(const Bytes& message);

  void RunRead(const std::shared_ptr<UnaryRequest>& unary,
               std::shared_ptr<const v1::ReadVariablesRequest> request);
  absl::Status AnswerRead(UnaryRequest& unary, const v1::ReadVariablesRequest& request,
                          const std::vector<VariableValue>& values);

  const ServerOptions options_;
  const absl::Time started_;
  Engine& engine_;
  Metrics& metrics_;
  OpenStreams streams_;
  TaskPool requests_;
  RequestScope scope_;
};

}  // namespace formwork::server
