#include "server/flags.h"

#include <arpa/inet.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/system_memory.h"
#include "server/version.h"

namespace formwork::server {
namespace {

constexpr double kDay = 86400;
constexpr double kYear = 365 * kDay;
constexpr uint64_t kMostBytes = std::numeric_limits<int64_t>::max();

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

// Each validator reads the whole text, so that CLI11's own conversion of it cannot fail.

CLI::Validator Whole(int64_t least, int64_t most) {
  return {[least, most](std::string& text) -> std::string {
            int64_t value;
            if (!absl::SimpleAtoi(text, &value)) return "not a whole number: " + text;
            if (value >= least && value <= most) return "";
            return absl::StrCat("not from ", least, " to ", most, ": ", text);
          },
          absl::StrCat(least, "..", most)};
}

CLI::Validator Seconds(double most) {
  return {[most](std::string& text) -> std::string {
            double value;
            if (!absl::SimpleAtod(text, &value)) return "not a number of seconds: " + text;
            if (value >= 0 && value <= most) return "";
            return absl::StrCat("not from 0 to ", most, ": ", text);
          },
          "SECONDS"};
}

// Bytes as "1000", "64M", "2GiB", "1tb" (K, M, G, T are powers of 1024), made a plain number.
CLI::Validator Bytes(uint64_t least, uint64_t most) {
  return {[least, most](std::string& text) -> std::string {
            const std::string lower = absl::AsciiStrToLower(absl::StripAsciiWhitespace(text));
            absl::string_view number = lower;
            if (!absl::ConsumeSuffix(&number, "ib")) absl::ConsumeSuffix(&number, "b");
            constexpr absl::string_view kUnits = "kmgt";
            const size_t unit = number.empty() ? kUnits.npos : kUnits.find(number.back());
            if (unit != kUnits.npos) number.remove_suffix(1);
            const uint64_t scale = unit == kUnits.npos ? 1 : uint64_t{1} << (10 * (unit + 1));
            uint64_t value;
            if (!absl::SimpleAtoi(number, &value)) {
              return "not a number of bytes (as 1000, 64M or 2G): " + text;
            }
            if (value > most / scale || value * scale < least) {
              return absl::StrCat("not from ", least, " to ", most, " bytes: ", text);
            }
            text = absl::StrCat(value * scale);
            return "";
          },
          "BYTES"};
}

CLI::Validator OneOf(std::vector<std::string> words) {
  const std::string list = absl::StrJoin(words, ", ");
  return {[words = std::move(words), list](std::string& text) -> std::string {
            if (absl::c_linear_search(words, text)) return "";
            return absl::StrCat("not one of ", list, ": ", text);
          },
          list};
}

std::string CheckAddress(const std::string& text) {
  unsigned char address[sizeof(in6_addr)];
  if (inet_pton(AF_INET, text.c_str(), address) == 1) return "";
  if (inet_pton(AF_INET6, text.c_str(), address) == 1) return "";
  return "not an IPv4 or IPv6 address: " + text;
}

// What is left is for what the limit does not count: code, stacks, gRPC's buffers, other processes.
size_t DefaultMemoryLimit() { return SystemMemoryBytes() / 10 * 8; }

void AddServing(CLI::App& app, ServerOptions& options) {
  Add(app, "--bind", options.bind,
      "Address to listen on. Without --tls-client-ca there is no authentication: think before it "
      "is not loopback")
      ->check(CLI::Validator(CheckAddress, "ADDRESS"));
  Add(app, "--port", options.port, "gRPC port; 0 picks one and prints it")->check(Whole(0, 65535));
  Add(app, "--http-port", options.http_port,
      "HTTP port (/metrics, /healthz, /readyz); 0 picks one, -1 switches it off")
      ->check(Whole(-1, 65535));
  Add(app, "--rest", options.rest,
      "Whether the HTTP port answers predictions: TensorFlow Serving's REST API (/v1/models), "
      "the Open Inference Protocol (/v2)");
  Add(app, "--unix-socket", options.unix_socket, "Path of a socket to listen on as well");
  Add(app, "--tls-cert", options.tls_cert,
      "File of the server's certificate (PEM), and those that lead to its CA: gRPC and HTTP are "
      "encrypted. Read again when it changes");
  Add(app, "--tls-key", options.tls_key, "File of its private key (PEM)");
  Add(app, "--tls-client-ca", options.tls_client_ca,
      "File of the CAs (PEM) of which one must have signed the certificate that each client shows");
  Add(app, "--max-message-bytes", options.max_message_bytes,
      "Largest request and response (as 64M or 1G, too)")
      ->transform(Bytes(1024, 2147483647));
  Add(app, "--max-connections", options.max_connections,
      "gRPC connections at once; 0: as the file descriptors allow, at most 10000")
      ->check(Whole(0, 1 << 20));
  Add(app, "--max-connection-idle", options.max_connection_idle_seconds,
      "Seconds without a call after which a connection is closed; 0: never")
      ->check(Seconds(kYear));
  Add(app, "--max-connection-age", options.max_connection_age_seconds,
      "Seconds after which a connection takes no new calls, so that clients make another; those "
      "under way go on; 0: never")
      ->check(Seconds(kYear));
  Add(app, "--lame-duck", options.lame_duck_seconds,
      "Seconds after SIGTERM in which health says \"not serving\" and calls are still taken")
      ->check(Seconds(kDay));
  Add(app, "--drain-timeout", options.drain_timeout_seconds,
      "Seconds that are left then to what was admitted")
      ->check(Seconds(kDay));
  Add(app, "--stream-idle-timeout", options.stream_idle_timeout_seconds,
      "Seconds after which a stream on which nothing moves ends; 0: never")
      ->check(Seconds(kYear));
}

void AddEngine(CLI::App& app, ServerOptions& server) {
  EngineOptions& options = server.engine;
  options.memory_limit_bytes = DefaultMemoryLimit();
  options.max_call_bytes = size_t{768} << 20;
  Add(app, "--memory-limit-bytes", options.memory_limit_bytes,
      "Most memory (as 8G, too): by default 80 % of the machine's or the cgroup's; 0: no limit")
      ->transform(Bytes(0, kMostBytes));
  CLI::Option* tensor = Add(app, "--max-tensor-bytes", options.max_tensor_bytes,
                            "Largest single value (as 1G, too): by default a quarter of the memory "
                            "limit; 0: no limit "
                            "but that")
                            ->transform(Bytes(0, kMostBytes));
  Add(app, "--max-call-bytes", options.max_call_bytes,
      "Most memory that one call or registration may hold at once (as 4G, too), where that is more "
      "than "
      "1024 times what a call was given or 64 times a graph; 0: no limit but that of all")
      ->transform(Bytes(0, kMostBytes));
  app.parse_complete_callback([tensor, &server, &options] {
    if (tensor->empty()) options.max_tensor_bytes = options.memory_limit_bytes / 4;
    options.kept_tensor_ttl = absl::Seconds(server.kept_tensor_ttl_seconds);
    options.client_ttl = absl::Seconds(server.client_ttl_seconds);
    options.answer_ttl = absl::Seconds(server.answer_ttl_seconds);
    options.device_stall = absl::Seconds(server.device_stall_seconds);
    options.snapshot_interval = absl::Seconds(server.snapshot_interval_seconds);
    options.durability = server.durability == "memory" ? Durability::kMemory
                         : server.durability == "sync" ? Durability::kSync
                                                       : Durability::kSnapshot;
  });
  Add(app, "--threads", options.compute_threads, "Threads that one kernel may use; 0: all cores")
      ->check(Whole(0, 4096));
  Add(app, "--call-threads", options.call_threads,
      "Calls that run at once outside the RPC threads; 0: chosen by the number of cores")
      ->check(Whole(0, 4096));
  Add(app, "--max-queued-calls", options.max_queued_calls,
      "Calls that may wait; more are refused with RESOURCE_EXHAUSTED")
      ->check(Whole(1, 1 << 24));
  Add(app, "--max-functions", options.max_functions, "Concrete functions that are kept")
      ->check(Whole(1, int64_t{1} << 40));
  Add(app, "--max-function-bytes", options.max_function_bytes,
      "Bytes of the functions that are kept (as 1G, too)")
      ->transform(Bytes(0, kMostBytes));
  Add(app, "--compile-threads", options.compile_threads,
      "Registrations that compile at once; 0: chosen by the number of cores")
      ->check(Whole(0, 4096));
  Add(app, "--kept-tensor-ttl", server.kept_tensor_ttl_seconds,
      "Seconds after its last use in which a kept tensor stays, unless its client asks for another "
      "time. Only use renews it: clients must use what they hold more often. 0: for ever")
      ->check(Seconds(kYear));
  Add(app, "--max-kept-bytes", options.max_kept_bytes,
      "Bytes of one namespace's kept tensors (as 1G, too); 0: as the memory limit allows")
      ->transform(Bytes(0, kMostBytes));
  Add(app, "--max-client-kept-bytes", options.max_client_kept_bytes,
      "Bytes of those of one client in it (as 1G, too); 0: the same")
      ->transform(Bytes(0, kMostBytes));
  Add(app, "--client-ttl", server.client_ttl_seconds,
      "Seconds after a client's last request in which what it has kept stays, or after its last "
      "use; 0: for ever")
      ->check(Seconds(kYear));
  Add(app, "--max-answers", options.max_answers,
      "Answers of one client that are remembered for requests that are sent again; 0: none")
      ->check(Whole(0, 1 << 20));
  Add(app, "--max-answer-bytes", options.max_answer_bytes,
      "Bytes of all of them (as 1G, too); of one client's a quarter")
      ->transform(Bytes(0, kMostBytes));
  Add(app, "--answer-ttl", server.answer_ttl_seconds,
      "Seconds after which a client of which nothing comes is forgotten, with its answers")
      ->check(Seconds(kYear));
}

void AddNamespaces(CLI::App& app, NamespaceLimits& limits) {
  Add(app, "--max-namespace-bytes", limits.bytes,
      "Bytes of what one namespace holds: variables, tables, functions and kept tensors (as 1G, "
      "too); 0: as the memory limit allows")
      ->transform(Bytes(0, kMostBytes));
  Add(app, "--max-namespace-variables", limits.resources,
      "Variables and other resources of one namespace; 0: no limit")
      ->check(Whole(0, int64_t{1} << 40));
  Add(app, "--max-namespace-functions", limits.functions,
      "Functions of one namespace; 0: no limit but --max-functions")
      ->check(Whole(0, int64_t{1} << 40));
  Add(app, "--max-namespace-kept-tensors", limits.kept_tensors,
      "Kept tensors of one namespace; 0: no limit")
      ->check(Whole(0, int64_t{1} << 40));
}

void AddState(CLI::App& app, ServerOptions& options) {
  Add(app, "--data-dir", options.engine.data_dir,
      "Directory in which functions, variables and tables outlive the server, as snapshots; of one "
      "server at a time. Empty: nothing does");
  Add(app, "--files-dir", options.engine.files_dir,
      "Folder in which clients may have checkpoints written and read, under names of their choice. "
      "Empty: nowhere");
  Add(app, "--saved-model", options.saved_models,
      "NAME=PATH of a SavedModel in --files-dir, or of its versions, that is loaded as function "
      "NAME "
      "before the server is ready, where there is none of that name from the data directory; may "
      "be "
      "given more than once")
      ->allow_extra_args(false)
      ->delimiter(',')
      ->check(CLI::Validator(
          [](std::string& text) -> std::string {
            const size_t at = text.find('=');
            const bool is_one = at != std::string::npos && at > 0 && at + 1 < text.size();
            return is_one ? "" : "not NAME=PATH: " + text;
          },
          "NAME=PATH"));
  Add(app, "--saved-model-interval", options.saved_model_interval_seconds,
      "Seconds between two looks for higher versions of what --saved-model names, which are loaded "
      "in the place of those that are there; 0: none")
      ->check(Seconds(kDay));
  Add(app, "--max-batch-rows", options.max_batch_rows,
      "Of what --saved-model loads: most rows of calls that are computed as one, where they come "
      "while one runs; 0: each alone")
      ->check(Whole(0, 1 << 20));
  Add(app, "--durability", options.durability,
      "What of namespaces that have no durability of their own is there after a crash: \"memory\": "
      "nothing; \"snapshot\": the last snapshot; \"sync\": all that was answered, and answers wait "
      "for the disk. Without --data-dir it is \"memory\"")
      ->check(OneOf({"memory", "snapshot", "sync"}));
  Add(app, "--max-commit-bytes", options.engine.max_commit_bytes,
      "In namespaces of sync: bytes of the variables and tables that one call may write (as 1G, "
      "too); 0: no limit")
      ->transform(Bytes(0, kMostBytes));
  Add(app, "--snapshot-interval", options.snapshot_interval_seconds,
      "Seconds between snapshots, of which each writes what has changed; 0: only at the end and on "
      "request")
      ->check(Seconds(kYear));
  Add(app, "--snapshot-calls", options.engine.snapshot_calls,
      "Calls and writes of variables that have changed something, after which a snapshot is taken, "
      "too; 0: after any number none")
      ->check(Whole(0, int64_t{1} << 53));
  Add(app, "--snapshot-timeout", options.snapshot_timeout_seconds,
      "Seconds that the last snapshot may take, after SIGTERM and the drain")
      ->check(Seconds(kDay));
}

void AddDevice(CLI::App& app, ServerOptions& options) {
  Add(app, "--device", options.device,
      "What functions run on: cpu, cuda:N (of a build with CUDA), or auto: the first GPU if there "
      "is one");
  Add(app, "--device-stall-timeout", options.device_stall_seconds,
      "Seconds after which a device is taken to be lost that does not answer, or on which nothing "
      "that is waited for has gone on; 0: never")
      ->check(Seconds(kDay));
  Add(app, "--cuda-graphs", options.cuda_graphs,
      "Whether calls of the same shapes enqueue their work on a GPU as one CUDA graph");
  Add(app, "--tf32", options.tf32,
      "Whether a GPU may multiply floats as TF32, with 10 bits behind the point: faster, less "
      "exact");
  Add(app, "--deterministic", options.deterministic,
      "Whether each kernel of a GPU gives the same bits each time; what has none that does, the "
      "host computes");
  Add(app, "--gpu-memory-bytes", options.engine.device_memory_limit_bytes,
      "Most memory of a GPU (as 16G, too); 0: nine tenths of what is free at the start")
      ->transform(Bytes(0, kMostBytes));
}

void AddObserving(CLI::App& app, ServerOptions& options) {
  Add(app, "--function-series", options.function_series,
      "Functions with a latency histogram of their own; the rest is \"other\"")
      ->check(Whole(0, 1000));
  Add(app, "--namespace-series", options.namespace_series,
      "Namespaces with counters of their own; the rest is \"other\"")
      ->check(Whole(0, 1000));
  Add(app, "--slow-call-ms", options.slow_call_ms,
      "Calls that take longer are logged, in milliseconds; 0: none")
      ->check(Whole(0, 1 << 30));
  Add(app, "--log-format", options.log_format, "Of the log on stderr")
      ->check(OneOf({"text", "json"}));
  Add(app, "--log-level", options.log_level, "Least level that is logged")
      ->check(OneOf({"trace", "debug", "info", "warn", "error", "off"}));
}

void CheckTls(const ServerOptions& options) {
  if (options.tls_cert.empty() && !options.tls_key.empty()) {
    throw CLI::ValidationError("--tls-key", "needs --tls-cert, too");
  }
  if (options.tls_key.empty() && !options.tls_cert.empty()) {
    throw CLI::ValidationError("--tls-cert", "needs --tls-key, too");
  }
  if (options.tls_cert.empty() && !options.tls_client_ca.empty()) {
    throw CLI::ValidationError("--tls-client-ca", "needs --tls-cert and --tls-key, too");
  }
}

// The flags whose value is not the default.
std::string Changed(const CLI::App& app) {
  std::vector<std::string> changed;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_envname().empty() || option->count() == 0) continue;
    const std::string value = option->as<std::string>();
    if (value != option->get_default_str()) {
      changed.push_back(absl::StrCat(option->get_name(), "=", value));
    }
  }
  return absl::StrJoin(changed, " ");
}

