#pragma once

// CallStream over gRPC. For the library itself.

#include <memory>

#include "absl/time/time.h"
#include "formwork/attempts.h"
#include "formwork/client.h"
#include "grpcpp/channel.h"

namespace formwork::client {

/// `timeout`: of the stream as a whole.
std::unique_ptr<CallStream> OpenCallStream(std::shared_ptr<grpc::Channel> channel,
                                           const ClientOptions& options,
                                           std::shared_ptr<Origin> origin, absl::Duration timeout);

}  // namespace formwork::client
