#pragma once

// How a client reaches its server. For the library itself.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "formwork/client.h"
#include "grpcpp/channel.h"

namespace formwork::client {

/// Bytes of trailers: an error may have much to say.
inline constexpr int kErrorRoom = 1 << 20;

/// A channel to `target`, once the server says that it serves. Errors: Client::Connect's.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const std::string& target,
                                                           const ClientOptions& options);

}  // namespace formwork::client
