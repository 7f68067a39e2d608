#pragma once

// The process's log: spdlog on stderr, as text or as one JSON object per line.

#include <string>

namespace formwork::server {

/// Sets up spdlog's default logger, and sends gRPC's own messages to it (at level debug).
/// `format`: "text" or "json"; `level`: spdlog's name of one. Call once, before gRPC is used.
void SetUpLogging(const std::string& format, const std::string& level);

}  // namespace formwork::server
