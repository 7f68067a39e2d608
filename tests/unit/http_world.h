#pragma once

// An HttpServer of a test's own, and who asks it.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/http_server.h"

namespace formwork::server {

/// A peer of an HttpServer.
class Peer {
 public:
  explicit Peer(int port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience = {20, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }

  bool Send(absl::string_view text) {
    while (!text.empty()) {
      const ssize_t size = send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (size < 0) return false;
      text.remove_prefix(static_cast<size_t>(size));
    }
    return true;
  }

  /// Up to the end of one answer, or of the connection.
  std::string Answer(bool has_body = true) {
    return Until([&](const std::string& text) {
      const size_t head = text.find("\r\n\r\n");
      if (head == std::string::npos) return size_t{0};
      const size_t length = text.find("Content-Length: ");
      if (length > head || (!has_body && head != std::string::npos)) return head + 4;
      const absl::string_view digits = absl::string_view(text).substr(length + 16);
      size_t size = 0;
      EXPECT_TRUE(absl::SimpleAtoi(digits.substr(0, digits.find('\r')), &size));
      return text.size() < head + 4 + size ? 0 : head + 4 + size;
    });
  }

  /// Up to the end of the connection.
  std::string Rest() {
    return Until([](const std::string&) { return size_t{0}; });
  }

 private:
  template <typename Ends>
  std::string Until(Ends ends) {
    char buffer[16 << 10];
    size_t end;
    while ((end = ends(read_)) == 0) {
      const ssize_t size = recv(fd_.get(), buffer, sizeof(buffer), 0);
      if (size <= 0) return std::exchange(read_, "");
      read_.append(buffer, static_cast<size_t>(size));
    }
    std::string first = read_.substr(0, end);
    read_.erase(0, end);
    return first;
  }

  UniqueFd fd_;
  std::string read_;
};

inline std::string Ask(int port, absl::string_view request) {
  Peer peer(port);
  peer.Send(request);
  return peer.Answer();
}

inline std::string Get(absl::string_view path) {
  return absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\n\r\n");
}

inline std::string Post(absl::string_view path, absl::string_view body,
                        absl::string_view headers = "") {
  return absl::StrCat("POST ", path, " HTTP/1.1\r\nHost: x\r\nContent-Length: ", body.size(),
                      "\r\n", headers, "\r\n", body);
}

inline std::string Chunked(absl::string_view path, const std::vector<std::string>& chunks) {
  std::string request =
      absl::StrCat("POST ", path, " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (const std::string& chunk : chunks) {
    absl::StrAppend(&request, absl::Hex(chunk.size()), "\r\n", chunk, "\r\n");
  }
  return request + "0\r\n\r\n";
}

inline void Echo(const HttpRequest& request, HttpServer::Reply reply) {
  reply({.content_type = std::string(request.Header("Content-Type")),
         .body = absl::StrCat(request.path, ":", request.body.text())});
}

inline HttpServer::Handler Echoing(size_t max_body_bytes, bool may_wait = false) {
  return {.handle = [](HttpRequest request,
                       HttpServer::Reply reply) { Echo(request, std::move(reply)); },
          .methods = {"POST"},
          .may_wait = may_wait,
          .max_body_bytes = max_body_bytes};
}

inline std::unique_ptr<HttpServer> Serve(HttpServer::Handlers handlers,
                                         MemoryBudget* budget = nullptr,
                                         const HttpServer::Limits& limits = {}) {
  auto server = HttpServer::Start("127.0.0.1", 0, std::move(handlers), budget, limits);
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

}  // namespace formwork::server
