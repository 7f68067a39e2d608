#include "server/http_server.h"

#include <civetweb.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/listen_address.h"

namespace formwork::server {
namespace {

int IgnoreLog(const mg_connection*, const char*) { return 1; }

void Send(mg_connection* connection, const HttpAnswer& answer, bool with_body) {
  mg_printf(connection,
            "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
            answer.code, mg_get_response_code_text(connection, answer.code),
            answer.content_type.c_str(), answer.body.size());
  if (with_body) mg_write(connection, answer.body.data(), answer.body.size());
}

}  // namespace

int HttpServer::Handle(mg_connection* connection, void* handler) {
  const char* method = mg_get_request_info(connection)->request_method;
  const bool head = std::strcmp(method, "HEAD") == 0;
  HttpAnswer answer{405, "text/plain; charset=utf-8", "only GET and HEAD\n"};
  if (head || std::strcmp(method, "GET") == 0) {
    answer = (*static_cast<const std::function<HttpAnswer()>*>(handler))();
  }
  Send(connection, answer, !head);
  return answer.code;
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address, int port,
                                                              Handlers handlers) {
  std::unique_ptr<HttpServer> server(new HttpServer(address, std::move(handlers)));
  const std::string listen = HostAndPort(address, port);
  // Few threads, and short waits, as those who ask are few and quick.
  const char* options[] = {"listening_ports",
                           listen.c_str(),
                           "num_threads",
                           "4",
                           "request_timeout_ms",
                           "5000",
                           "enable_keep_alive",
                           "no",
                           "enable_directory_listing",
                           "no",
                           nullptr};
  mg_callbacks callbacks{};
  callbacks.log_message = &IgnoreLog;
  server->context_ = mg_start(&callbacks, nullptr, options);
  if (server->context_ == nullptr) return CannotListen("HTTP", address, port);
  mg_server_port bound{};
  if (mg_get_server_ports(server->context_, 1, &bound) < 1) {
    return CannotListen("HTTP", address, port);
  }
  server->port_ = bound.port;
  for (const auto& [path, handler] : server->handlers_) {
    mg_set_request_handler(server->context_, absl::StrCat(path, "$").c_str(), &Handle,
                           const_cast<std::function<HttpAnswer()>*>(&handler));
  }
  return server;
}

HttpServer::~HttpServer() {
  if (context_ == nullptr) return;
  // civetweb looks at its stop flag every two seconds, or when somebody connects.
  std::atomic<bool> stopped{false};
  std::thread stop([this, &stopped] {
    mg_stop(context_);
    stopped = true;
  });
  while (!stopped) {
    Connect(address_, port_);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  stop.join();
}

}  // namespace formwork::server
