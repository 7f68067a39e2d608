// Measures calls over gRPC with the C++ client against a bare gRPC C++ echo (echo_server) of the
// same bytes, which a bare client asks. Prints one JSON object per line: name, unit, ours, peer,
// peer_name, ratio (our time / the peer's), all medians over rounds that take turns.
//
//   grpc_bench SERVER ECHO [ROUNDS [tiny|large]]    grpc_bench 127.0.0.1:8500 127.0.0.1:9000

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/client_unary_call.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "formwork/client.h"
#include "formwork/tf/graph.pb.h"

namespace {

namespace tf = formwork::tf;
using formwork::client::CallRequest;
using formwork::client::Client;
using formwork::client::Tensor;
using Clock = std::chrono::steady_clock;

constexpr double kSecondsOfRound = 0.7;
constexpr size_t kLargeBytes = size_t{16} << 20;

double Micros(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "grpc_bench: %s\n", why.c_str());
  std::exit(1);
}

// A call from its start to its answer: at once, or with a callback.
struct Target {
  std::function<void()> call;
  std::function<void(std::function<void()> done)> call_async;
};

struct Sample {
  double p50_us = 0;
  double us_per_call = 0;  // The wall time of a round by its calls.
};

Sample MeasureOneByOne(const Target& target) {
  std::vector<double> times;
  const Clock::time_point start = Clock::now();
  const auto end = start + std::chrono::duration<double>(kSecondsOfRound);
  Clock::time_point before = start;
  while (before < end || times.size() < 8) {
    target.call();
    const Clock::time_point after = Clock::now();
    times.push_back(Micros(after - before));
    before = after;
  }
  return {Median(times), Micros(before - start) / static_cast<double>(times.size())};
}

// Keeps `in_flight` calls under way: each answer starts the next one.
class Load {
 public:
  Load(const Target& target, int in_flight) : target_(target), left_(in_flight) {
    start_ = Clock::now();
    end_ = start_ + std::chrono::duration_cast<Clock::duration>(
                        std::chrono::duration<double>(kSecondsOfRound));
    for (int i = 0; i < in_flight; ++i) Next();
    done_.WaitForNotification();
  }

  Sample Result() {
    const double count = static_cast<double>(times_.size());
    return {Median(times_), Micros(last_ - start_) / count};
  }

 private:
  void Next() {
    const Clock::time_point before = Clock::now();
    target_.call_async([this, before] {
      const Clock::time_point after = Clock::now();
      bool ended = false;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        times_.push_back(Micros(after - before));
        last_ = std::max(last_, after);
        if (after >= end_) ended = --left_ == 0;
      }
      if (after < end_) return Next();
      if (ended) done_.Notify();
    });
  }

  const Target& target_;
  int left_;
  Clock::time_point start_, end_, last_;
  std::mutex mutex_;
  std::vector<double> times_;
  absl::Notification done_;
};

// --- The peer: no library of ours, bytes made once.

class BareClient {
 public:
  explicit BareClient(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    channel_ = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
    stub_ = std::make_unique<grpc::GenericStub>(channel_);
  }

  Target Calls(const std::string& message) {
    const grpc::Slice slice(message);
    auto request = std::make_shared<grpc::ByteBuffer>(&slice, 1);
    return {[this, request] { Call(*request); },
            [this, request](std::function<void()> done) { CallAsync(*request, std::move(done)); }};
  }

 private:
  static constexpr char kMethod[] = "/formwork.v1.GraphService/Call";

  void Call(const grpc::ByteBuffer& request) {
    grpc::ClientContext context;
    grpc::ByteBuffer response;
    const grpc::internal::RpcMethod method(kMethod, grpc::internal::RpcMethod::NORMAL_RPC);
    const grpc::Status status =
        grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
            channel_.get(), method, &context, request, &response);
    if (!status.ok()) Fail("echo: " + status.error_message());
  }

  void CallAsync(const grpc::ByteBuffer& request, std::function<void()> done) {
    struct Exchange {
      grpc::ClientContext context;
      grpc::ByteBuffer response;
      std::function<void()> done;
    };
    auto* exchange = new Exchange;
    exchange->done = std::move(done);
    stub_->UnaryCall(&exchange->context, kMethod, grpc::StubOptions(), &request,
                     &exchange->response, [exchange](grpc::Status status) {
                       const std::unique_ptr<Exchange> owned(exchange);
                       if (!status.ok()) Fail("echo: " + status.error_message());
                       owned->done();
                     });
  }

  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<grpc::GenericStub> stub_;
};

// --- Ours.

Target OurCalls(Client& client, const CallRequest& request) {
  return {[&client, &request] {
            const auto response = client.Call(request);
            if (!response.ok()) Fail(response.status().ToString());
          },
          [&client, &request](std::function<void()> done) {
            client.CallAsync(request, [done = std::move(done)](const auto& response) {
              if (!response.ok()) Fail(response.status().ToString());
              done();
            });
          }};
}

