#include "server/flags.h"

#include <arpa/inet.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "server/version.h"

namespace formwork::server {
namespace {

// "--http-port" -> "FORMWORK_HTTP_PORT"
std::string EnvironmentName(absl::string_view flag) {
  std::string name = "FORMWORK_";
  for (char c : flag.substr(2)) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

template <typename T>
CLI::Option* Add(CLI::App& app, const char* flag, T& value, const char* text) {
  return app.add_option(flag, value, text)->envname(EnvironmentName(flag))->capture_default_str();
}

std::string CheckAddress(const std::string& text) {
  unsigned char address[sizeof(in6_addr)];
  if (inet_pton(AF_INET, text.c_str(), address) == 1) return "";
  if (inet_pton(AF_INET6, text.c_str(), address) == 1) return "";
  return "not an IPv4 or IPv6 address: " + text;
}

void AddServing(CLI::App& app, ServerOptions& options) {
  Add(app, "--bind", options.bind,
      "Address to listen on. There is no authentication: think before it is not loopback")
      ->check(CLI::Validator(CheckAddress, "ADDRESS"));
  Add(app, "--port", options.port, "gRPC port; 0 picks one and prints it")
      ->check(CLI::Range(0, 65535));
  Add(app, "--http-port", options.http_port,
      "HTTP port (/metrics, /healthz, /readyz); 0 picks one, -1 switches it off")
      ->check(CLI::Range(-1, 65535));
  Add(app, "--unix-socket", options.unix_socket, "Path of a socket to listen on as well");
  Add(app, "--max-message-bytes", options.max_message_bytes,
      "Largest request and response (as 64M or 1G, too)")
      ->transform(CLI::AsSizeValue(false));
  Add(app, "--drain-timeout", options.drain_timeout_seconds,
      "Seconds that SIGTERM leaves to what was admitted")
      ->check(CLI::Range(0.0, 86400.0));
}

void AddEngine(CLI::App& app, EngineOptions& options) {
  Add(app, "--memory-limit-bytes", options.memory_limit_bytes,
      "Most memory of tensors (as 8G, too); 0: no limit")
      ->transform(CLI::AsSizeValue(false));
  Add(app, "--threads", options.compute_threads, "Threads that one kernel may use; 0: all cores")
      ->check(CLI::Range(0, 4096));
  Add(app, "--call-threads", options.call_threads,
      "Calls that run at once outside the RPC threads; 0: chosen by the number of cores")
      ->check(CLI::Range(0, 4096));
  Add(app, "--max-queued-calls", options.max_queued_calls,
      "Calls that may wait; more are refused with RESOURCE_EXHAUSTED")
      ->check(CLI::Range(1, 1 << 24));
  Add(app, "--max-functions", options.max_functions, "Concrete functions that are kept")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  Add(app, "--max-function-bytes", options.max_function_bytes,
      "Bytes of the functions that are kept (as 1G, too)")
      ->transform(CLI::AsSizeValue(false));
}

void AddObserving(CLI::App& app, ServerOptions& options) {
  Add(app, "--function-series", options.function_series,
      "Functions with a latency histogram of their own; the rest is \"other\"")
      ->check(CLI::Range(0, 1000));
  Add(app, "--log-format", options.log_format, "Of the log on stderr")
      ->check(CLI::IsMember({"text", "json"}));
  Add(app, "--log-level", options.log_level, "Least level that is logged")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}));
}

}  // namespace

std::optional<int> ParseFlags(int argc, const char* const* argv, ServerOptions* options) {
  CLI::App app("Runs traced TensorFlow functions, without TensorFlow.", "formwork-server");
  app.set_version_flag("--version", absl::StrCat("formwork-server ", kVersion));
  app.get_formatter()->column_width(36);
  AddServing(app, *options);
  AddEngine(app, options->engine);
  AddObserving(app, *options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  if (options->max_message_bytes < 1024) {
    std::cerr << "--max-message-bytes: at least 1024 are needed\n";
    return 1;
  }
  return std::nullopt;
}

}  // namespace formwork::server
