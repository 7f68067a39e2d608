#pragma once

// The server's parts and their order of life: engine, metrics, gRPC, HTTP.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/engine.h"
#include "grpcpp/server.h"
#include "server/connection_listener.h"
#include "server/flags.h"
#include "server/graph_service.h"
#include "server/http_server.h"
#include "server/metrics.h"
#include "server/readiness.h"
#include "server/serving/inference_service.h"
#include "server/serving/prediction_service.h"
#include "server/serving/rest_api.h"
#include "server/tls_files.h"

namespace formwork::server {

/// A server that serves from Start until Shutdown. Start and Shutdown are for one thread.
class Server {
 public:
  /// Errors: kUnavailable, with the flag and the system's reason, if a port cannot be had;
  /// kFailedPrecondition, with the flag and the file, if TLS cannot be done with one;
  /// kInvalidArgument if there are fewer file descriptors than `options` ask for.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       std::unique_ptr<Engine> engine);
  ~Server();

  /// "grpc=127.0.0.1:8500 http=127.0.0.1:8501", and " unix=PATH" where there is one.
  std::string Addresses() const;

  /// Health and /readyz say "not serving" from now on, so that balancers look elsewhere; calls are
  /// still taken.
  void StopServing();

  /// Takes no more calls -> what was admitted ends, or `deadline` passes -> all is closed. Returns
  /// kDeadlineExceeded where something had to be cut off.
  absl::Status Shutdown(absl::Time deadline);
  /// After Shutdown: takes the last snapshot, where there is a data directory. Errors: that there
  /// is none, then what was changed since the one before is lost.
  absl::Status SaveState(absl::Time deadline);

 private:
  Server(ServerOptions options, std::unique_ptr<Engine> engine);
  Metrics::Options MetricsOptions();
  absl::Status OpenTls();
  absl::Status StartGrpc();
  absl::StatusOr<std::vector<UniqueFd>> Listen();
  absl::Status StartHttp();
  void LogStart() const;
  bool IsReady() const;
  // What a thread of the engine's, which may outlive the rest, tells of a lost device.
  struct Health {
    absl::Mutex mutex;
    grpc::Server* server ABSL_GUARDED_BY(mutex) = nullptr;  // While there is one.
    void Serve(grpc::Server* now) {
      absl::MutexLock lock(&mutex);
      server = now;
    }
    void NoteDeviceLost(const absl::Status& lost);
  };

  const ServerOptions options_;  // As they took effect.
  const std::unique_ptr<Engine> engine_;
  Metrics metrics_;
  std::unique_ptr<TlsFiles> tls_;  // Null where there is no TLS.
  ConnectionListener listener_;
  GraphService service_;
  PredictionService predictions_;
  ModelService models_;
  InferenceService inferences_;
  RestApi rest_;
  std::atomic<bool> serving_{false};
  int port_ = 0;
  const std::shared_ptr<Health> health_ = std::make_shared<Health>();
  std::unique_ptr<grpc::Server> grpc_;
  std::unique_ptr<Readiness> readiness_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace formwork::server
