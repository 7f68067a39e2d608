#pragma once

#include <microhttpd.h>

#include <cstdint>
#include <optional>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/http_server.h"

namespace formwork::server {

/// One of a server's connections, of its thread alone.
struct HttpServer::Connection {
  enum class State : uint8_t { kIdle, kReading, kWorking, kAnswering };

  Connection(HttpServer* server, uint64_t id, int fd) : server(server), id(id), fd(fd) {}

  HttpServer* const server;
  const uint64_t id;
  const int fd;  // The library's.
  MHD_Connection* handle = nullptr;
  std::shared_ptr<const HttpCredentials> credentials;  // Of its TLS, if there is any.
  bool speaks_tls = false;                             // A first message of that has come.
  std::optional<absl::Status> client;                  // CheckClient's, once it was asked.
  State state = State::kIdle;
  bool cut_off = false;
  bool was_asked = false;
  bool is_timed = false;           // By the library, too.
  absl::Time since = absl::Now();  // Of the state.
  absl::Time deadline = absl::InfiniteFuture();

  // Of a request.
  const Handler* handler = nullptr;
  HttpRequest request;
  std::shared_ptr<HttpPeer> peer;  // The request's, while its handler works.
  size_t expected = 0;             // Bytes of the body, where they were announced.
  size_t received = 0;
  std::optional<HttpAnswer> answer;

  void Enter(State next, absl::Time until) {
    state = next;
    since = absl::Now();
    deadline = until;
  }
  // Whether a handler has the request, and the library waits.
  bool works() const { return state == State::kWorking && !answer && !cut_off; }
  bool takes_bodies() const { return handler != nullptr && handler->max_body_bytes > 0; }
  // Without progress.
  void SetTimeout(absl::Duration time) const {
    MHD_set_connection_option(handle, MHD_CONNECTION_OPTION_TIMEOUT,
                              static_cast<unsigned>(absl::ToInt64Seconds(time)));
  }
  // Null where there is none.
  gnutls_session_t Session() const {
    const MHD_ConnectionInfo* info =
        MHD_get_connection_info(handle, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    return info == nullptr ? nullptr : static_cast<gnutls_session_t>(info->tls_session);
  }
  const char* Header(const char* name) const {
    return MHD_lookup_connection_value(handle, MHD_HEADER_KIND, name);
  }
};

}  // namespace formwork::server
