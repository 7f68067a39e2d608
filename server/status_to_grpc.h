#pragma once

// The one place where a Status becomes gRPC's: a text that every client can receive, and a
// google.rpc.Status in the trailing metadata, which the libraries of Go, Java and JavaScript read.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/engine.h"
#include "formwork/rpc/status.pb.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/status.h"

namespace formwork::server {

/// The key of the trailing metadata that holds one serialized google.rpc.Status.
inline constexpr char kStatusDetailsKey[] = "grpc-status-details-bin";

/// The key of the request metadata by which a client says how many bytes of trailers it takes,
/// where it takes more than the 8 KB that every client does.
inline constexpr char kErrorRoomKey[] = "formwork-error-room";

/// Longer texts are cut.
inline constexpr size_t kMaxErrorText = 4096;

/// `status` for the caller. Where it is an error, its details and what the call printed go to
/// `context`, with what is least needed left out until they fit: printed text, culprits,
/// candidates, the suggested type. Does not throw: where there is no memory for more, it is the
/// code alone.
grpc::Status ToGrpc(const absl::Status& status, const ErrorDetails& details, uint64_t epoch,
                    grpc::CallbackServerContext* context,
                    absl::Span<const std::string> printed = {});

/// The same within a response, whole; what was printed is a field of the response.
rpc::Status ToErrorMessage(const absl::Status& status, const ErrorDetails& details, uint64_t epoch);

}  // namespace formwork::server
