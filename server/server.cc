#include "server/server.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/device/device.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "server/listen_socket.h"
#include "server/tls_credentials.h"
#include "server/version.h"
#include "spdlog/spdlog.h"

namespace formwork::server {
namespace {

// What streams that never end (Watch, idle CallStreams) get to notice the end, and what answers to
// calls that were cut off need to be sent.
constexpr absl::Duration kStreamGrace = absl::Milliseconds(200);
// What was cut off at the drain's deadline has so long to end.
constexpr absl::Duration kAbortGrace = absl::Seconds(1);

// A peer that has not finished HTTP/2's greeting by then is none.
constexpr absl::Duration kHandshakeTimeout = absl::Seconds(10);
// When a peer is lost that does not answer a ping.
constexpr absl::Duration kPingTimeout = absl::Seconds(20);

constexpr size_t kHttpConnections = 256;
// Descriptors that are not for gRPC's connections: HTTP's, the library's own, what is being closed.
constexpr size_t kReservedDescriptors = kHttpConnections + 128;
constexpr size_t kMostConnections = 10'000;

// Calls at once over one connection: a client keeps back what is more. gRPC has no bound, and each
// takes some 14 KB before anybody is asked.
constexpr int kMostStreams = 4096;

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(duration), INT_MAX));
}

absl::StatusOr<size_t> MaxConnections(const ServerOptions& options) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const size_t descriptors = limit.rlim_cur;
  const size_t reserved = std::min(kReservedDescriptors, descriptors / 2);
  const size_t possible = descriptors - reserved;
  const size_t wanted = static_cast<size_t>(options.max_connections);
  if (wanted == 0) return std::min(possible, kMostConnections);
  if (wanted <= possible) return wanted;
  return InvalidArgument(
      "--max-connections: needs more file descriptors than the process may "
      "open: wanted=",
      wanted, " possible=", possible, " limit=", descriptors);
}

void BoundConnections(const ServerOptions& options, grpc::ServerBuilder* builder) {
  const auto set = [builder](const char* argument, absl::Duration value) {
    builder->AddChannelArgument(argument, Milliseconds(value));
  };
  set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeout);
  // Only connections with calls are pinged: ConnectionListener knows them by the answers.
  set(GRPC_ARG_KEEPALIVE_TIME_MS, ConnectionListener::kBusySilence);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeout);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostStreams);
  // Clients may ping as often during a long call; gRPC's default, five minutes, cuts them off.
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, absl::Seconds(5));
  if (options.max_connection_idle_seconds > 0) {
    set(GRPC_ARG_MAX_CONNECTION_IDLE_MS, absl::Seconds(options.max_connection_idle_seconds));
  }
  if (options.max_connection_age_seconds > 0) {
    set(GRPC_ARG_MAX_CONNECTION_AGE_MS, absl::Seconds(options.max_connection_age_seconds));
  }
}

// What gRPC takes before a message is anybody else's.
void BoundMemory(size_t limit_bytes, grpc::ServerBuilder* builder) {
  // A message of a megabyte could become a gigabyte before anybody is asked.
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  if (limit_bytes == 0) return;
  grpc::ResourceQuota quota("formwork");
  quota.Resize(limit_bytes / 2);
  builder->SetResourceQuota(quota);
}

}  // namespace

Server::Server(ServerOptions options, std::unique_ptr<Engine> engine)
    : options_(std::move(options)),
      engine_(std::move(engine)),
      metrics_(MetricsOptions()),
      listener_(static_cast<size_t>(options_.max_connections)),
      service_(options_, *engine_, metrics_, listener_),
      predictions_(service_.scope()),
      models_(service_.scope()),
      inferences_(service_.scope(), service_.streams(), [this] { return IsReady(); }),
      rest_(service_.scope(), [this] { return IsReady(); }) {}

