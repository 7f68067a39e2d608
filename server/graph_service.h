#pragma once

// formwork.v1.GraphService over an Engine. Every method is raw: what is large is decoded in place,
// and no message is parsed on a callback thread that may be long.

#include <memory>

#include "absl/status/status.h"
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
using Functions = V1::WithRawCallbackMethod_Register<V1::WithRawCallbackMethod_Resolve<
    V1::WithRawCallbackMethod_ListFunctions<V1::WithRawCallbackMethod_DescribeFunction<
        V1::WithRawCallbackMethod_Unregister<V1::WithRawCallbackMethod_LoadSavedModel<Calls>>>>>>;
using Variables = V1::WithRawCallbackMethod_CreateVariable<
    V1::WithRawCallbackMethod_GetVariable<V1::WithRawCallbackMethod_ReadVariables<
        V1::WithRawCallbackMethod_AssignVariables<V1::WithRawCallbackMethod_ListVariables<
            V1::WithRawCallbackMethod_DeleteVariable<V1::WithRawCallbackMethod_SaveCheckpoint<
                V1::WithRawCallbackMethod_RestoreCheckpoint<Functions>>>>>>>>;
using Tensors = V1::WithRawCallbackMethod_WriteTensor<V1::WithRawCallbackMethod_ReadTensor<
    V1::WithRawCallbackMethod_ListTensors<V1::WithRawCallbackMethod_ReleaseTensors<Variables>>>>;
using All = V1::WithRawCallbackMethod_GetServerInfo<V1::WithRawCallbackMethod_ListOps<
    V1::WithRawCallbackMethod_TakeSnapshot<V1::WithRawCallbackMethod_ListNamespaces<
        V1::WithRawCallbackMethod_SetDurability<V1::WithRawCallbackMethod_Clear<Tensors>>>>>>;

}  // namespace raw_methods

/// gRPC's side of each method: on which thread it runs, what it is counted under. What it does is
/// in methods.h and waiting_methods.h. Thread-safe. What it is made of outlives it; it outlives the
/// gRPC server that it is registered with.
class GraphService final : public raw_methods::All {
 public:
  GraphService(const ServerOptions& options, Engine& engine, Metrics& metrics,
               ConnectionListener& connections);

  /// What requests of other services on the same gRPC server share with this one's.
  const RequestScope& scope() const { return scope_; }
  OpenStreams& streams() { return streams_; }

  /// Ends the open streams, of others' as well, each when it has answered what it has read.
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
  Reactor* LoadSavedModel(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* CreateVariable(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* GetVariable(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ReadVariables(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* AssignVariables(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ListVariables(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* DeleteVariable(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* SaveCheckpoint(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* RestoreCheckpoint(Context* context, const Bytes* request, Bytes* response) override;
  grpc::ServerReadReactor<Bytes>* WriteTensor(Context* context, Bytes* response) override;
  Reactor* ReadTensor(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ListTensors(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ReleaseTensors(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* GetServerInfo(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ListOps(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* TakeSnapshot(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* ListNamespaces(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* SetDurability(Context* context, const Bytes* request, Bytes* response) override;
  Reactor* Clear(Context* context, const Bytes* request, Bytes* response) override;

 private:
  struct Rpc {
    const char* method;
    Context* context;
    const Bytes* request;
    Bytes* response;
  };

  template <typename Request, typename Response>
  using Method = absl::Status (*)(const RequestScope&, const Request&, Response*, ErrorDetails*);
  using WaitingMethod = void (*)(const RequestScope&, const std::shared_ptr<UnaryRequest>&);

  // Whether a method is held to the memory limit. Those that give memory back, or say how much
  // there is, are not: they are for when it is reached.
  enum class Memory { kHeld, kFree };

  // Whether what a method has done has to be on disk before it is answered, where answers are.
  enum class Waits { kForNothing, kForDisk };

  // Runs `method` with parsed messages on a thread of ours.
  template <typename Request, typename Response>
  Reactor* Answer(const Rpc& rpc, Method<Request, Response> method, Memory memory = Memory::kHeld,
                  Waits waits = Waits::kForNothing);
  // Runs `method`, which finishes the request, on a thread of `pool`; null: here.
  Reactor* Begin(const Rpc& rpc, WaitingMethod method, TaskPool* pool);
  // What is small is decoded where it arrives.
  TaskPool* PoolFor(const Bytes& message);

  OpenStreams streams_;
  TaskPool requests_;
  InlineTurns inline_turns_{false};
  RequestScope scope_;
};

}  // namespace formwork::server
