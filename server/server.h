#pragma once

// The server's parts and their order of life: engine, metrics, gRPC, HTTP.

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/engine.h"
#include "grpcpp/server.h"
#include "server/flags.h"
#include "server/graph_service.h"
#include "server/http_server.h"
#include "server/metrics.h"

namespace formwork::server {

/// A server that serves from Start until Shutdown. Start and Shutdown are for one thread.
class Server {
 public:
  /// Errors: kUnavailable, saying which and why, if a port cannot be had.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       std::unique_ptr<Engine> engine);
  ~Server();

  /// "grpc=127.0.0.1:8500 http=127.0.0.1:8501", and " unix=PATH" where there is one.
  std::string Addresses() const;

  /// Not serving -> what was admitted ends, or `deadline` passes -> all is closed. Returns
  /// kDeadlineExceeded where something had to be cut off.
  absl::Status Shutdown(absl::Time deadline);

 private:
  Server(const ServerOptions& options, std::unique_ptr<Engine> engine);
  absl::Status StartGrpc();
  absl::Status StartHttp();

  const ServerOptions options_;
  const std::unique_ptr<Engine> engine_;
  Metrics metrics_;
  GraphService service_;
  std::atomic<bool> serving_{false};
  int port_ = 0;
  std::unique_ptr<grpc::Server> grpc_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace formwork::server
