#include "server/http_server.h"

#include <atomic>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/http_world.h"

namespace formwork::server {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(HttpServerTest, AnswersWhereAHandlerGetsNoMemory) {
  const auto throws = []() -> HttpAnswer { throw std::bad_alloc(); };
  const auto server = Serve(
      {{"/at_once", HttpServer::Get(throws)},
       {"/waits", HttpServer::Get(throws, /*may_wait=*/true)},
       {"/keeps",
        {.handle = [](const HttpRequest&, const HttpServer::Reply&) { throw std::bad_alloc(); }}},
       {"/drops", {.handle = [](const HttpRequest&, const HttpServer::Reply&) {}}},
       {"/fine", HttpServer::Get([] { return HttpAnswer{.body = "yes\n"}; })}});
  for (const char* path : {"/at_once", "/waits", "/keeps", "/drops"}) {
    const std::string answer = Ask(server->port(), Get(path));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 503 "));
    EXPECT_THAT(answer, HasSubstr("out of memory"));
  }
  EXPECT_THAT(Ask(server->port(), Get("/fine")), EndsWith("\r\n\r\nyes\n"));
}

TEST(HttpServerTest, TakesBodiesOneAfterTheOtherOverOneConnection) {
  const auto server =
      Serve({{"/echo", Echoing(1 << 20)}, {"/wait", Echoing(1 << 20, /*may_wait=*/true)}});
  Peer peer(server->port());
  for (const char* path : {"/echo", "/wait", "/echo"}) {
    for (const size_t size : {0, 1, 5000, 1 << 20}) {
      const std::string body(size, 'b');
      ASSERT_TRUE(peer.Send(Post(path, body, "CONTENT-TYPE: a/b\r\n")));
      const std::string answer = peer.Answer();
      EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
      EXPECT_THAT(answer, HasSubstr("\r\nContent-Type: a/b\r\n"));
      EXPECT_THAT(answer, HasSubstr("\r\nCache-Control: no-store\r\n"));
      EXPECT_TRUE(absl::EndsWith(answer, absl::StrCat("\r\n\r\n", path, ":", body)));
    }
  }
  // In one go, and answered in their order.
  ASSERT_TRUE(peer.Send(Post("/wait", "1") + Post("/echo", "2") +
                        Chunked("/echo", {"3", "4", std::string(100, '5')}) + Get("/no") +
                        Post("/wait", "6", "Connection: close\r\n")));
  EXPECT_THAT(peer.Answer(), EndsWith("/wait:1"));
  EXPECT_THAT(peer.Answer(), EndsWith("/echo:2"));
  EXPECT_THAT(peer.Answer(), EndsWith("/echo:34" + std::string(100, '5')));
  EXPECT_THAT(peer.Answer(), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(peer.Rest(), EndsWith("/wait:6"));
}

TEST(HttpServerTest, FindsHandlersByPathAndMethod) {
  const auto text = [](const char* body) {
    return HttpServer::Get([body] { return HttpAnswer{.body = body}; });
  };
  HttpServer::Handler both = text("both");
  both.methods = {"GET", "POST"};
  const auto server = Serve({{"/v1/", text("v1")},
                             {"/v1/models/", both},
                             {"/v1/models", text("")},
                             {"/v1/x", text("x")}});
  Peer peer(server->port());
  const auto ask = [&](const std::string& request) {
    peer.Send(request);
    return peer.Answer();
  };
  EXPECT_THAT(ask(Get("/v1/models/a/b?q=%20")), EndsWith("both"));
  EXPECT_THAT(ask(Get("/v1/%6dodels/")), EndsWith("both"));
  EXPECT_THAT(ask(Get("/v1/xx")), EndsWith("v1"));
  EXPECT_THAT(ask(Get("/v1/x?")), EndsWith("\nx"));
  EXPECT_THAT(ask(Get("/v1")), StartsWith("HTTP/1.1 404 "));
  peer.Send("HEAD /v1/x HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(peer.Answer(/*has_body=*/false), HasSubstr("\r\nContent-Length: 1\r\n"));
  const std::string refused = ask("DELETE /v1/models/a HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(refused, HasSubstr("\r\nAllow: GET, POST, HEAD\r\n"));
  EXPECT_THAT(ask(Post("/v1/x", "body")), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(ask(Get("/v1/x")), EndsWith("\nx"));  // All over one connection.
}

TEST(HttpServerTest, RefusesBodiesThatAreTooLarge) {
  const auto server =
      Serve({{"/echo", Echoing(100'000)}, {"/get", HttpServer::Get([] { return HttpAnswer(); })}});
  Peer peer(server->port());
  peer.Send("GET /get HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab");
  EXPECT_THAT(peer.Answer(), StartsWith("HTTP/1.1 413 "));
  peer.Send(Chunked("/echo", {std::string(60'000, 'a'), std::string(60'000, 'a')}));
  EXPECT_THAT(peer.Answer(), StartsWith("HTTP/1.1 413 "));
  peer.Send(Post("/echo", std::string(100'000, 'a')));  // The connection went on.
  EXPECT_THAT(peer.Answer(), StartsWith("HTTP/1.1 200 "));
  // Before the body is there, and though much of it is unread.
  EXPECT_THAT(Ask(server->port(), "POST /echo HTTP/1.1\r\nContent-Length: 100001\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(Ask(server->port(), Post("/echo", std::string(3'000'000, 'a'))),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(Ask(server->port(), Post("/echo", std::string(1, 'a'), "Expect: 100-continue\r\n")),
              StartsWith("HTTP/1.1 100 "));
  EXPECT_THAT(
      Ask(server->port(), "POST /echo HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n"),
      StartsWith("HTTP/1.1 413 "));
}

TEST(HttpServerTest, AnswersWhatIsNoRequest) {
  const auto server = Serve({{"/echo", Echoing(100)}});
  for (const char* text : {"hello\r\n\r\n", "POST /echo HTTP/1.1\r\nContent-Length: x\r\n\r\n",
                           "POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                           "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfrog\r\n"}) {
    Peer peer(server->port());
    peer.Send(text);
    EXPECT_THAT(peer.Rest(), StartsWith("HTTP/1.1 400 ")) << text;
  }
  Peer peer(server->port());
  peer.Send("GET / HTTP/1.1\r\nx: " + std::string(1 << 20, 'y'));
  const std::string answer = peer.Rest();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(answer, Not(HasSubstr("400")));
}

TEST(HttpServerTest, AnswersLateFromAnotherThread) {
  std::vector<std::thread> threads;
  HttpServer::Handler late = Echoing(100);
  late.handle = [&](HttpRequest request, HttpServer::Reply reply) {
    threads.emplace_back([request = std::move(request), reply = std::move(reply)]() mutable {
      absl::SleepFor(absl::Milliseconds(20));
      Echo(request, std::move(reply));
    });
  };
  const auto server = Serve({{"/late", late}, {"/echo", Echoing(100)}});
  std::vector<Peer> peers;
  for (int i = 0; i < 20; ++i) peers.emplace_back(server->port());
  for (int round = 0; round < 2; ++round) {
    for (Peer& peer : peers) peer.Send(Post("/late", "1") + Post("/echo", "2"));
    EXPECT_THAT(Ask(server->port(), Post("/echo", "3")), EndsWith("/echo:3"));
    for (Peer& peer : peers) {
      EXPECT_THAT(peer.Answer(), EndsWith("/late:1"));
      EXPECT_THAT(peer.Answer(), EndsWith("/echo:2"));
    }
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(HttpServerTest, RepliesMayOutliveIt) {
  HttpServer::Reply kept;
  absl::Notification asked;
  HttpServer::Handler keeping = Echoing(100);
  keeping.handle = [&](const HttpRequest&, HttpServer::Reply reply) {
    kept = std::move(reply);
    asked.Notify();
  };
  auto server = Serve({{"/keep", keeping}});
  Peer peer(server->port());
  peer.Send(Post("/keep", "x"));
  asked.WaitForNotification();
  server = nullptr;
  EXPECT_EQ(peer.Answer(), "");
  kept({.body = "late"});
  kept = nullptr;
}

TEST(HttpServerTest, WaitsForHandlersThatRun) {
  std::atomic<int> done = 0;
  absl::Notification runs;
  auto server = Serve({{"/slow", HttpServer::Get(
                                     [&] {
                                       runs.Notify();
                                       absl::SleepFor(absl::Milliseconds(50));
                                       ++done;
                                       return HttpAnswer();
                                     },
                                     /*may_wait=*/true)}});
  Peer peer(server->port());
  peer.Send(Get("/slow"));
  runs.WaitForNotification();
  server = nullptr;
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace formwork::server
