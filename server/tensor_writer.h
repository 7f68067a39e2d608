#pragma once

// The method WriteTensor: a value that comes in chunks.

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/memory_budget.h"
#include "core/engine.h"
#include "formwork/v1/tensors.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/open_streams.h"
#include "server/request_scope.h"
#include "server/wire_format.h"

namespace formwork::server {

/// A value in the making. Its memory grows with the bytes that come, not with those that were
/// announced. Not thread-safe.
class GrowingTensor {
 public:
  /// Errors: kInvalidArgument: dtype or dims cannot travel, or `total_bytes` is not theirs.
  static absl::StatusOr<GrowingTensor> Make(const v1::WriteTensorRequest& head,
                                            Allocator& allocator);

  /// Errors: kInvalidArgument if that is more than was announced; kResourceExhausted.
  absl::Status Append(WireReader content);
  /// The value, whole. Errors: kInvalidArgument if bytes are missing or strings malformed.
  absl::StatusOr<Tensor> Finish() &&;

 private:
  GrowingTensor(Allocator& allocator, DType dtype, Shape shape, DType held_dtype, size_t total)
      : allocator_(&allocator),
        dtype_(dtype),
        shape_(std::move(shape)),
        held_dtype_(held_dtype),
        total_(total) {}
  absl::Status Grow(size_t bytes);

  Allocator* allocator_;
  DType dtype_;
  Shape shape_;
  DType held_dtype_;  // The dtype, or uint8 for the content of strings.
  size_t total_;
  size_t received_ = 0;
  Tensor held_;  // A vector of at least what was received.
};

/// gRPC calls the On… methods. Lives until gRPC and whoever works on it are both done with it.
class TensorWriter final : public grpc::ServerReadReactor<grpc::ByteBuffer>,
                           public OpenStream,
                           public std::enable_shared_from_this<TensorWriter> {
 public:
  TensorWriter(const RequestScope& scope, OpenStreams& open, grpc::CallbackServerContext& context,
               grpc::ByteBuffer& response);

  /// Begins to read; to be called once, in the handler.
  void Start();
  void CloseWhenIdle() override;
  void EndIfIdle(absl::Time since) override;

  void OnReadDone(bool ok) override;
  void OnDone() override;

 private:
  // What the first message says besides dtype and dims.
  struct Head {
    std::string name_space;
    std::string owner;
    absl::Duration keep_for;
  };

  // What came, or the end; `ok`: as OnReadDone.
  absl::Status Begin(bool ok);
  // Takes incoming_ and reads on, or ends.
  void Take();
  absl::Status Add();
  absl::Status ReadHead(const std::string& bytes);
  void Keep();
  absl::Status TryKeep();
  // These do not throw.
  void End(const absl::Status& status);
  void Break(const absl::Status& status) override { End(status); }

  const RequestScope& scope_;
  OpenStreams& open_;
  grpc::CallbackServerContext& context_;
  grpc::ByteBuffer& response_;
  grpc::ByteBuffer incoming_;
  MemoryReservation held_;  // Of incoming_.
  // One thread at a time works on these: whoever was handed the last message.
  Head head_;
  std::unique_ptr<GrowingTensor> value_;

  absl::Mutex mutex_;
  absl::Time last_progress_ ABSL_GUARDED_BY(mutex_) = absl::Now();
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace formwork::server