tf::NodeDef* AddNode(tf::GraphDef* graph, const char* name, const char* op,
                     std::vector<std::string> inputs) {
  tf::NodeDef* node = graph->add_node();
  node->set_name(name);
  node->set_op(op);
  for (const std::string& input : inputs) node->add_input(input);
  (*node->mutable_attr())[std::string(op) == "Placeholder" || std::string(op) == "Const" ? "dtype"
                                                                                         : "T"]
      .set_type(tf::DT_FLOAT);
  return node;
}

// y = x, or y = x + 1 where `add`.
uint64_t Register(Client& client, const std::string& name, bool add) {
  tf::GraphDef graph;
  AddNode(&graph, "x", "Placeholder", {});
  if (add) {
    tf::NodeDef* one = AddNode(&graph, "one", "Const", {});
    tf::TensorProto* value = (*one->mutable_attr())["value"].mutable_tensor();
    value->set_dtype(tf::DT_FLOAT);
    value->mutable_tensor_shape();
    value->add_float_val(1);
    AddNode(&graph, "y", "AddV2", {"x", "one"});
  } else {
    AddNode(&graph, "y", "Identity", {"x"});
  }
  formwork::v1::RegisterRequest request;
  request.set_name(name);
  request.set_graph_def(graph.SerializeAsString());
  request.set_replace(true);
  formwork::v1::TensorSpec* input = request.add_inputs();
  input->set_name("x:0");
  input->set_dtype(tf::DT_FLOAT);
  input->mutable_shape()->add_dims(-1);
  request.add_outputs("y:0");
  const auto registered = client.Register(request);
  if (!registered.ok()) Fail(registered.status().ToString());
  return registered->function().id();
}

void Print(const std::string& name, const char* unit, std::vector<double> ours,
           std::vector<double> peer) {
  const double our_median = Median(std::move(ours));
  const double peer_median = Median(std::move(peer));
  std::printf(
      "{\"name\": \"%s\", \"unit\": \"%s\", \"ours\": %.4g, \"peer\": %.4g, "
      "\"peer_name\": \"gRPC C++ echo\", \"ratio\": %.3f}\n",
      name.c_str(), unit, our_median, peer_median, our_median / peer_median);
  std::fflush(stdout);
}

Sample Measure(const Target& target, int in_flight) {
  if (in_flight == 1) return MeasureOneByOne(target);
  return Load(target, in_flight).Result();
}

void Compare(const std::string& name, const Target& ours, const Target& peer, int in_flight,
             int rounds) {
  std::vector<double> our_p50, peer_p50, our_rate, peer_rate;
  for (int round = 0; round <= rounds; ++round) {
    const Sample of_ours = Measure(ours, in_flight);
    const Sample of_peer = Measure(peer, in_flight);
    if (round == 0) continue;  // Warms up.
    our_p50.push_back(of_ours.p50_us);
    peer_p50.push_back(of_peer.p50_us);
    our_rate.push_back(of_ours.us_per_call);
    peer_rate.push_back(of_peer.us_per_call);
  }
  const std::string suffix = in_flight == 1 ? "" : "_" + std::to_string(in_flight) + "_in_flight";
  Print(name + suffix, "us (p50)", our_p50, peer_p50);
  if (in_flight > 1) Print(name + suffix + "_rate", "us per call", our_rate, peer_rate);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) Fail("usage: grpc_bench SERVER ECHO [ROUNDS [tiny|large]]");
  const int rounds = argc > 3 ? std::max(1, std::atoi(argv[3])) : 5;
  const std::string only = argc > 4 ? argv[4] : "";
  auto client = Client::Connect(argv[1]);
  if (!client.ok()) Fail(client.status().ToString());
  BareClient bare(argv[2]);

  CallRequest tiny;
  tiny.function_id = Register(**client, "bench_tiny", true);
  tiny.inputs.push_back(Tensor::Of<float>({1}, {1.0f}));
  // As many bytes as the real request and response have, about.
  const Target tiny_echo = bare.Calls(std::string(32, 'x'));
  for (const int in_flight : {1, 8, 64}) {
    if (only == "large") break;
    Compare("tiny_call_grpc", OurCalls(**client, tiny), tiny_echo, in_flight, rounds);
  }

  if (only == "tiny") return 0;
  CallRequest large;
  large.function_id = Register(**client, "bench_identity", false);
  large.inputs.push_back(Tensor::Of<float>({static_cast<int64_t>(kLargeBytes / sizeof(float))},
                                           std::vector<float>(kLargeBytes / sizeof(float), 1.0f)));
  const Target large_echo = bare.Calls(std::string(kLargeBytes, 'x'));
  Compare("large_call_grpc", OurCalls(**client, large), large_echo, 1, rounds);
  return 0;
}
