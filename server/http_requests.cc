// What libmicrohttpd calls, and the steps of a request.

#include <linux/tcp.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "server/http_connection.h"
#include "server/http_server.h"

namespace formwork::server {
namespace {

// What a peer that sends or reads slowly has for a second of its time.
constexpr double kBytesPerSecond = 64 << 10;
// As gRPC has them: the versions from 1.2 on, with forward secrecy and authenticated encryption.
constexpr char kTlsPriorities[] =
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-DHE-RSA:-SHA1:-AES-128-CCM:-AES-256-CCM";
// A body up to this size is read where its request is refused, so that the connection goes on.
constexpr size_t kReadInVain = 64 << 10;

absl::Duration TimeFor(size_t bytes) {
  return absl::Seconds(static_cast<double>(bytes) / kBytesPerSecond);
}

HttpAnswer AnswerOf(const std::function<HttpAnswer()>& answer) {
  absl::StatusOr<HttpAnswer> made =
      CatchOutOfMemory([&]() -> absl::StatusOr<HttpAnswer> { return answer(); });
  if (made.ok()) return *std::move(made);
  return {.code = 503, .body = "out of memory\n"};
}

// Where the handler throws, its reply goes and so answers.
void CallHandler(const HttpServer::Handler& handler, HttpRequest&& request,
                 HttpServer::Reply&& reply) {
  CatchOutOfMemory([&] {
    handler.handle(std::move(request), std::move(reply));
    return absl::OkStatus();
  }).IgnoreError();
}

// For a line that is no request the library just closes. Whether it has answered nothing yet.
bool HasSentNothing(int fd) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_data_segs_out == 0;
}

bool PeerHasClosed(int fd) {
  char byte;
  const ssize_t size = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return size == 0 || (size < 0 && errno != EAGAIN);
}

std::string AllowedMethods(const HttpServer::Handler& handler) {
  std::string allowed = absl::StrJoin(handler.methods, ", ");
  if (absl::c_linear_search(handler.methods, "GET")) allowed += ", HEAD";
  return allowed;
}

std::string BadRequestText(absl::string_view why) {
  return absl::StrCat("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n",
                      "Content-Length: ", why.size(),
                      "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n", why);
}

}  // namespace

// Nothing that is thrown passes through the library: where there is no memory the connection goes.
struct HttpServer::Callbacks {
  template <typename Body>
  static MHD_Result Guard(Body&& body) noexcept {
    return CatchOutOfMemory([&] { return body() ? absl::OkStatus() : absl::AbortedError(""); }).ok()
               ? MHD_YES
               : MHD_NO;
  }

  // Called with the headers (*context is null), with each piece of the body, at its end, and when
  // the connection goes on after it had been suspended.
  static MHD_Result Request(void* /*server*/, MHD_Connection* handle, const char* path,
                            const char* method, const char* /*version*/, const char* piece,
                            size_t* size, void** context) noexcept {
    return Guard([&] {
      using State = Connection::State;
      Connection& connection = Of(handle);
      HttpServer& server = *connection.server;
      if (connection.cut_off) return false;
      if (*context == nullptr) {
        *context = &connection;
        server.Begin(connection, path, method);
        const bool has_body = connection.expected > kReadInVain ||
                              connection.Header("Transfer-Encoding") != nullptr ||
                              connection.Header("Expect") != nullptr;
        return !connection.answer.has_value() || !has_body || server.Send(connection);
      }
      if (*size > 0) {
        server.Take(connection, {piece, *size});
        *size = 0;
        return true;
      }
      if (connection.state == State::kReading && !connection.answer) server.Handle(connection);
      if (connection.answer) return server.Send(connection);
      MHD_suspend_connection(handle);
      return true;
    });
  }

  static void RequestEnded(void* /*server*/, MHD_Connection* handle, void** /*context*/,
                           MHD_RequestTerminationCode /*why*/) noexcept {
    Connection& connection = Of(handle);
    if (std::exchange(connection.is_timed, false)) connection.SetTimeout(absl::ZeroDuration());
    if (connection.peer != nullptr) std::exchange(connection.peer, nullptr)->NoteAnswered();
    connection.handler = nullptr;
    connection.request = HttpRequest();
    connection.answer.reset();
    connection.Enter(Connection::State::kIdle, absl::Now() + connection.server->limits_.idle_time);
  }

