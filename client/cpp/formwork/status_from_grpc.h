#pragma once

// The server's errors as absl::Status, with its details as a payload. For the library itself.

#include "absl/status/status.h"
#include "formwork/rpc/status.pb.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace formwork::client {

/// `context`: of the RPC that ended with `status`.
absl::Status StatusFrom(const grpc::Status& status, const grpc::ClientContext& context);
/// As a stream of calls answers them.
absl::Status StatusFrom(const rpc::Status& error);

}  // namespace formwork::client
