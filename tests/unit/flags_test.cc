#include "server/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace formwork::server {
namespace {

// Exit code of the command line, or nullopt where the server would start.
std::optional<int> Parse(std::vector<const char*> arguments, ServerOptions* options) {
  arguments.insert(arguments.begin(), "formwork-server");
  return ParseFlags(static_cast<int>(arguments.size()), arguments.data(), options);
}

class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(Flags, HaveDefaultsThatAreSafe) {
  ServerOptions options;
  EXPECT_EQ(Parse({}, &options), std::nullopt);
  EXPECT_EQ(options.bind, "127.0.0.1");
  EXPECT_EQ(options.port, 8500);
  EXPECT_EQ(options.http_port, 8501);
  EXPECT_EQ(options.max_message_bytes, 2147483647);
  EXPECT_GT(options.engine.memory_limit_bytes, size_t{64} << 20);
  EXPECT_EQ(options.engine.max_tensor_bytes, options.engine.memory_limit_bytes / 4);
  EXPECT_EQ(options.engine.max_call_bytes, size_t{768} << 20);
  EXPECT_FALSE(options.deterministic);
}

TEST(Flags, TheLargestTensorFollowsTheMemoryLimit) {
  ServerOptions options;
  EXPECT_EQ(Parse({"--memory-limit-bytes", "0"}, &options), std::nullopt);
  EXPECT_EQ(options.engine.memory_limit_bytes, 0u);
  EXPECT_EQ(options.engine.max_tensor_bytes, 0u);
  EXPECT_EQ(Parse({"--memory-limit-bytes", "1G", "--max-tensor-bytes", "1M"}, &options),
            std::nullopt);
  EXPECT_EQ(options.engine.max_tensor_bytes, size_t{1} << 20);
}

TEST(Flags, AreRead) {
  ServerOptions options;
  EXPECT_EQ(Parse({"--port",
                   "0",
                   "--http-port=-1",
                   "--deterministic=true",
                   "--bind",
                   "::1",
                   "--memory-limit-bytes",
                   "2G",
                   "--max-message-bytes",
                   "64M",
                   "--threads",
                   "3",
                   "--max-queued-calls",
                   "9",
                   "--drain-timeout",
                   "0.5",
                   "--log-format",
                   "json",
                   "--unix-socket",
                   "/tmp/s",
                   "--compile-threads",
                   "2",
                   "--kept-tensor-ttl",
                   "1.5",
                   "--max-kept-bytes",
                   "1M",
                   "--data-dir",
                   "/tmp/d",
                   "--files-dir",
                   "/tmp/f",
                   "--snapshot-interval",
                   "0.5",
                   "--snapshot-calls",
                   "12",
                   "--durability",
                   "sync",
                   "--max-commit-bytes",
                   "2M",
                   "--max-client-kept-bytes",
                   "1k",
                   "--client-ttl",
                   "1.5",
                   "--max-namespace-bytes",
                   "1G",
                   "--max-namespace-variables",
                   "4",
                   "--max-namespace-functions",
                   "5",
                   "--max-namespace-kept-tensors",
                   "6"},
                  &options),
            std::nullopt);
  EXPECT_TRUE(options.deterministic);
  EXPECT_EQ(options.port, 0);
  EXPECT_EQ(options.http_port, -1);
  EXPECT_EQ(options.bind, "::1");
  EXPECT_EQ(options.engine.memory_limit_bytes, size_t{2} << 30);
  EXPECT_EQ(options.max_message_bytes, 64 << 20);
  EXPECT_EQ(options.engine.compute_threads, 3);
  EXPECT_EQ(options.engine.max_queued_calls, 9);
  EXPECT_EQ(options.drain_timeout_seconds, 0.5);
  EXPECT_EQ(options.log_format, "json");
  EXPECT_EQ(options.unix_socket, "/tmp/s");
  EXPECT_EQ(options.engine.compile_threads, 2);
  EXPECT_EQ(options.engine.kept_tensor_ttl, absl::Milliseconds(1500));
  EXPECT_EQ(options.engine.max_kept_bytes, size_t{1} << 20);
  EXPECT_EQ(options.engine.data_dir, "/tmp/d");
  EXPECT_EQ(options.engine.files_dir, "/tmp/f");
  EXPECT_EQ(options.engine.snapshot_interval, absl::Milliseconds(500));
  EXPECT_EQ(options.engine.snapshot_calls, 12);
  EXPECT_EQ(options.engine.durability, Durability::kSync);
  EXPECT_EQ(options.engine.max_commit_bytes, uint64_t{2} << 20);
  EXPECT_EQ(options.engine.max_client_kept_bytes, 1024u);
  EXPECT_EQ(options.engine.client_ttl, absl::Milliseconds(1500));
  EXPECT_EQ(options.engine.namespace_limits.bytes, uint64_t{1} << 30);
  EXPECT_EQ(options.engine.namespace_limits.resources, 4);
  EXPECT_EQ(options.engine.namespace_limits.functions, 5);
  EXPECT_EQ(options.engine.namespace_limits.kept_tensors, 6);
}

TEST(Flags, ComeFromTheEnvironmentUnlessGiven) {
  const Environment port("FORMWORK_PORT", "9500");
  const Environment http("FORMWORK_HTTP_PORT", "9501");
  ServerOptions options;
  EXPECT_EQ(Parse({"--port", "7000"}, &options), std::nullopt);
  EXPECT_EQ(options.port, 7000);
  EXPECT_EQ(options.http_port, 9501);
}

TEST(Flags, SizesMayHaveUnits) {
  const std::vector<std::pair<const char*, size_t>> cases = {
      {"1000", 1000},       {"0", 0},           {"64k", 64 << 10}, {"3M", 3 << 20},
      {"2GiB", 2ull << 30}, {"1tb", 1ull << 40}};
  for (const auto& [text, bytes] : cases) {
    ServerOptions options;
    ASSERT_EQ(Parse({"--max-function-bytes", text}, &options), std::nullopt) << text;
    EXPECT_EQ(options.engine.max_function_bytes, bytes) << text;
  }
}

// What a parse that fails prints on stderr.
std::string Refusal(const std::vector<const char*>& arguments) {
  ServerOptions options;
  testing::internal::CaptureStderr();
  EXPECT_EQ(Parse(arguments, &options), kBadFlag);
  return testing::internal::GetCapturedStderr();
}

TEST(Flags, RefuseWhatMakesNoSenseInOneLineWithTheFlagAndTheReason) {
  const std::vector<std::vector<const char*>> cases = {
      {"--port", "70000", "not from 0 to 65535: 70000"},
      {"--port", "abc", "not a whole number: abc"},
      {"--port", "99999999999999999999", "not a whole number"},
      {"--http-port", "-2", "not from -1 to 65535"},
      {"--bind", "example.org", "not an IPv4 or IPv6 address: example.org"},
      {"--threads", "-1", "not from 0"},
      {"--compile-threads", "x", "not a whole number: x"},
      {"--kept-tensor-ttl", "-1", "not from 0"},
      {"--max-kept-bytes", "-1", "not a number of bytes"},
      {"--snapshot-interval", "-1", "not from 0"},
      {"--durability", "disk", "not one of memory, snapshot, sync: disk"},
      {"--log-format", "xml", "not one of text, json: xml"},
      {"--max-message-bytes", "10", "not from 1024"},
      {"--max-message-bytes", "3G", "not from 1024 to 2147483647 bytes: 3G"},
      {"--memory-limit-bytes", "-1", "not a number of bytes"},
      {"--memory-limit-bytes", "1.5G", "not a number of bytes"},
      {"--memory-limit-bytes", "99999999999T", "not from"},
      {"--memory-limit-bytes", "", "not a number of bytes"},
      {"--max-functions", "0", "not from 1"},
      {"--drain-timeout", "-1", "not from 0"},
      {"--drain-timeout", "nan", "not from 0"},
      {"--lame-duck", "x", "not a number of seconds: x"},
      {"--tls-cert", "x", "needs --tls-key, too"},
      {"--tls-key", "x", "needs --tls-cert, too"},
      {"--tls-client-ca", "x", "needs --tls-cert and --tls-key, too"},
      {"--no-such-flag", "--no-such-flag"},
      {"stray", "stray"}};
  for (std::vector<const char*> arguments : cases) {
    const std::string reason = arguments.back();
    if (arguments.size() > 2 || arguments[0] == reason) arguments.pop_back();
    const std::string line = Refusal(arguments);
    EXPECT_THAT(line, testing::HasSubstr(arguments[0]));
    EXPECT_THAT(line, testing::HasSubstr(reason));
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
  }
}

TEST(Flags, SayWhereABadValueIsFrom) {
  const Environment threads("FORMWORK_THREADS", "many");
  EXPECT_EQ(Refusal({}),
            "formwork-server: FORMWORK_THREADS: --threads: not a whole number: many\n");
}

TEST(Flags, KnowWhatIsNotTheDefault) {
  const Environment threads("FORMWORK_THREADS", "2");
  ServerOptions options;
  EXPECT_EQ(Parse({"--port", "0", "--http-port", "8501"}, &options), std::nullopt);
  EXPECT_EQ(options.changed, "--port=0 --threads=2");
}

TEST(Flags, HelpAndVersionEndWithSuccess) {
  ServerOptions options;
  EXPECT_EQ(Parse({"--help"}, &options), 0);
  EXPECT_EQ(Parse({"--version"}, &options), 0);
}

}  // namespace
}  // namespace formwork::server
