#pragma once

// Sockets to listen on, and why one cannot be had.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/unique_fd.h"

namespace formwork::server {

/// "127.0.0.1:80", or "[::1]:80" where `address` is IPv6.
std::string HostAndPort(const std::string& address, int port);

/// A socket that does not block and listens on an IP address; port 0 picks one, which `bound_port`
/// then holds. No other process shares the port. kUnavailable with the system's reason.
absl::StatusOr<UniqueFd> ListenOnTcp(const std::string& address, int port, int* bound_port);

/// The same at `path`, in place of a socket that a process has left there.
/// kUnavailable where a process listens on it, or with the system's reason.
absl::StatusOr<UniqueFd> ListenOnUnix(const std::string& path);

/// The address of the other end of a connection, as gRPC writes it: "ipv4:127.0.0.1:4711".
std::string PeerOf(int fd);

/// A TCP connection to where `listening` listens, on loopback where that is all addresses; it may
/// not stand yet. kUnavailable with the system's reason.
absl::StatusOr<UniqueFd> ConnectTo(int listening);

/// Whether they are the two ends of one TCP connection.
bool AreEndsOfOne(int fd, int other);

}  // namespace formwork::server