Metrics::Options Server::MetricsOptions() {
  const EngineOptions& engine = options_.engine;
  Metrics::Options metrics;
  metrics.engine = [this] { return engine_->Stats(); };
  metrics.namespaces = [this] { return engine_->ListNamespaces(); };
  metrics.connections = [this] { return listener_.GetStats(); };
  if (Device* const device = engine_->Info().options.device; device != nullptr) {
    metrics.device_load = [device] { return device->Load(); };
  }
  metrics.function_series = options_.function_series;
  metrics.namespace_series = options_.namespace_series;
  if (options_.slow_call_ms > 0) metrics.slow_call = absl::Milliseconds(options_.slow_call_ms);
  metrics.limits = {
      {"formwork_calls_queued_limit", "Most calls that wait.",
       static_cast<double>(engine.max_queued_calls)},
      {"formwork_functions_limit", "Most concrete functions in the cache.",
       static_cast<double>(engine.max_functions)},
      {"formwork_function_cache_limit_bytes", "Most bytes that the cache holds.",
       static_cast<double>(engine.max_function_bytes)},
      {"formwork_connections_limit", "Most gRPC connections at once.",
       static_cast<double>(options_.max_connections)},
      {"formwork_message_limit_bytes", "Largest request and response.",
       static_cast<double>(options_.max_message_bytes)},
  };
  return metrics;
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      std::unique_ptr<Engine> engine) {
  ServerOptions chosen = options;
  FORMWORK_ASSIGN_OR_RETURN(const size_t max_connections, MaxConnections(options));
  chosen.max_connections = static_cast<int>(max_connections);
  std::unique_ptr<Server> server(new Server(std::move(chosen), std::move(engine)));
  FORMWORK_RETURN_IF_ERROR(server->OpenTls());
  FORMWORK_RETURN_IF_ERROR(server->StartGrpc());
  FORMWORK_RETURN_IF_ERROR(server->StartHttp());
  server->grpc_->GetHealthCheckService()->SetServingStatus(
      std::string(v1::GraphService::service_full_name()), true);
  server->serving_ = true;
  server->LogStart();
  server->health_->Serve(server->grpc_.get());
  server->engine_->OnceDeviceLost(
      [health = server->health_](const absl::Status& lost) { health->NoteDeviceLost(lost); });
  return server;
}

void Server::LogStart() const {
  const EngineInfo info = engine_->Info();
  const EngineOptions& engine = info.options;
  rlimit descriptors{};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  spdlog::info(
      "formwork-server {}: {}; flags: {}; limits: memory={} call={} message={} queued_calls={} "
      "functions={} connections={} descriptors={} threads={} call_threads={}; device={} "
      "instructions={}",
      kVersion, Addresses(), options_.changed.empty() ? "none" : options_.changed,
      engine.memory_limit_bytes, engine.max_call_bytes, options_.max_message_bytes,
      engine.max_queued_calls, engine.max_functions, options_.max_connections, descriptors.rlim_cur,
      engine.compute_threads, engine.call_threads,
      engine.device == nullptr ? "CPU" : std::string(engine.device->name()), info.instruction_set);
  if (engine.data_dir.empty() || engine.durability == Durability::kMemory) return;
  const EngineStats stats = engine_->Stats();
  spdlog::info("data directory {}: durability={} variables={} bytes={} functions={} epoch={}",
               engine.data_dir, options_.durability, stats.variables, stats.variable_bytes,
               stats.functions, info.epoch);
}

absl::Status Server::OpenTls() {
  if (options_.tls_cert.empty()) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(
      tls_, TlsFiles::Open({options_.tls_cert, options_.tls_key, options_.tls_client_ca}));
  return absl::OkStatus();
}

absl::Status Server::StartGrpc() {
  FORMWORK_ASSIGN_OR_RETURN(std::vector<UniqueFd> sockets, Listen());
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  // Reflection alone is a synchronous service: one thread is enough.
  using Sync = grpc::ServerBuilder::SyncServerOption;
  builder.SetSyncServerOption(Sync::NUM_CQS, 1);
  builder.SetSyncServerOption(Sync::MIN_POLLERS, 1);
  builder.SetSyncServerOption(Sync::MAX_POLLERS, 1);
  builder.SetMaxReceiveMessageSize(options_.max_message_bytes);
  builder.SetMaxSendMessageSize(options_.max_message_bytes);
  BoundConnections(options_, &builder);
  using Acceptor = std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor>;
  const auto add_acceptor = [&builder](std::shared_ptr<grpc::ServerCredentials> credentials) {
    return Acceptor(builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        std::move(credentials)));
  };
  const Acceptor plain = add_acceptor(grpc::InsecureServerCredentials());
  const Acceptor remote = tls_ == nullptr ? plain : add_acceptor(MakeTlsCredentials(*tls_));
  BoundMemory(options_.engine.memory_limit_bytes, &builder);
  builder.RegisterService(&service_);
  builder.RegisterService(&predictions_);
  builder.RegisterService(&models_);
  builder.RegisterService(&inferences_);
  grpc_ = builder.BuildAndStart();
  if (grpc_ == nullptr) {
    return absl::InternalError(tls_ == nullptr ? "gRPC does not start"
                                               : "gRPC does not start with what is in --tls-cert, "
                                                 "--tls-key and --tls-client-ca");
  }
  listener_.Start(std::move(sockets), [plain, remote](int fd, bool is_remote) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = fd;
    (is_remote ? remote : plain)->HandleNewConnection(&connection);
  });
  return absl::OkStatus();
}

