#pragma once

// Addresses to listen on, and why one cannot be had.

#include <string>

#include "absl/status/status.h"

namespace formwork::server {

/// "127.0.0.1:80", or "[::1]:80" where `address` is IPv6.
std::string HostAndPort(const std::string& address, int port);

/// The error for a port that a library could not listen on, with the system's reason, which is
/// found by trying again. kUnavailable.
absl::Status CannotListen(const char* what, const std::string& address, int port);

/// Connects to a TCP port and hangs up at once.
void Connect(const std::string& address, int port);

/// kUnavailable if another process listens on the socket at `path`, or if the path is too long.
absl::Status CheckUnixSocketFree(const std::string& path);

}  // namespace formwork::server
