// Whether a connection is there, told by its peer's address.

#include "server/connection_listener.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/listen_socket.h"
#include "server/unique_fd.h"

namespace formwork::server {
namespace {

// Both ends of a connection over the loopback.
struct Connection {
  UniqueFd ours, theirs;
  bool is_remote = true;
};

class ConnectionListenerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<UniqueFd> sockets;
    sockets.push_back(*ListenOnTcp("127.0.0.1", 0, &port_));
    listener_.Start(std::move(sockets), [this](int fd, bool is_remote) {
      absl::MutexLock lock(&mutex_);
      taken_ = fd;
      taken_is_remote_ = is_remote;
    });
  }

  static UniqueFd NewSocket() { return UniqueFd(socket(AF_INET, SOCK_STREAM, 0)); }
  Connection Connect(UniqueFd theirs = NewSocket()) {
    Connection made;
    made.theirs = std::move(theirs);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(
        connect(made.theirs.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
        0);
    Connection accepted = TakeNext();
    made.ours = std::move(accepted.ours);
    made.is_remote = accepted.is_remote;
    return made;
  }

  // The next one that was accepted, without its other end.
  Connection TakeNext() {
    absl::MutexLock lock(&mutex_);
    const auto is_taken = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return taken_ >= 0; };
    mutex_.Await(absl::Condition(&is_taken));
    return {UniqueFd(std::exchange(taken_, -1)), UniqueFd(), taken_is_remote_};
  }

  int port_ = 0;
  absl::Mutex mutex_;
  int taken_ ABSL_GUARDED_BY(mutex_) = -1;
  bool taken_is_remote_ ABSL_GUARDED_BY(mutex_) = false;
  ConnectionListener listener_{8};
};

TEST_F(ConnectionListenerTest, AConnectionIsUpUntilEitherSideHasEndedIt) {
  Connection first = Connect(), second = Connect();
  const std::string of_first = PeerOf(first.ours.get()), of_second = PeerOf(second.ours.get());
  EXPECT_TRUE(listener_.IsUp(of_first));
  EXPECT_TRUE(listener_.IsUp(of_second));
  first.theirs = UniqueFd();
  EXPECT_FALSE(listener_.IsUp(of_first));
  second.ours = UniqueFd();
  EXPECT_FALSE(listener_.IsUp(of_second));
}

TEST_F(ConnectionListenerTest, ADescriptorThatComesAgainIsAnotherConnections) {
  Connection first = Connect();
  const int fd = first.ours.get();
  const std::string peer = PeerOf(fd);
  UniqueFd theirs = NewSocket();
  first.ours = UniqueFd();
  const Connection second = Connect(std::move(theirs));
  ASSERT_EQ(second.ours.get(), fd);
  EXPECT_FALSE(listener_.IsUp(peer));
  EXPECT_TRUE(listener_.IsUp(PeerOf(fd)));
  EXPECT_EQ(listener_.GetStats().open, 1u);
}

TEST_F(ConnectionListenerTest, KnowsItsOwnConnectionOnce) {
  const UniqueFd own = *listener_.ConnectToSelf();
  const Connection first = TakeNext();
  EXPECT_FALSE(first.is_remote);
  EXPECT_TRUE(AreEndsOfOne(own.get(), first.ours.get()));
  EXPECT_TRUE(listener_.IsUp(PeerOf(first.ours.get())));
  const Connection second = Connect();
  EXPECT_TRUE(second.is_remote);
  EXPECT_FALSE(AreEndsOfOne(own.get(), second.ours.get()));
  EXPECT_FALSE(AreEndsOfOne(second.theirs.get(), first.ours.get()));
}

TEST_F(ConnectionListenerTest, HasNoConnectionToItselfOnceItHasStopped) {
  listener_.Stop();
  EXPECT_FALSE(listener_.ConnectToSelf().ok());
}

TEST_F(ConnectionListenerTest, WhatHasNoAddressCannotBeTold) {
  EXPECT_TRUE(listener_.IsUp("unix:"));
  EXPECT_FALSE(listener_.IsUp("ipv4:127.0.0.1:1"));
}

}  // namespace
}  // namespace formwork::server
