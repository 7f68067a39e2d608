#pragma once

#include <memory>

#include "grpcpp/security/server_credentials.h"
#include "server/tls_files.h"

namespace formwork::server {

/// gRPC's credentials for TLS 1.2 and 1.3, with what is in `files` when a connection is made, for
/// one port. Where `files` has a CA of clients, each must show a certificate of its.
///
/// `files` outlives the server.
std::shared_ptr<grpc::ServerCredentials> MakeTlsCredentials(const TlsFiles& files);

}  // namespace formwork::server
