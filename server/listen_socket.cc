#include "server/listen_socket.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"

namespace formwork::server {
namespace {

constexpr int kSocketFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

bool IsIpv6(const std::string& address) { return address.find(':') != std::string::npos; }

absl::Status CannotListen(absl::string_view where, int error) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", where, ": ", std::strerror(error)));
}

absl::Status BindAndListen(const UniqueFd& socket, const sockaddr* address, socklen_t size,
                           absl::string_view where) {
  if (socket.get() < 0 || bind(socket.get(), address, size) != 0 ||
      listen(socket.get(), SOMAXCONN) != 0) {
    return CannotListen(where, errno);
  }
  return absl::OkStatus();
}

void Enable(const UniqueFd& socket, int level, int option) {
  const int on = 1;
  setsockopt(socket.get(), level, option, &on, sizeof(on));
}

// Whether a process answers at `address`.
bool Answers(const sockaddr_un& address) {
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

}  // namespace

std::string HostAndPort(const std::string& address, int port) {
  return IsIpv6(address) ? absl::StrCat("[", address, "]:", port)
                         : absl::StrCat(address, ":", port);
}

absl::StatusOr<UniqueFd> ListenOnTcp(const std::string& address, int port, int* bound_port) {
  const std::string where = HostAndPort(address, port);
  const bool ipv6 = IsIpv6(address);
  sockaddr_storage storage{};
  auto* any = reinterpret_cast<sockaddr*>(&storage);
  auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  any->sa_family = ipv6 ? AF_INET6 : AF_INET;
  void* ip = ipv6 ? static_cast<void*>(&v6->sin6_addr) : static_cast<void*>(&v4->sin_addr);
  if (inet_pton(any->sa_family, address.c_str(), ip) != 1) return CannotListen(where, EINVAL);
  in_port_t& port_field = ipv6 ? v6->sin6_port : v4->sin_port;
  port_field = htons(static_cast<uint16_t>(port));

  UniqueFd listener(socket(any->sa_family, kSocketFlags, 0));
  Enable(listener, SOL_SOCKET, SO_REUSEADDR);  // For ports whose last owner has just ended.
  Enable(listener, IPPROTO_TCP, TCP_NODELAY);  // What it accepts inherits it.
  FORMWORK_RETURN_IF_ERROR(BindAndListen(listener, any, ipv6 ? sizeof(*v6) : sizeof(*v4), where));
  socklen_t size = sizeof(storage);
  if (getsockname(listener.get(), any, &size) != 0) return CannotListen(where, errno);
  *bound_port = ntohs(port_field);
  return listener;
}

absl::StatusOr<UniqueFd> ListenOnUnix(const std::string& path) {
  const std::string where = "unix:" + path;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return CannotListen(where, ENAMETOOLONG);
  std::memcpy(address.sun_path, path.c_str(), path.size());
  struct stat file;
  if (stat(path.c_str(), &file) == 0 && S_ISSOCK(file.st_mode)) {
    if (Answers(address)) return CannotListen(where, EADDRINUSE);
    unlink(path.c_str());
  }
  UniqueFd listener(socket(AF_UNIX, kSocketFlags, 0));
  FORMWORK_RETURN_IF_ERROR(
      BindAndListen(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address), where));
  return listener;
}

std::string PeerOf(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return "unknown";
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v4->sin_port));
  }
  if (storage.ss_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
    inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
    return absl::StrCat("ipv6:[", text, "]:", ntohs(v6->sin6_port));
  }
  return "unix:";
}

absl::StatusOr<UniqueFd> ConnectTo(int listening) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  getsockname(listening, any, &size);
  UniqueFd connection(socket(address.ss_family, kSocketFlags, 0));
  Enable(connection, IPPROTO_TCP, TCP_NODELAY);
  // To the system all addresses are loopback, as a target.
  if (connect(connection.get(), any, size) != 0 && errno != EINPROGRESS) {
    return absl::UnavailableError(std::strerror(errno));
  }
  return connection;
}

bool AreEndsOfOne(int fd, int other) {
  const auto is_peer = [](int of, int end) {
    sockaddr_storage name{}, peer{};
    socklen_t name_size = sizeof(name), peer_size = sizeof(peer);
    return getsockname(of, reinterpret_cast<sockaddr*>(&name), &name_size) == 0 &&
           getpeername(end, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0 &&
           name.ss_family != AF_UNIX && name_size == peer_size &&
           std::memcmp(&name, &peer, name_size) == 0;
  };
  return is_peer(fd, other) && is_peer(other, fd);
}

}  // namespace formwork::server