absl::StatusOr<std::vector<UniqueFd>> Server::Listen() {
  std::vector<UniqueFd> sockets;
  absl::StatusOr<UniqueFd> tcp = ListenOnTcp(options_.bind, options_.port, &port_);
  if (!tcp.ok()) return Annotate(tcp.status(), "--bind, --port");
  sockets.push_back(*std::move(tcp));
  if (options_.unix_socket.empty()) return sockets;
  absl::StatusOr<UniqueFd> unix_socket = ListenOnUnix(options_.unix_socket);
  if (!unix_socket.ok()) return Annotate(unix_socket.status(), "--unix-socket");
  sockets.push_back(*std::move(unix_socket));
  return sockets;
}

absl::Status Server::StartHttp() {
  if (options_.http_port < 0) return absl::OkStatus();
  readiness_ = std::make_unique<Readiness>(listener_);
  HttpServer::Handlers handlers;
  const auto lost = [this]() -> std::optional<HttpAnswer> {
    const absl::Status status = engine_->DeviceStatus();
    if (status.ok()) return std::nullopt;
    return HttpAnswer{.code = 503, .body = absl::StrCat(status.message(), "\n")};
  };
  // A restart alone mends a lost device, so it is no matter of readiness only.
  handlers["/healthz"] =
      HttpServer::Get([lost] { return lost().value_or(HttpAnswer{.body = "ok\n"}); });
  handlers["/readyz"] = HttpServer::Get(
      [this, lost] {
        if (std::optional<HttpAnswer> answer = lost()) return *answer;
        if (!serving_) return HttpAnswer{.code = 503, .body = "draining\n"};
        if (readiness_->Serves()) return HttpAnswer{.body = "ready\n"};
        return HttpAnswer{.code = 503, .body = "gRPC does not answer\n"};
      },
      /*may_wait=*/true);
  handlers["/metrics"] = HttpServer::Get(
      [this] {
        return HttpAnswer{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                          .body = metrics_.Text()};
      },
      /*may_wait=*/true);
  for (auto& [path, handler] : handlers) handler.is_for_all = true;
  if (options_.rest) rest_.AddTo(handlers);
  absl::StatusOr<std::unique_ptr<HttpServer>> http = HttpServer::Start(
      options_.bind, options_.http_port, std::move(handlers), &engine_->memory(),
      {.connections = kHttpConnections, .requests = kHttpConnections / 4 * 3}, tls_.get());
  if (absl::IsUnavailable(http.status())) return Annotate(http.status(), "--bind, --http-port");
  if (!http.ok()) return http.status();
  http_ = *std::move(http);
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

void Server::Health::NoteDeviceLost(const absl::Status& lost) {
  spdlog::error("{}: nothing is served from now on, until the server is started again",
                std::string(lost.message()));
  absl::MutexLock lock(&mutex);
  if (server != nullptr) server->GetHealthCheckService()->SetServingStatus(false);
}

bool Server::IsReady() const { return serving_ && engine_->DeviceStatus().ok(); }

void Server::StopServing() {
  serving_ = false;
  grpc_->GetHealthCheckService()->SetServingStatus(false);
}

absl::Status Server::Shutdown(absl::Time deadline) {
  if (serving_) StopServing();
  const DrainResult drained = engine_->Drain(deadline, kAbortGrace);
  listener_.Stop();
  service_.CloseStreams();
  grpc_->Shutdown(absl::ToChronoTime(absl::Now() + kStreamGrace));
  health_->Serve(nullptr);
  grpc_ = nullptr;
  if (http_ != nullptr) http_->AwaitAnswers(absl::Now() + kStreamGrace);
  http_ = nullptr;
  if (!options_.unix_socket.empty()) unlink(options_.unix_socket.c_str());
  if (drained.cut_off == 0) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("calls cut off at the drain's deadline: ", drained.cut_off,
                   "; still running: ", drained.left));
}

absl::Status Server::SaveState(absl::Time deadline) { return engine_->TakeLastSnapshot(deadline); }

Server::~Server() {
  health_->Serve(nullptr);
  http_ = nullptr;
  listener_.Stop();
  if (grpc_ != nullptr) grpc_->Shutdown(absl::ToChronoTime(absl::Now()));
}

}  // namespace formwork::server
