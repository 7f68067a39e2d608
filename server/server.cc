#include "server/server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "server/listen_address.h"

namespace formwork::server {
namespace {

// What streams that never end (Watch, idle CallStreams) get to notice the end.
constexpr absl::Duration kStreamGrace = absl::Milliseconds(200);

}  // namespace

Server::Server(const ServerOptions& options, std::unique_ptr<Engine> engine)
    : options_(options),
      engine_(std::move(engine)),
      metrics_([this] { return engine_->Stats(); }, static_cast<size_t>(options.function_series)),
      service_(*engine_, metrics_) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      std::unique_ptr<Engine> engine) {
  std::unique_ptr<Server> server(new Server(options, std::move(engine)));
  FORMWORK_RETURN_IF_ERROR(server->StartGrpc());
  FORMWORK_RETURN_IF_ERROR(server->StartHttp());
  server->grpc_->GetHealthCheckService()->SetServingStatus(
      std::string(v1::GraphService::service_full_name()), true);
  server->serving_ = true;
  return server;
}

absl::Status Server::StartGrpc() {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  // Else a second server on the same port would silently take half of the connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Reflection alone is a synchronous service: one thread is enough.
  using Sync = grpc::ServerBuilder::SyncServerOption;
  builder.SetSyncServerOption(Sync::NUM_CQS, 1);
  builder.SetSyncServerOption(Sync::MIN_POLLERS, 1);
  builder.SetSyncServerOption(Sync::MAX_POLLERS, 1);
  builder.SetMaxReceiveMessageSize(options_.max_message_bytes);
  builder.SetMaxSendMessageSize(options_.max_message_bytes);
  const auto credentials = grpc::InsecureServerCredentials();
  builder.AddListeningPort(HostAndPort(options_.bind, options_.port), credentials, &port_);
  int unix_result = 1;
  if (!options_.unix_socket.empty()) {
    FORMWORK_RETURN_IF_ERROR(CheckUnixSocketFree(options_.unix_socket));
    builder.AddListeningPort("unix:" + options_.unix_socket, credentials, &unix_result);
  }
  builder.RegisterService(&service_);
  grpc_ = builder.BuildAndStart();
  if (grpc_ != nullptr && port_ != 0 && unix_result != 0) return absl::OkStatus();
  if (port_ != 0 && !options_.unix_socket.empty()) {
    return absl::UnavailableError("gRPC: cannot listen on unix:" + options_.unix_socket);
  }
  return CannotListen("gRPC", options_.bind, options_.port);
}

absl::Status Server::StartHttp() {
  if (options_.http_port < 0) return absl::OkStatus();
  HttpServer::Handlers handlers;
  handlers["/healthz"] = [] { return HttpAnswer{.body = "ok\n"}; };
  handlers["/readyz"] = [this] {
    if (serving_) return HttpAnswer{.body = "ready\n"};
    return HttpAnswer{.code = 503, .body = "not serving\n"};
  };
  handlers["/metrics"] = [this] {
    return HttpAnswer{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                      .body = metrics_.Text()};
  };
  FORMWORK_ASSIGN_OR_RETURN(
      http_, HttpServer::Start(options_.bind, options_.http_port, std::move(handlers)));
  return absl::OkStatus();
}

std::string Server::Addresses() const {
  std::string addresses = absl::StrCat("grpc=", HostAndPort(options_.bind, port_));
  if (http_ != nullptr) {
    absl::StrAppend(&addresses, " http=", HostAndPort(options_.bind, http_->port()));
  }
  if (!options_.unix_socket.empty()) absl::StrAppend(&addresses, " unix=", options_.unix_socket);
  return addresses;
}

absl::Status Server::Shutdown(absl::Time deadline) {
  serving_ = false;
  grpc_->GetHealthCheckService()->SetServingStatus(false);
  const absl::Status drained = engine_->Drain(deadline);
  service_.CloseStreams();
  grpc_->Shutdown(absl::ToChronoTime(std::min(deadline, absl::Now() + kStreamGrace)));
  grpc_ = nullptr;
  http_ = nullptr;
  return drained;
}

Server::~Server() {
  if (grpc_ != nullptr) grpc_->Shutdown(absl::ToChronoTime(absl::Now()));
}

}  // namespace formwork::server