// "--port: not a whole number: x", and where the text came from if not from the command line.
std::string Explain(const CLI::App& app, const std::string& error, int argc,
                    const char* const* argv) {
  const absl::string_view flag = absl::string_view(error).substr(0, error.find(':'));
  const auto given = [flag](const char* argument) { return absl::StartsWith(argument, flag); };
  const CLI::Option* option = app.get_option_no_throw(std::string(flag));
  if (option == nullptr || std::any_of(argv + 1, argv + argc, given)) return error;
  return absl::StrCat(option->get_envname(), ": ", error);
}

}  // namespace

std::optional<int> ParseFlags(int argc, const char* const* argv, ServerOptions* options) {
  CLI::App app("Runs traced TensorFlow functions, without TensorFlow.", "formwork-server");
  app.set_version_flag("--version", absl::StrCat("formwork-server ", kVersion));
  app.get_formatter()->column_width(36);
  AddServing(app, *options);
  AddEngine(app, *options);
  AddNamespaces(app, options->engine.namespace_limits);
  AddState(app, *options);
  AddDevice(app, *options);
  AddObserving(app, *options);
  try {
    app.parse(argc, argv);
    CheckTls(*options);
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    std::cerr << "formwork-server: " << Explain(app, error.what(), argc, argv) << "\n";
    return kBadFlag;
  }
  options->changed = Changed(app);
  return std::nullopt;
}

}  // namespace formwork::server
