#include "server/listen_address.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace formwork::server {
namespace {

bool IsIpv6(const std::string& address) { return address.find(':') != std::string::npos; }

using SocketCall = int (*)(int, const sockaddr*, socklen_t);

// 0, or the errno of `call` (bind, connect) on a TCP socket with that address.
int ErrorOf(SocketCall call, const std::string& address, int port) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  v4.sin_family = AF_INET;
  v6.sin6_family = AF_INET6;
  v4.sin_port = v6.sin6_port = htons(static_cast<uint16_t>(port));
  const bool ipv6 = IsIpv6(address);
  const int parsed = ipv6 ? inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr)
                          : inet_pton(AF_INET, address.c_str(), &v4.sin_addr);
  if (parsed != 1) return EINVAL;
  const int fd = socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const int result = ipv6 ? call(fd, reinterpret_cast<sockaddr*>(&v6), sizeof(v6))
                          : call(fd, reinterpret_cast<sockaddr*>(&v4), sizeof(v4));
  const int error = result == 0 ? 0 : errno;
  close(fd);
  return error;
}

}  // namespace

std::string HostAndPort(const std::string& address, int port) {
  return IsIpv6(address) ? absl::StrCat("[", address, "]:", port)
                         : absl::StrCat(address, ":", port);
}

absl::Status CannotListen(const char* what, const std::string& address, int port) {
  const int error = ErrorOf(&bind, address, port);
  return absl::UnavailableError(absl::StrCat(what, ": cannot listen on ",
                                             HostAndPort(address, port), ": ",
                                             error != 0 ? std::strerror(error) : "unknown reason"));
}

void Connect(const std::string& address, int port) { ErrorOf(&connect, address, port); }

absl::Status CheckUnixSocketFree(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::UnavailableError(absl::StrCat("the socket's path is too long: ", path));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::UnavailableError(std::strerror(errno));
  const bool taken = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  if (!taken) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("gRPC: cannot listen on unix:", path, ": another process does"));
}

}  // namespace formwork::server
