#include "server/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <deque>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace formwork::server {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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

  // Up to the end of one answer, or of the connection.
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

std::string Ask(int port, absl::string_view request) {
  Peer peer(port);
  peer.Send(request);
  return peer.Answer();
}

std::string Get(absl::string_view path) {
  return absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\n\r\n");
}

std::string Post(absl::string_view path, absl::string_view body, absl::string_view headers = "") {
  return absl::StrCat("POST ", path, " HTTP/1.1\r\nHost: x\r\nContent-Length: ", body.size(),
                      "\r\n", headers, "\r\n", body);
}

std::string Chunked(absl::string_view path, const std::vector<std::string>& chunks) {
  std::string request =
      absl::StrCat("POST ", path, " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (const std::string& chunk : chunks) {
    absl::StrAppend(&request, absl::Hex(chunk.size()), "\r\n", chunk, "\r\n");
  }
  return request + "0\r\n\r\n";
}

void Echo(const HttpRequest& request, HttpServer::Reply reply) {
  reply({.content_type = std::string(request.Header("Content-Type")),
         .body = absl::StrCat(request.path, ":", request.body.text())});
}

HttpServer::Handler Echoing(size_t max_body_bytes, bool may_wait = false) {
  return {.handle = [](HttpRequest request,
                       HttpServer::Reply reply) { Echo(request, std::move(reply)); },
          .methods = {"POST"},
          .may_wait = may_wait,
          .max_body_bytes = max_body_bytes};
}

