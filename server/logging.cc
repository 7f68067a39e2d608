#include "server/logging.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/utf8.h"
#include "spdlog/formatter.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace formwork::server {
namespace {

constexpr absl::Duration kLinePeriod = absl::Seconds(1);
constexpr int kLinesAtOnce = 10;
constexpr size_t kMostMessageBytes = 2000;  // Of a library's message.

class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const nlohmann::ordered_json line = {
        {"time", absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::FromChrono(message.time),
                                  absl::UTCTimeZone())},
        {"level", Text(spdlog::level::to_string_view(message.level))},
        {"thread", message.thread_id},
        {"message", Text(message.payload)},
    };
    const std::string text =
        line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
    out.append(text.data(), text.data() + text.size());
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }

 private:
  static std::string Text(spdlog::string_view_t view) {
    return std::string(view.data(), view.size());
  }
};

// A library's message: it may quote what a peer has sent.
std::string Shown(absl::string_view message) {
  return absl::Utf8SafeCHexEscape(Utf8Prefix(message, kMostMessageBytes));
}

// What gRPC calls an error is one connection's, or a listener's: the server goes on.
void LogOfGrpc(gpr_log_func_args* args) {
  static LogLimit& limit = *new LogLimit;
  if (args->severity == GPR_LOG_SEVERITY_ERROR) {
    LogLimited(limit, spdlog::level::warn, "gRPC: {} ({}:{})", Shown(args->message), args->file,
               args->line);
  } else if (spdlog::should_log(spdlog::level::debug)) {
    spdlog::debug("gRPC: {} ({}:{})", Shown(args->message), args->file, args->line);
  }
}

// Of clients' malformed messages, which are answered.
void LogOfProtobuf(google::protobuf::LogLevel, const char* file, int line,
                   const std::string& message) {
  if (spdlog::should_log(spdlog::level::debug)) {
    spdlog::debug("protobuf: {} ({}:{})", Shown(message), file, line);
  }
}

}  // namespace

bool LogLimit::Admit(uint64_t* left_out) {
  const absl::Time now = absl::Now();
  absl::MutexLock lock(&mutex_);
  const absl::Time full = std::max(full_, now) + kLinePeriod;
  if (full - now > kLinesAtOnce * kLinePeriod) {
    ++left_out_;
    return false;
  }
  full_ = full;
  *left_out = left_out_;
  left_out_ = 0;
  return true;
}

void SetUpLogging(const std::string& format, const std::string& level) {
  auto logger = std::make_shared<spdlog::logger>("formwork",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  if (format == "json") {
    logger->set_formatter(std::make_unique<JsonFormatter>());
  } else {
    logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
  }
  logger->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
  gpr_set_log_function(&LogOfGrpc);
  google::protobuf::SetLogHandler(&LogOfProtobuf);
}

}  // namespace formwork::server
