#pragma once

// One unary request from its bytes to its answer.

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/base/memory_budget.h"
#include "core/engine.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/request_scope.h"

namespace formwork::server {

/// Shared by gRPC, the thread that works on it and the engine. A request that is done before its
/// handler returns takes gRPC's default reactor, which costs no thread hop; another is its own,
/// which can be cancelled. Thread-safe.
class UnaryRequest final : public grpc::ServerUnaryReactor,
                           public std::enable_shared_from_this<UnaryRequest> {
 public:
  using Body = absl::AnyInvocable<void(const std::shared_ptr<UnaryRequest>&)>;

  /// Runs `body`, which sees to it that Finish is called; to be called in the handler, which
  /// returns what this does. `pool`: where `body` runs; null: here. `method`: what the request is
  /// counted under; null: as a call. `name_space`: absent where the message's first field is it, as
  /// in those of formwork.v1.
  static grpc::ServerUnaryReactor* Start(const RequestScope& scope, const char* method,
                                         grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response, TaskPool* pool, Body body,
                                         std::optional<std::string> name_space = std::nullopt);

  /// Use Start.
  UnaryRequest(const RequestScope& scope, const char* method, grpc::CallbackServerContext* context,
               const grpc::ByteBuffer* request, grpc::ByteBuffer* response,
               std::optional<std::string> name_space);

  const grpc::ByteBuffer& message() const { return *request_; }
  grpc::ByteBuffer* response() { return response_; }
  grpc::CallbackServerContext& context() { return *context_; }
  absl::Time arrival() const { return arrival_; }
  /// What a call is counted under; to be set before Begin, and before Finish.
  void set_name_space(absl::string_view name_space) { name_space_ = std::string(name_space); }
  void set_function_name(std::string name) { function_name_ = std::move(name); }
  /// That of its namespace.
  uint64_t epoch() const;
  absl::Time deadline() const { return DeadlineOf(*context_); }

  /// The error of a request that was cancelled, or is late, while it waited: it must not act.
  absl::Status CheckWanted();
  /// Starts what the engine was asked for, so that a cancellation of the request reaches it.
  void Begin(std::shared_ptr<CallHandle> handle);
  /// Answers, the first time: with the response where the status is OK. `printed`: by a call. Does
  /// not throw.
  void Finish(const absl::Status& status, const ErrorDetails& details = {},
              absl::Span<const std::string> printed = {});
  /// Runs `work`, which sees to it that Finish is called; what it throws for want of memory is the
  /// answer.
  void Guard(absl::FunctionRef<void()> work);
  /// Fills the response by `encode`, which has much to copy, on a thread of ours and held to the
  /// memory limit, and answers; `details`: where it fails.
  void AnswerLarge(absl::AnyInvocable<absl::Status()> encode, ErrorDetails details);

  void OnCancel() override;
  void OnDone() override;

 private:
  absl::Status HoldMessage();
  std::string name_space() const;

  const RequestScope& scope_;
  const char* const method_;
  grpc::CallbackServerContext* const context_;
  const grpc::ByteBuffer* const request_;
  grpc::ByteBuffer* const response_;
  const absl::Time arrival_;
  std::optional<std::string> name_space_;  // Absent where it is not known yet.
  std::string function_name_;
  std::atomic<bool> answered_{false};
  MemoryReservation held_;  // The message's.

  absl::Mutex mutex_;
  std::shared_ptr<CallHandle> handle_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<UnaryRequest> held_by_grpc_ ABSL_GUARDED_BY(mutex_);  // This, until OnDone.
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace formwork::server