std::unique_ptr<HttpServer> Serve(HttpServer::Handlers handlers, MemoryBudget* budget = nullptr,
                                  const HttpServer::Limits& limits = {}) {
  auto server = HttpServer::Start("127.0.0.1", 0, std::move(handlers), budget, limits);
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

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

TEST(HttpServerTest, HoldsBodiesToABudget) {
  std::deque<HttpRequest> kept;
  HttpServer::Handler keeping = Echoing(10 << 20);
  keeping.handle = [&](HttpRequest request, HttpServer::Reply reply) {
    reply({.body = absl::StrCat(request.body.size())});
    kept.push_back(std::move(request));
  };
  const std::string fits = Post("/keep", std::string(300 << 10, 'a'));
  const std::string large = Post("/keep", std::string(6 << 20, 'a'));
  const std::string chunked = Chunked("/keep", {std::string(6 << 20, 'a')});
  MemoryBudget budget(4 << 20);  // Of what the process takes from here on.
  const auto server = Serve({{"/keep", keeping}}, &budget);
  const size_t before = budget.used();
  EXPECT_THAT(Ask(server->port(), fits), EndsWith("\n307200"));
  EXPECT_GE(budget.used(), before + (300 << 10));
  EXPECT_LT(budget.used(), before + (400 << 10));
  Peer peer(server->port());
  std::thread sends([&] { peer.Send(chunked); });
  const std::string answer = peer.Answer();
  sends.join();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(answer, HasSubstr("out of memory"));
  peer.Send(fits);
  EXPECT_THAT(peer.Answer(), EndsWith("\n307200"));
  EXPECT_THAT(Ask(server->port(), large), StartsWith("HTTP/1.1 503 "));
  kept.clear();
  EXPECT_LT(budget.used(), before + (100 << 10));
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

TEST(HttpServerTest, TheLongestIdleConnectionGoesForTheNewest) {
  absl::Mutex mutex;
  std::vector<HttpServer::Reply> replies;
  HttpServer::Handler keeping = Echoing(100);
  keeping.handle = [&](const HttpRequest&, HttpServer::Reply reply) {
    absl::MutexLock lock(&mutex);
    replies.push_back(std::move(reply));
  };
  const auto server =
      Serve({{"/keep", keeping}, {"/get", HttpServer::Get([] { return HttpAnswer(); })}}, nullptr,
            {.connections = 8});
  std::deque<Peer> working;
  for (int i = 0; i < 8; ++i) {
    working.emplace_back(server->port()).Send(Post("/keep", "x"));
    absl::SleepFor(absl::Milliseconds(20));
  }
  for (int i : {6, 7}) {  // So that there is always a place.
    EXPECT_THAT(working[i].Answer(), StartsWith("HTTP/1.1 503 "));
  }
  Peer half(server->port());
  half.Send("POST /echo HT");
  Peer old(server->port());
  old.Send(Get("/get"));
  EXPECT_THAT(old.Answer(), StartsWith("HTTP/1.1 200 "));
  std::deque<Peer> silent;
  for (int i = 0; i < 20; ++i) silent.emplace_back(server->port());
  EXPECT_THAT(Ask(server->port(), Get("/get")), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(old.Rest(), "");
  EXPECT_EQ(half.Rest(), "");
  EXPECT_EQ(silent[0].Rest(), "");
  absl::MutexLock lock(&mutex);
  ASSERT_EQ(replies.size(), 6);
  for (HttpServer::Reply& reply : replies) reply({.body = "done"});
  for (int i = 0; i < 6; ++i) EXPECT_THAT(working[i].Answer(), EndsWith("done"));
}

TEST(HttpServerTest, SlowPeersAreCutOff) {
  const HttpServer::Limits limits = {.request_time = absl::Milliseconds(300),
                                     .answer_time = absl::Seconds(1),
                                     .idle_time = absl::Milliseconds(600)};
  const auto large = [] { return HttpAnswer{.body = std::string(64 << 20, 'x')}; };
  const auto server =
      Serve({{"/echo", Echoing(1000)}, {"/large", HttpServer::Get(large)}}, nullptr, limits);
  const absl::Time start = absl::Now();
  Peer silent(server->port());
  Peer half(server->port());
  half.Send("POST /echo HTTP/1.1\r\nx:");
  Peer idle(server->port());
  idle.Send(Post("/echo", "x"));
  EXPECT_THAT(idle.Answer(), EndsWith(":x"));
  Peer trickles(server->port());
  trickles.Send("POST /echo HTTP/1.1\r\nContent-Length: 1000\r\n\r\n");
  int pieces = 0;
  while (trickles.Send("x") && pieces < 20) {
    absl::SleepFor(absl::Milliseconds(100));
    ++pieces;
  }
  EXPECT_LT(pieces, 10);
  EXPECT_EQ(silent.Rest(), "");
  EXPECT_EQ(half.Rest(), "");
  EXPECT_LT(absl::Now() - start, absl::Seconds(2));
  EXPECT_EQ(idle.Rest(), "");
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(600));
  Peer deaf(server->port());
  deaf.Send(Get("/large"));
  absl::SleepFor(absl::Seconds(3));
  EXPECT_LT(deaf.Rest().size(), 64 << 20);
  Peer reads(server->port());
  reads.Send(Get("/large"));
  EXPECT_GT(reads.Answer().size(), 64 << 20);
}

TEST(HttpServerTest, PeersThatLeaveHarmNothing) {
  const auto large = [] { return HttpAnswer{.body = std::string(4 << 20, 'x')}; };
  const auto server = Serve({{"/echo", Echoing(1000, /*may_wait=*/true)},
                             {"/large", HttpServer::Get(large, /*may_wait=*/true)}});
  for (int i = 0; i < 300; ++i) {
    Peer peer(server->port());
    const std::string request = i % 3 > 0 ? Post("/echo", "12345") : Get("/large");
    peer.Send(absl::string_view(request).substr(0, request.size() - (i % 2) * (i % 7)));
  }
  while (absl::StartsWith(Ask(server->port(), Get("/large")), "HTTP/1.1 503 ")) {
    absl::SleepFor(absl::Milliseconds(10));  // Too many wait.
  }
  EXPECT_THAT(Ask(server->port(), Post("/echo", "x")), EndsWith(":x"));
}

}  // namespace
}  // namespace formwork::server
