#include "server/graph_service.h"

#include <utility>

#include "absl/time/clock.h"
#include "core/base/status.h"
#include "server/answer_once.h"
#include "server/methods.h"
#include "server/parsed_message.h"
#include "server/unary_call.h"
#include "server/waiting_methods.h"

namespace formwork::server {
namespace {

constexpr size_t kMaxQueued = 4096;

absl::Duration IdleTimeout(const ServerOptions& options) {
  const double seconds = options.stream_idle_timeout_seconds;
  return seconds > 0 ? absl::Seconds(seconds) : absl::InfiniteDuration();
}

}  // namespace

GraphService::GraphService(const ServerOptions& options, Engine& engine, Metrics& metrics,
                           ConnectionListener& connections)
    : streams_(IdleTimeout(options), engine.memory()),
      requests_(4, kMaxQueued),
      scope_{engine,        metrics,     requests_,
             inline_turns_, connections, static_cast<size_t>(options.max_message_bytes),
             options,       absl::Now()} {}

template <typename Request, typename Response>
GraphService::Reactor* GraphService::Answer(const Rpc& rpc, Method<Request, Response> method,
                                            Memory memory, Waits waits) {
  const auto body = [this, method, memory, waits, name = rpc.method](const auto& unary) {
    ErrorDetails details = NothingDone();
    ArenaMessage<Request> request;
    ArenaMessage<Response> response;
    absl::Status status = Parse(unary->message(), scope_.engine.memory(), request);
    (void)name;  // Of those that can be sent again.
    // Before it is done: what is removed need not have the same afterwards.
    const bool is_sync = status.ok() && waits == Waits::kForDisk &&
                         scope_.engine.DurabilityOf(request->namespace_()) == Durability::kSync;
    const auto do_it = [&](bool* done) -> absl::Status {
      response->set_epoch(scope_.engine.epoch(request->namespace_()));
      FORMWORK_RETURN_IF_ERROR(method(scope_, *request, &*response, &details));
      *done = true;
      return Serialize(*response, scope_.max_message_bytes, unary->response());
    };
    const auto answer = [&]() -> absl::Status {
      FORMWORK_RETURN_IF_ERROR(unary->CheckWanted());
      if constexpr (kIsDoneOnce<Request>) {
        if (const RequestId id = RequestIdOf(*request); id.given()) {
          FORMWORK_RETURN_IF_ERROR(CheckRepeat(scope_.engine, request->namespace_(), id,
                                               request->expected_epoch(), &details));
          return AnswerOnce(scope_.engine, request->namespace_(), id, ContentHash(name, *request),
                            unary->response(), do_it);
        }
      }
      bool done = false;
      return do_it(&done);
    };
    if (status.ok()) {
      status = memory == Memory::kHeld ? HoldToBudget(scope_.engine.memory(), answer) : answer();
    }
    if (!status.ok() || !is_sync) return unary->Finish(status, details);
    scope_.engine.WhenDurable([unary](const absl::Status& durable) {
      ErrorDetails done;
      done.effects = Effects::kAll;
      unary->Finish(durable, done);
    });
  };
  return UnaryRequest::Start(scope_, rpc.method, rpc.context, rpc.request, rpc.response, &requests_,
                             body);
}

GraphService::Reactor* GraphService::Begin(const Rpc& rpc, WaitingMethod method, TaskPool* pool) {
  return UnaryRequest::Start(scope_, rpc.method, rpc.context, rpc.request, rpc.response, pool,
                             [this, method](const auto& unary) { method(scope_, unary); });
}

TaskPool* GraphService::PoolFor(const Bytes& message) {
  return message.Length() < kLargeMessageBytes ? nullptr : &requests_;
}

GraphService::Reactor* GraphService::Call(Context* context, const Bytes* request, Bytes* response) {
  // Counted as a call, not as a request.
  return Begin({nullptr, context, request, response}, &RunUnaryCall, PoolFor(*request));
}

// Streams are held by streams_ until gRPC is done with them.

grpc::ServerWriteReactor<grpc::ByteBuffer>* GraphService::CallInParts(Context* context,
                                                                      const Bytes* request) {
  auto stream = std::make_shared<server::CallInParts>(scope_, streams_, *context, *request);
  stream->Start();
  return stream.get();
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* GraphService::CallStream(
    Context* context) {
  auto stream = std::make_shared<server::CallStream>(scope_, streams_, *context);
  stream->Start();
  return stream.get();
}

grpc::ServerReadReactor<grpc::ByteBuffer>* GraphService::WriteTensor(Context* context,
                                                                     Bytes* response) {
  auto stream = std::make_shared<TensorWriter>(scope_, streams_, *context, *response);
  stream->Start();
  return stream.get();
}

GraphService::Reactor* GraphService::Register(Context* context, const Bytes* request,
                                              Bytes* response) {
  // Always parsed on a thread of ours: a graph of a few hundred kilobytes takes a while.
  return Begin({"Register", context, request, response}, &RunRegister, &requests_);
}

GraphService::Reactor* GraphService::Resolve(Context* context, const Bytes* request,
                                             Bytes* response) {
  return Answer({"Resolve", context, request, response}, &methods::Resolve);
}

GraphService::Reactor* GraphService::ListFunctions(Context* context, const Bytes* request,
                                                   Bytes* response) {
  return Answer({"ListFunctions", context, request, response}, &methods::ListFunctions);
}

GraphService::Reactor* GraphService::DescribeFunction(Context* context, const Bytes* request,
                                                      Bytes* response) {
  return Answer({"DescribeFunction", context, request, response}, &methods::DescribeFunction);
}

GraphService::Reactor* GraphService::Unregister(Context* context, const Bytes* request,
                                                Bytes* response) {
  return Answer({"Unregister", context, request, response}, &methods::Unregister, Memory::kFree,
                Waits::kForDisk);
}

GraphService::Reactor* GraphService::LoadSavedModel(Context* context, const Bytes* request,
                                                    Bytes* response) {
  return Begin({"LoadSavedModel", context, request, response}, &RunLoadSavedModel, nullptr);
}

GraphService::Reactor* GraphService::CreateVariable(Context* context, const Bytes* request,
                                                    Bytes* response) {
  return Answer({"CreateVariable", context, request, response}, &methods::CreateVariable,
                Memory::kHeld, Waits::kForDisk);
}

GraphService::Reactor* GraphService::GetVariable(Context* context, const Bytes* request,
                                                 Bytes* response) {
  return Answer({"GetVariable", context, request, response}, &methods::GetVariable, Memory::kFree);
}

GraphService::Reactor* GraphService::ReadVariables(Context* context, const Bytes* request,
                                                   Bytes* response) {
  return Begin({"ReadVariables", context, request, response}, &RunReadVariables, PoolFor(*request));
}

GraphService::Reactor* GraphService::AssignVariables(Context* context, const Bytes* request,
                                                     Bytes* response) {
  return Begin({"AssignVariables", context, request, response}, &RunAssignVariables,
               PoolFor(*request));
}

GraphService::Reactor* GraphService::ListVariables(Context* context, const Bytes* request,
                                                   Bytes* response) {
  return Answer({"ListVariables", context, request, response}, &methods::ListVariables);
}

GraphService::Reactor* GraphService::DeleteVariable(Context* context, const Bytes* request,
                                                    Bytes* response) {
  return Answer({"DeleteVariable", context, request, response}, &methods::DeleteVariable,
                Memory::kFree, Waits::kForDisk);
}

GraphService::Reactor* GraphService::SaveCheckpoint(Context* context, const Bytes* request,
                                                    Bytes* response) {
  return Begin({"SaveCheckpoint", context, request, response}, &RunSaveCheckpoint, nullptr);
}

GraphService::Reactor* GraphService::RestoreCheckpoint(Context* context, const Bytes* request,
                                                       Bytes* response) {
  return Begin({"RestoreCheckpoint", context, request, response}, &RunRestoreCheckpoint, nullptr);
}

GraphService::Reactor* GraphService::ReadTensor(Context* context, const Bytes* request,
                                                Bytes* response) {
  return Begin({"ReadTensor", context, request, response}, &RunReadTensor, PoolFor(*request));
}

GraphService::Reactor* GraphService::ListTensors(Context* context, const Bytes* request,
                                                 Bytes* response) {
  return Answer({"ListTensors", context, request, response}, &methods::ListTensors);
}

GraphService::Reactor* GraphService::ReleaseTensors(Context* context, const Bytes* request,
                                                    Bytes* response) {
  return Answer({"ReleaseTensors", context, request, response}, &methods::ReleaseTensors,
                Memory::kFree);
}

GraphService::Reactor* GraphService::GetServerInfo(Context* context, const Bytes* request,
                                                   Bytes* response) {
  return Answer({"GetServerInfo", context, request, response}, &methods::GetServerInfo,
                Memory::kFree);
}

GraphService::Reactor* GraphService::ListOps(Context* context, const Bytes* request,
                                             Bytes* response) {
  return Answer({"ListOps", context, request, response}, &methods::ListOps);
}

GraphService::Reactor* GraphService::TakeSnapshot(Context* context, const Bytes* request,
                                                  Bytes* response) {
  return Begin({"TakeSnapshot", context, request, response}, &RunTakeSnapshot, nullptr);
}

GraphService::Reactor* GraphService::ListNamespaces(Context* context, const Bytes* request,
                                                    Bytes* response) {
  return Answer({"ListNamespaces", context, request, response}, &methods::ListNamespaces);
}

GraphService::Reactor* GraphService::SetDurability(Context* context, const Bytes* request,
                                                   Bytes* response) {
  return Answer({"SetDurability", context, request, response}, &methods::SetDurability,
                Memory::kFree);
}

GraphService::Reactor* GraphService::Clear(Context* context, const Bytes* request,
                                           Bytes* response) {
  return Answer({"Clear", context, request, response}, &methods::Clear, Memory::kFree,
                Waits::kForDisk);
}

}  // namespace formwork::server