  static void ConnectionChanged(void* server, MHD_Connection* handle, void** context,
                                MHD_ConnectionNotificationCode what) noexcept {
    auto* self = static_cast<HttpServer*>(server);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
      *context = std::exchange(self->accepted_, nullptr);
      auto* started = static_cast<Connection*>(*context);
      started->handle = handle;
      if (self->tls_ == nullptr) return;
      const MHD_Result encrypted = Guard([&] {
        Encrypt(*started, *self->tls_);
        return true;
      });
      if (encrypted == MHD_NO) self->CutOff(*started);
      return;
    }
    auto* connection = static_cast<Connection*>(*context);
    Guard([&] {
      self->Closed(*connection);
      return true;
    });
    self->connections_.erase(connection->id);
  }

  // The library's own credentials are those that there were at its start.
  static void Encrypt(Connection& connection, HttpTls& tls) {
    connection.credentials = tls.Newest();
    gnutls_session_t session = connection.Session();
    connection.credentials->Use(session);
    // Before it is looked at: one that is refused, as of an old version, is TLS, too.
    gnutls_handshake_set_hook_function(session, GNUTLS_HANDSHAKE_CLIENT_HELLO, GNUTLS_HOOK_PRE,
                                       &TlsBegins);
  }

  static int TlsBegins(gnutls_session_t session, unsigned /*type*/, unsigned /*when*/,
                       unsigned /*incoming*/, const gnutls_datum_t* /*message*/) noexcept {
    Of(static_cast<MHD_Connection*>(gnutls_session_get_ptr(session))).speaks_tls = true;
    return 0;
  }

  static MHD_Result Header(void* request, MHD_ValueKind /*kind*/, const char* name,
                           const char* value) noexcept {
    return Guard([&] {
      static_cast<HttpRequest*>(request)->headers[absl::AsciiStrToLower(name)] =
          value == nullptr ? "" : value;
      return true;
    });
  }

  static void DropAnswer(void* answer) noexcept { delete static_cast<HttpAnswer*>(answer); }

  static Connection& Of(MHD_Connection* handle) {
    return *static_cast<Connection*>(
        MHD_get_connection_info(handle, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context);
  }
};

HttpServer::Handler HttpServer::Get(std::function<HttpAnswer()> answer, bool may_wait) {
  return {
      .handle = [answer = std::move(answer)](const HttpRequest& /*request*/,
                                             Reply reply) { std::move(reply)(AnswerOf(answer)); },
      .may_wait = may_wait};
}

absl::Status HttpServer::StartLibrary(const TlsFiles* tls) {
  // The thread is ours and asks the library to go on, so that it alone has the connections. The
  // library leaves closing to us (MHD_USE_TURBO): see ClosingSockets.
  unsigned flags =
      MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_TURBO;
  std::vector<MHD_OptionItem> encryption;
  if (tls != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(tls_, HttpTls::Open(*tls));
    flags |= MHD_USE_TLS;
    const TlsIdentity& identity = *tls_->Newest()->identity();
    encryption = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, const_cast<char*>(identity.certificates.c_str())},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, const_cast<char*>(identity.key.c_str())},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, const_cast<char*>(kTlsPriorities)},
    };
  }
  encryption.push_back({MHD_OPTION_END, 0, nullptr});
  daemon_ = MHD_start_daemon(
      flags, 0, nullptr, nullptr, &Callbacks::Request, this, MHD_OPTION_NOTIFY_COMPLETED,
      &Callbacks::RequestEnded, this, MHD_OPTION_NOTIFY_CONNECTION, &Callbacks::ConnectionChanged,
      this, MHD_OPTION_CONNECTION_LIMIT, static_cast<unsigned>(limits_.connections + 1),
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, limits_.request_bytes, MHD_OPTION_ARRAY,
      encryption.data(), MHD_OPTION_END);
  if (daemon_ == nullptr || outbox_->wake_fd() < 0) {
    return absl::UnavailableError("no memory, or descriptors, for HTTP");
  }
  return absl::OkStatus();
}

const HttpServer::Handler* HttpServer::Find(absl::string_view path) const {
  const Handler* found = nullptr;
  for (const auto& [key, handler] : handlers_) {  // Of those that fit the longest is the last.
    if (path == key || (absl::EndsWith(key, "/") && absl::StartsWith(path, key))) found = &handler;
  }
  return found;
}

// What can be said of a request without its body.
void HttpServer::Begin(Connection& connection, const char* path, absl::string_view method) {
  connection.was_asked = true;
  connection.received = 0;
  connection.Enter(Connection::State::kReading, absl::Now() + limits_.request_time);
  HttpRequest& request = connection.request;
  request.path = path;
  request.method = std::string(method == "HEAD" ? "GET" : method);
  connection.expected = 0;
  const char* length = connection.Header("Content-Length");
  // The library has refused what is no number.
  if (length != nullptr && !absl::SimpleAtoi(length, &connection.expected)) {
    connection.expected = std::numeric_limits<size_t>::max();
  }
  connection.handler = Find(request.path);
  if (connection.handler == nullptr) {
    connection.answer = {.code = 404, .body = "not found\n"};
    return;
  }
  const Handler& handler = *connection.handler;
  if (!absl::c_linear_search(handler.methods, request.method)) {
    connection.answer = {.code = 405, .body = absl::StrCat("only ", AllowedMethods(handler), "\n")};
    return;
  }
  CheckClient(connection);
  if (connection.answer) return;
  CheckSize(connection, connection.expected);
  if (connection.answer) return;
  if (budget_ != nullptr && connection.expected > kReadInVain) {
    Refuse(connection, budget_->CheckRoom(connection.expected));
  }
  MHD_get_connection_values(connection.handle, MHD_HEADER_KIND, &Callbacks::Header, &request);
}

