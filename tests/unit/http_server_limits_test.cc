#include "server/http_server.h"

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/http_world.h"

namespace formwork::server {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(HttpServerLimitsTest, HoldsBodiesToABudget) {
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

TEST(HttpServerLimitsTest, HandlersLearnThatTheirPeerHasGone) {
  absl::Mutex mutex;
  std::vector<HttpServer::Reply> replies;
  std::vector<std::shared_ptr<HttpPeer>> asking;
  int gone = 0;
  HttpServer::Handler keeping = Echoing(100);
  keeping.handle = [&](const HttpRequest& request, HttpServer::Reply reply) {
    request.peer->OnGone([&] {
      absl::MutexLock lock(&mutex);
      ++gone;
    });
    absl::MutexLock lock(&mutex);
    asking.push_back(request.peer);
    replies.push_back(std::move(reply));
  };
  auto server = Serve({{"/keep", keeping}});
  const auto wait_for = [&](auto condition) {
    absl::MutexLock lock(&mutex);
    mutex.Await(absl::Condition(&condition));
  };
  {
    Peer leaves(server->port());
    leaves.Send(Post("/keep", "x"));
    wait_for([&] { return replies.size() == 1; });
  }
  wait_for([&] { return gone == 1; });
  bool at_once = false;
  asking[0]->OnGone([&] { at_once = true; });
  EXPECT_TRUE(at_once);
  replies[0]({.body = "for nobody"});
  Peer stays(server->port());
  stays.Send(Post("/keep", "x"));
  wait_for([&] { return replies.size() == 2; });
  replies[1]({.body = "done"});
  EXPECT_THAT(stays.Answer(), EndsWith("done"));
  stays.Send(Post("/keep", "x"));
  wait_for([&] { return replies.size() == 3; });
  server = nullptr;  // This is going, too.
  EXPECT_EQ(gone, 2);
}

TEST(HttpServerLimitsTest, TheLongestIdleConnectionGoesForTheNewest) {
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

TEST(HttpServerLimitsTest, SlowPeersAreCutOff) {
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

TEST(HttpServerLimitsTest, PeersThatLeaveHarmNothing) {
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
