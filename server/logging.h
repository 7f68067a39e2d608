#pragma once

// The process's log: spdlog on stderr, as text or as one JSON object per line.

#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "spdlog/spdlog.h"

namespace formwork::server {

/// Sets up spdlog's default logger, and sends gRPC's own messages to it: its errors as warnings, at
/// most some per second, the rest at level debug.
/// `format`: "text" or "json"; `level`: spdlog's name of one. Call once, before gRPC is used.
void SetUpLogging(const std::string& format, const std::string& level);

/// Bounds how often one kind of line is written, so that no client can fill the log: ten at once,
/// then one a second. Thread-safe.
class LogLimit {
 public:
  /// Whether a line may be written now; then `left_out` is how many were not, since the last one.
  bool Admit(uint64_t* left_out);

 private:
  absl::Mutex mutex_;
  absl::Time full_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // When all ten are there again.
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

/// Writes a line where `limit` lets it.
template <typename... Args>
void LogLimited(LogLimit& limit, spdlog::level::level_enum level,
                spdlog::format_string_t<Args...> format, Args&&... args) {
  uint64_t left_out = 0;
  if (!spdlog::should_log(level) || !limit.Admit(&left_out)) return;
  const std::string line = fmt::format(format, std::forward<Args>(args)...);
  if (left_out == 0) return spdlog::log(level, "{}", line);
  spdlog::log(level, "{} ({} such lines were left out before)", line, left_out);
}

}  // namespace formwork::server