void HttpServer::CheckClient(Connection& connection) {
  if (tls_ == nullptr || connection.handler->is_for_all) return;
  if (!connection.client) {
    connection.client = connection.credentials->CheckClient(connection.Session());
  }
  if (connection.client->ok()) return;
  connection.answer = {.code = 403, .body = absl::StrCat(connection.client->message(), "\n")};
}

void HttpServer::CheckSize(Connection& connection, size_t size) {
  if (size <= connection.handler->max_body_bytes) return;
  connection.answer = {
      .code = 413,
      .body = absl::StrCat("the body may have ", connection.handler->max_body_bytes, " bytes\n")};
}

void HttpServer::Refuse(Connection& connection, const absl::Status& memory) {
  if (memory.ok()) return;
  connection.answer = {.code = 503, .body = absl::StrCat(memory.message(), "\n")};
}

void HttpServer::Take(Connection& connection, absl::string_view piece) {
  // A refusal can only be sent once the body is there: so long it has the time that was left.
  if (connection.answer) return;
  connection.received += piece.size();
  connection.deadline =
      std::min(absl::Now(), connection.since + TimeFor(connection.received)) + limits_.request_time;
  HttpBody& body = connection.request.body;
  CheckSize(connection, connection.received);
  if (!connection.answer) Refuse(connection, body.Append(piece, connection.expected, budget_));
  if (connection.answer) body = HttpBody();
}

void HttpServer::Handle(Connection& connection) {
  const Handler& handler = *connection.handler;
  if (connection.takes_bodies()) {
    size_t working = 0;
    for (const auto& [id, other] : connections_) {
      if (other.state == Connection::State::kWorking && other.takes_bodies()) ++working;
    }
    // Some connections are left to the others at any rate.
    if (working >= std::min(limits_.requests, limits_.connections * 3 / 4)) {
      connection.answer = {.code = 503, .body = "too many requests are worked on\n"};
      return;
    }
  }
  connection.peer = std::make_shared<HttpPeer>();
  connection.request.peer = connection.peer;
  Reply reply = outbox_->ReplyTo(connection.id);
  connection.Enter(Connection::State::kWorking, absl::InfiniteFuture());
  if (!handler.may_wait) {
    CallHandler(handler, std::move(connection.request), std::move(reply));
    connection.answer = outbox_->Take(connection.id);
    return;
  }
  absl::AnyInvocable<void()> task = [this, &handler, request = std::move(connection.request),
                                     reply = std::move(reply)]() mutable {
    if (!outbox_->closed()) CallHandler(handler, std::move(request), std::move(reply));
  };
  if (waiting_handlers_.Add("", std::move(task)).ok()) return;
  task = nullptr;  // With the reply, which then answers.
  outbox_->Take(connection.id);
  connection.answer = {.code = 503, .body = "too many requests wait\n"};
}

bool HttpServer::Send(Connection& connection) {
  auto answer = std::make_unique<HttpAnswer>(*std::move(connection.answer));
  connection.answer.reset();
  const size_t size = answer->body.size();
  std::unique_ptr<MHD_Response, decltype(&MHD_destroy_response)> response(
      MHD_create_response_from_buffer_with_free_callback_cls(size, answer->body.data(),
                                                             &Callbacks::DropAnswer, answer.get()),
      &MHD_destroy_response);
  if (response == nullptr) return false;
  const HttpAnswer& sent = *answer.release();
  const auto add = [&](const char* name, const std::string& value) {
    return value.empty() || MHD_add_response_header(response.get(), name, value.c_str()) == MHD_YES;
  };
  if (!add("Content-Type", sent.content_type) || !add("Cache-Control", "no-store")) return false;
  for (const auto& [name, value] : sent.headers) {
    if (!add(name.c_str(), value)) return false;
  }
  if (sent.code == 405 && connection.handler != nullptr &&
      !add("Allow", AllowedMethods(*connection.handler))) {
    return false;
  }
  connection.Enter(Connection::State::kAnswering,
                   absl::Now() + limits_.answer_time + TimeFor(size));
  // What is shorter is the system's at once.
  connection.is_timed = size > kReadInVain;
  if (connection.is_timed) connection.SetTimeout(limits_.answer_time);
  return MHD_queue_response(connection.handle, static_cast<unsigned>(sent.code), response.get()) ==
         MHD_YES;
}

void HttpServer::Closed(Connection& connection) {
  if (connection.cut_off || outbox_->closed() || PeerHasClosed(connection.fd)) return;
  if (!connection.was_asked && !connection.speaks_tls && HasSentNothing(connection.fd)) {
    const std::string answer = BadRequestText(
        connection.credentials == nullptr ? "not an HTTP/1 request\n" : "this port speaks HTTPS\n");
    send(connection.fd, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  closing_.Add(connection.fd);
}

}  // namespace formwork::server
