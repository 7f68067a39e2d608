// Whether a connection is there, told by its peer's address.

#include "server/peer_connections.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <utility>

#include "server/listen_socket.h"
#include "server/unique_fd.h"

namespace formwork::server {
namespace {

// Both ends of a connection over the loopback.
struct Connection {
  UniqueFd ours, theirs;
};

class PeerConnectionsTest : public ::testing::Test {
 protected:
  void SetUp() override { listener_ = *ListenOnTcp("127.0.0.1", 0, &port_); }

  Connection Connect() {
    Connection made;
    made.theirs = UniqueFd(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(
        connect(made.theirs.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
        0);
    made.ours = UniqueFd(accept(listener_.get(), nullptr, nullptr));
    EXPECT_GE(made.ours.get(), 0);
    return made;
  }

  int port_ = 0;
  UniqueFd listener_;
  PeerConnections connections_;
};

TEST_F(PeerConnectionsTest, OneIsUpUntilEitherSideHasEndedIt) {
  Connection first = Connect(), second = Connect();
  const std::string of_first = PeerOf(first.ours.get()), of_second = PeerOf(second.ours.get());
  EXPECT_FALSE(connections_.IsUp(of_first));  // Not known yet.
  connections_.Add(first.ours.get());
  connections_.Add(second.ours.get());
  EXPECT_TRUE(connections_.IsUp(of_first));
  EXPECT_TRUE(connections_.IsUp(of_second));
  first.theirs = UniqueFd();
  EXPECT_FALSE(connections_.IsUp(of_first));
  second.ours = UniqueFd();
  EXPECT_FALSE(connections_.IsUp(of_second));
}

TEST_F(PeerConnectionsTest, ADescriptorThatComesAgainIsAnotherConnections) {
  Connection first = Connect();
  const int fd = first.ours.get();
  const std::string peer = PeerOf(fd);
  connections_.Add(fd);
  Connection second = Connect();
  // As a new connection has it, whose descriptor was free.
  ASSERT_EQ(dup2(second.ours.get(), fd), fd);
  EXPECT_FALSE(connections_.IsUp(peer));
  connections_.Add(fd);
  EXPECT_FALSE(connections_.IsUp(peer));
  EXPECT_TRUE(connections_.IsUp(PeerOf(fd)));
}

TEST_F(PeerConnectionsTest, WhatHasNoAddressCannotBeTold) {
  EXPECT_TRUE(connections_.IsUp("unix:"));
}

}  // namespace
}  // namespace formwork::server
