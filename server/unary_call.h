#pragma once

// One unary Call from its bytes to its answer.

#include <cstddef>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/engine.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/metrics.h"
#include "server/task_pool.h"

namespace formwork::server {

/// Requests of at least this many bytes are decoded on a thread of ours: copying them would hold up
/// a callback thread.
inline constexpr size_t kLargeRequestBytes = size_t{1} << 20;

/// What the requests of a service share. All of it outlives every request.
struct RequestScope {
  Engine& engine;
  Metrics& metrics;
  TaskPool& transfers;  ///< Decodes large requests.
};

/// The deadline of an RPC as the engine takes it.
absl::Time DeadlineOf(const grpc::CallbackServerContext& context);

/// The state of a call, shared by the engine and the reactor. A call that is done before its
/// handler returns takes gRPC's default reactor, which costs no thread hop; another gets one that
/// can be cancelled.
class UnaryCall : public std::enable_shared_from_this<UnaryCall> {
 public:
  UnaryCall(const RequestScope& scope, grpc::CallbackServerContext* context,
            const grpc::ByteBuffer* request, grpc::ByteBuffer* response);

  /// Begins the call; to be called once, in the handler, which returns what this does.
  grpc::ServerUnaryReactor* Start();
  /// Thread-safe.
  void Cancel();

 private:
  void Run();
  void Complete(CallResult result);

  const RequestScope& scope_;
  grpc::CallbackServerContext* const context_;
  const grpc::ByteBuffer* const request_;
  grpc::ByteBuffer* const response_;
  const absl::Time arrival_;
  std::string name_space_;  // Known once the request is decoded.

  absl::Mutex mutex_;
  std::shared_ptr<CallHandle> handle_ ABSL_GUARDED_BY(mutex_);
  grpc::ServerUnaryReactor* reactor_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace formwork::server
