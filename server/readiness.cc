#include "server/readiness.h"

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/create_channel_posix.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/unique_fd.h"

namespace formwork::server {
namespace {

// grpc.health.v1.HealthCheckResponse with status SERVING.
constexpr char kServing[] = {8, 1};

bool IsServing(const grpc::ByteBuffer& response) {
  grpc::Slice slice;
  return response.Length() == sizeof(kServing) && response.DumpToSingleSlice(&slice).ok() &&
         slice.begin()[0] == kServing[0] && slice.begin()[1] == kServing[1];
}

}  // namespace

bool Readiness::Serves() {
  absl::MutexLock lock(&mutex_);
  if (absl::Now() - asked_ >= kFresh) {
    serves_ = Ask();
    asked_ = absl::Now();
  }
  return serves_;
}

bool Readiness::Ask() const {
  // A listener that is deaf goes on serving the connections it has, so each time takes a new one.
  absl::StatusOr<UniqueFd> connection = listener_.ConnectToSelf();
  if (!connection.ok()) return false;
  grpc::GenericStub stub(grpc::CreateInsecureChannelFromFd("self", connection->release()));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kTimeout));
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                                          grpc::ByteBuffer(nullptr, 0), &queue);
  grpc::ByteBuffer response;
  grpc::Status status;
  call->StartCall();
  call->Finish(&response, &status, &status);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return status.ok() && IsServing(response);
}

}  // namespace formwork::server
