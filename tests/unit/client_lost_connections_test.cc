// The C++ client against a server whose connections break: blocking calls, and streams that are
// opened again.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "formwork/client.h"
#include "server/server.h"
#include "tests/support/graph_text.h"
#include "tests/support/status_matchers.h"

namespace formwork::client {
namespace {

// A proxy, each of whose connections breaks after a random number of bytes.
class Cutter {
 public:
  explicit Cutter(int port) : server_port_(port), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 16), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { Accept(); });
  }
  ~Cutter() {
    closing_ = true;
    acceptor_.join();
    for (std::thread& thread : threads_) thread.join();
    close(listener_);
  }
  std::string target() const { return absl::StrCat("127.0.0.1:", port_); }
  int cuts() const { return cuts_; }
  // Breaks the connections that are there, and returns when they are broken.
  void CutAll() {
    absl::MutexLock lock(&mutex_);
    const int broken = ++cut_all_;
    const auto are_broken = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return open_.empty() || *open_.begin() >= broken;
    };
    mutex_.Await(absl::Condition(&are_broken));
  }

 private:
  static sockaddr_in Loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    return address;
  }
  void Accept() {
    while (!closing_) {
      pollfd wait{listener_, POLLIN, 0};
      if (poll(&wait, 1, 20) <= 0) continue;
      const int client = accept(listener_, nullptr, nullptr);
      const int server = socket(AF_INET, SOCK_STREAM, 0);
      const sockaddr_in address = Loopback(server_port_);
      EXPECT_EQ(connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
      int until;
      {
        absl::MutexLock lock(&mutex_);
        open_.insert(until = cut_all_);
      }
      threads_.emplace_back([this, client, server, until, bytes = 1000 + random_() % 6000] {
        PassOn(client, server, static_cast<int64_t>(bytes), until);
        absl::MutexLock lock(&mutex_);
        open_.erase(open_.find(until));
      });
    }
  }
  void PassOn(int client, int server, int64_t left, int until) {
    const auto pass = [&](int from, int to) {
      char bytes[1024];
      const ssize_t size = recv(from, bytes, sizeof(bytes), 0);
      if (size <= 0 || send(to, bytes, static_cast<size_t>(size), MSG_NOSIGNAL) != size) {
        return false;
      }
      left -= size;
      return true;
    };
    bool open = true;
    while (open && left > 0 && cut_all_ == until && !closing_) {
      pollfd wait[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
      poll(wait, 2, 20);
      if (wait[0].revents != 0) open = pass(client, server);
      if (open && left > 0 && wait[1].revents != 0) open = pass(server, client);
    }
    cuts_ += left <= 0;
    close(client);
    close(server);
  }

  const int server_port_;
  const int listener_;
  int port_ = 0;
  std::minstd_rand random_{7};
  std::atomic<bool> closing_{false};
  std::atomic<int> cuts_{0};
  std::atomic<int> cut_all_{0};  // How often.
  absl::Mutex mutex_;
  std::multiset<int> open_ ABSL_GUARDED_BY(mutex_);  // By how often that was before.
  std::vector<std::thread> threads_;                 // The acceptor's.
  std::thread acceptor_;
};

// A server with a function that adds 1 to a variable and gives the sum.
class LostConnectionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server::ServerOptions options;
    options.port = 0;
    options.http_port = -1;
    auto engine = Engine::Create({});
    ASSERT_OK(engine);
    auto started = server::Server::Start(options, *std::move(engine));
    ASSERT_OK(started);
    server_ = *std::move(started);
    const std::string addresses = server_->Addresses();
    ASSERT_TRUE(absl::SimpleAtoi(addresses.substr(addresses.rfind(':') + 1), &port_)) << addresses;
    auto client = Client::Connect(absl::StrCat("127.0.0.1:", port_));
    ASSERT_OK(client);
    direct_ = *std::move(client);
    const Tensor zero = Tensor::Scalar<float>(0);
    auto variable = direct_->CreateVariable("v", tf::DT_FLOAT, v1::Shape(), &zero);
    ASSERT_OK(variable);
    v1::RegisterRequest request;
    request.set_name("count");
    request.set_graph_def(
        formwork::testing::ParseGraph("v = Placeholder dtype=resource\n"
                                      "one = Const float[] 1\n"
                                      "a = AssignAddVariableOp(v, one) dtype=float\n"
                                      "y = ReadVariableOp(v, ^a) dtype=float\n")
            ->SerializeAsString());
    v1::Capture* capture = request.add_captures();
    capture->set_tensor("v:0");
    capture->mutable_value()->set_resource_id(variable->variable().id());
    request.add_outputs("y:0");
    request.add_targets("a");
    auto made = direct_->Register(request);
    ASSERT_OK(made);
    function_id_ = made->function().id();
    cutter_.emplace(port_);
  }
  void TearDown() override {
    cutter_.reset();
    direct_.reset();
    EXPECT_OK(server_->Shutdown(absl::Now() + absl::Seconds(10)));
  }
  // Connected where connections break; it has heard of the server.
  std::unique_ptr<Client> Connect() {
    ClientOptions options;
    options.retry_for = absl::Seconds(30);
    auto client = Client::Connect(cutter_->target(), options);
    EXPECT_OK(client);
    EXPECT_OK((*client)->ListFunctions());
    return *std::move(client);
  }
  CallRequest Count(uint64_t call_id = 0) const {
    CallRequest request;
    request.function_id = function_id_;
    request.call_id = call_id;
    return request;
  }
  static float ValueOf(const CallResponse& response) {
    EXPECT_OK(response.status);
    float value = 0;
    if (response.outputs.size() == 1) std::get<Tensor>(response.outputs[0]).CopyTo(&value);
    return value;
  }

  int port_ = 0;
  uint64_t function_id_ = 0;
  std::unique_ptr<server::Server> server_;
  std::unique_ptr<Client> direct_;
  std::optional<Cutter> cutter_;
};

