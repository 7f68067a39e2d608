#include "server/logging.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "spdlog/formatter.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace formwork::server {
namespace {

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

void LogOfGrpc(gpr_log_func_args* args) {
  spdlog::debug("gRPC {}: {} ({}:{})", gpr_log_severity_string(args->severity), args->message,
                args->file, args->line);
}

// Of clients' malformed messages, which are answered.
void LogOfProtobuf(google::protobuf::LogLevel, const char* file, int line,
                   const std::string& message) {
  spdlog::debug("protobuf: {} ({}:{})", message, file, line);
}

}  // namespace

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
