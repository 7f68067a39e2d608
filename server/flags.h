#pragma once

// formwork-server's settings: flags, each also as FORMWORK_* in the environment.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "core/engine.h"

namespace formwork::server {

struct ServerOptions {
  std::string bind = "127.0.0.1";  ///< An IPv4 or IPv6 address.
  int port = 8500;                 ///< 0: one that is free.
  int http_port = 8501;            ///< 0: one that is free; -1: no HTTP.
  std::string unix_socket;         ///< A path; empty: none.
  int max_message_bytes = 2147483647;
  int function_series = 20;  ///< Functions with a latency histogram of their own.
  double drain_timeout_seconds = 10;
  std::string log_format = "text";
  std::string log_level = "info";
  EngineOptions engine;
};

/// Reads the command line and the environment into `options`; the command line wins. Returns the
/// exit code where the process is to end: after --help, --version, or an error, which is printed.
std::optional<int> ParseFlags(int argc, const char* const* argv, ServerOptions* options);

}  // namespace formwork::server
