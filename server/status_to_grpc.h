#pragma once

// The one place where a Status becomes gRPC's: a text that every client can receive, and the
// details in the trailing metadata.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/engine.h"
#include "formwork/v1/graph_service.pb.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/status.h"

namespace formwork::server {

/// The key of the trailing metadata that holds one serialized formwork.v1.ErrorDetails.
inline constexpr char kErrorDetailsKey[] = "formwork-error-bin";

/// The key of the request metadata by which a client says how many bytes of trailers it takes,
/// where it takes more than the 8 KB that every client does.
inline constexpr char kErrorRoomKey[] = "formwork-error-room";

/// gRPC refuses longer trailers on many clients (8 KB in all): texts are cut to this.
inline constexpr size_t kMaxErrorText = 4096;

/// `status` for the caller. Where it is an error, the details and what the call printed go to
/// `context`, with what is least needed left out until they fit: printed text, culprits,
/// candidates, the suggested type.
grpc::Status ToGrpc(const absl::Status& status, const ErrorDetails& details, uint64_t epoch,
                    grpc::CallbackServerContext* context,
                    absl::Span<const std::string> printed = {});

/// The same within a response, whole: formwork.v1.Error.
v1::Error ToErrorMessage(const absl::Status& status, const ErrorDetails& details, uint64_t epoch);

/// All of `details` but what was printed.
v1::ErrorDetails ToMessage(const ErrorDetails& details, uint64_t epoch);

}  // namespace formwork::server
