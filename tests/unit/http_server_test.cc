#include "server/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <new>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace formwork::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Ask(int port, const std::string& path) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return "";
  const std::string request = "GET " + path + " HTTP/1.1\r\n\r\n";
  if (send(fd.get(), request.data(), request.size(), 0) < 0) return "";
  std::string answer;
  char buffer[1024];
  for (ssize_t size; (size = recv(fd.get(), buffer, sizeof(buffer), 0)) > 0;) {
    answer.append(buffer, static_cast<size_t>(size));
  }
  return answer;
}

TEST(HttpServerTest, AnswersWhereAHandlerGetsNoMemory) {
  const auto throws = []() -> HttpAnswer { throw std::bad_alloc(); };
  auto server =
      HttpServer::Start("127.0.0.1", 0,
                        {{"/at_once", {.answer = throws}},
                         {"/waits", {.answer = throws, .may_wait = true}},
                         {"/fine", {.answer = [] { return HttpAnswer{.body = "yes\n"}; }}}});
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  for (const char* path : {"/at_once", "/waits"}) {
    const std::string answer = Ask(port, path);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 503 "));
    EXPECT_THAT(answer, HasSubstr("out of memory"));
  }
  EXPECT_THAT(Ask(port, "/fine"), HasSubstr("\r\n\r\nyes\n"));
}

}  // namespace
}  // namespace formwork::server
