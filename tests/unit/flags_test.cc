#include "server/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
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
}

TEST(Flags, AreRead) {
  ServerOptions options;
  EXPECT_EQ(Parse({"--port", "0", "--http-port=-1", "--bind", "::1", "--memory-limit-bytes", "2G",
                   "--max-message-bytes", "64M", "--threads", "3", "--max-queued-calls", "9",
                   "--drain-timeout", "0.5", "--log-format", "json", "--unix-socket", "/tmp/s"},
                  &options),
            std::nullopt);
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
}

TEST(Flags, ComeFromTheEnvironmentUnlessGiven) {
  const Environment port("FORMWORK_PORT", "9500");
  const Environment http("FORMWORK_HTTP_PORT", "9501");
  ServerOptions options;
  EXPECT_EQ(Parse({"--port", "7000"}, &options), std::nullopt);
  EXPECT_EQ(options.port, 7000);
  EXPECT_EQ(options.http_port, 9501);
}

TEST(Flags, RefuseWhatMakesNoSense) {
  const std::vector<std::vector<const char*>> cases = {
      {"--port", "70000"},           {"--port", "abc"},
      {"--bind", "example.org"},     {"--threads", "-1"},
      {"--log-format", "xml"},       {"--max-message-bytes", "10"},
      {"--max-message-bytes", "3G"}, {"--no-such-flag"},
      {"--drain-timeout", "-1"},     {"stray"}};
  for (const auto& arguments : cases) {
    ServerOptions options;
    const std::optional<int> code = Parse(arguments, &options);
    ASSERT_TRUE(code.has_value()) << arguments[0];
    EXPECT_NE(*code, 0) << arguments[0];
  }
}

TEST(Flags, HelpAndVersionEndWithSuccess) {
  ServerOptions options;
  EXPECT_EQ(Parse({"--help"}, &options), 0);
  EXPECT_EQ(Parse({"--version"}, &options), 0);
}

}  // namespace
}  // namespace formwork::server