TEST_F(LostConnectionsTest, ACallIsDoneOnce) {
  const std::unique_ptr<Client> client = Connect();
  for (int i = 1; i <= 200; ++i) {
    const auto response = client->Call(Count());
    ASSERT_OK(response);
    ASSERT_EQ(ValueOf(*response), i);
  }
  EXPECT_GT(cutter_->cuts(), 2);
}

TEST_F(LostConnectionsTest, AStreamGoesOnWhereItBroke) {
  constexpr int kCalls = 400;
  const std::unique_ptr<Client> client = Connect();
  const std::unique_ptr<CallStream> stream = client->OpenStream();
  std::thread writer([&] {
    for (uint64_t i = 1; i <= kCalls; ++i) {
      EXPECT_TRUE(stream->Write(Count(i)));
    }
    stream->WritesDone();
  });
  for (int i = 1; i <= kCalls; ++i) {
    const std::optional<CallResponse> response = stream->Read();
    ASSERT_TRUE(response) << stream->Finish();
    ASSERT_EQ(ValueOf(*response), i);
    ASSERT_EQ(response->call_id, static_cast<uint64_t>(i));
  }
  writer.join();
  EXPECT_FALSE(stream->Read());
  EXPECT_OK(stream->Finish());
  EXPECT_GT(cutter_->cuts(), 2);
}

TEST_F(LostConnectionsTest, AStreamWithNothingUnansweredLosesNothing) {
  const std::unique_ptr<Client> client = Connect();
  const std::unique_ptr<CallStream> stream = client->OpenStream();
  for (int i = 1; i <= 3; ++i) {
    // Read waits for it where the connection is broken.
    std::thread writer([&] {
      absl::SleepFor(absl::Milliseconds(20));
      EXPECT_TRUE(stream->Write(Count()));
    });
    const std::optional<CallResponse> response = stream->Read();
    writer.join();
    ASSERT_TRUE(response) << stream->Finish();
    ASSERT_EQ(ValueOf(*response), i);
    cutter_->CutAll();
  }
  stream->WritesDone();
  EXPECT_FALSE(stream->Read());
  EXPECT_OK(stream->Finish());
}

TEST_F(LostConnectionsTest, AStreamEndsWhereItIsNotToBeOpenedAgain) {
  ClientOptions options;
  options.retry_for = absl::ZeroDuration();
  auto client = Client::Connect(cutter_->target(), options);
  ASSERT_OK(client);
  const std::unique_ptr<CallStream> stream = (*client)->OpenStream();
  int answered = 0;
  while (answered < 1000 && stream->Write(Count()) && stream->Read()) {
    ++answered;
  }
  EXPECT_LT(answered, 1000);
  EXPECT_FALSE(stream->Read());
  EXPECT_THAT(stream->Finish(), formwork::testing::StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace formwork::client
