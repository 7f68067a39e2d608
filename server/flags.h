#pragma once

// formwork-server's settings: flags, each also as FORMWORK_* in the environment.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/engine.h"

namespace formwork::server {

struct ServerOptions {
  std::string bind = "127.0.0.1";  ///< An IPv4 or IPv6 address.
  int port = 8500;                 ///< 0: one that is free.
  int http_port = 8501;            ///< 0: one that is free; -1: no HTTP.
  std::string unix_socket;         ///< A path; empty: none.
  std::string tls_cert;            ///< TlsFiles's; empty: no TLS.
  std::string tls_key;
  std::string tls_client_ca;  ///< Empty: clients need no certificate.
  int max_message_bytes = 2147483647;
  int max_connections = 0;  ///< gRPC's; 0: as the file descriptors allow, at most 10,000.
  double max_connection_idle_seconds = 600;  ///< Without calls; 0: no bound.
  double max_connection_age_seconds = 0;     ///< Calls are not cut off; 0: no bound.
  int function_series = 20;                  ///< Functions with a latency histogram of their own.
  int namespace_series = 10;                 ///< Namespaces with counters of their own.
  int slow_call_ms = 5000;                   ///< Calls that take longer are logged; 0: none.
  double lame_duck_seconds = 0;
  double drain_timeout_seconds = 10;
  double stream_idle_timeout_seconds = 3600;  ///< 0: none.
  double snapshot_interval_seconds = 60;      ///< EngineOptions::snapshot_interval; 0: none.
  double snapshot_timeout_seconds = 60;       ///< For the last one, at the end.
  std::string durability = "snapshot";        ///< EngineOptions::durability.
  double kept_tensor_ttl_seconds = 0;         ///< EngineOptions::kept_tensor_ttl; 0: for ever.
  double client_ttl_seconds = 86400;          ///< EngineOptions::client_ttl; 0: for ever.
  double answer_ttl_seconds = 600;            ///< EngineOptions::answer_ttl.
  std::string device = "cpu";                 ///< As OpenDevice (device.h) takes it.
  double device_stall_seconds = 120;          ///< EngineOptions::device_stall; 0: never.
  bool cuda_graphs = true;                    ///< False: EngineOptions::max_captured_bytes is 0.
  bool tf32 = false;                          ///< UseTf32 (device.h).
  bool deterministic = false;                 ///< UseDeterminism (device.h).
  std::vector<std::string> saved_models;      ///< NAME=PATH, loaded before it serves.
  double saved_model_interval_seconds = 0;    ///< Between looks for higher versions; 0: none.
  int64_t max_batch_rows = 0;                 ///< Of those; SavedModelSpec's.
  bool rest = true;                           ///< Whether HTTP answers predictions.
  std::string log_format = "text";
  std::string log_level = "info";
  EngineOptions engine;
  std::string changed;  ///< The flags that are not at their default: "--port=0 --threads=2".
};

/// The exit code after a flag or environment variable that makes no sense.
inline constexpr int kBadFlag = 2;

/// Reads the command line and the environment into `options`; the command line wins. Returns the
/// exit code where the process is to end: 0 after --help and --version, kBadFlag after an error,
/// which is printed in one line with the flag's name.
std::optional<int> ParseFlags(int argc, const char* const* argv, ServerOptions* options);

}  // namespace formwork::server
