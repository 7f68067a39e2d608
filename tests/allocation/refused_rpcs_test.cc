// What the service does with an RPC where one allocation, or each from one on, is refused: it is
// answered once, and nothing of it stays. gRPC's side is played here, for gRPC itself is not made
// for an operator new that refuses.

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "core/base/memory_budget.h"
#include "formwork/v1/graph_service.pb.h"
#include "server/call_in_parts.h"
#include "server/call_stream.h"
#include "server/unary_call.h"
#include "server/unary_request.h"
#include "tests/allocation/refusing.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::server {
namespace {

using grpc::ByteBuffer;
using testing::Refusing;

constexpr int64_t kMostAllocations = 100'000;
constexpr size_t kMostAnswers = 64;

ByteBuffer Message(const v1::CallRequest& request) {
  const grpc::Slice slice(request.SerializeAsString());
  return ByteBuffer(&slice, 1);
}

v1::CallResponse ResponseOf(const ByteBuffer& message) {
  grpc::Slice slice;
  EXPECT_TRUE(message.DumpToSingleSlice(&slice).ok());
  v1::CallResponse response;
  EXPECT_TRUE(response.ParseFromArray(slice.begin(), static_cast<int>(slice.size())));
  return response;
}

// One RPC as gRPC keeps it: what its reactor has asked for, which is done, one thing at a time, on
// the thread that calls Serve. Takes no memory meanwhile.
class Rpc {
 public:
  Rpc() { answers.reserve(kMostAnswers); }

  void Read(ByteBuffer* to) {
    absl::MutexLock lock(&mutex_);
    read_ = to;
  }
  void Write(const ByteBuffer* message) {
    absl::MutexLock lock(&mutex_);
    write_ = message;
  }
  void Finish(grpc::Status with) {
    absl::MutexLock lock(&mutex_);
    ++finished;
    status = std::move(with);
  }

  // Until the reactor has finished; false where it does not.
  template <typename Reactor>
  bool Serve(Reactor* reactor) {
    while (true) {
      ByteBuffer* read;
      const ByteBuffer* write;
      {
        absl::MutexLock lock(&mutex_);
        if (!mutex_.AwaitWithTimeout(absl::Condition(this, &Rpc::IsAsked), absl::Seconds(30))) {
          return false;
        }
        read = std::exchange(read_, nullptr);
        write = std::exchange(write_, nullptr);
      }
      if constexpr (requires { reactor->OnReadDone(true); }) {
        if (read != nullptr) {
          const bool more = !requests.empty();
          if (more) {
            read->Swap(&requests.front());
            requests.pop_front();
          }
          reactor->OnReadDone(more);
        }
      }
      if constexpr (requires { reactor->OnWriteDone(true); }) {
        if (write != nullptr) {
          if (answers.size() < kMostAnswers) answers.push_back(*write);
          reactor->OnWriteDone(true);
        }
      }
      if (read != nullptr || write != nullptr) continue;
      reactor->OnDone();
      return true;
    }
  }

  std::deque<ByteBuffer> requests;  // That are read.
  std::vector<ByteBuffer> answers;  // That have been written.
  grpc::Status status;
  int finished = 0;

 private:
  bool IsAsked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return read_ != nullptr || write_ != nullptr || finished > 0;
  }

  absl::Mutex mutex_;
  ByteBuffer* read_ ABSL_GUARDED_BY(mutex_) = nullptr;
  const ByteBuffer* write_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

// What gRPC's reactors are bound to, for each kind of method.
template <typename Base>
class Bound : public Base {
 public:
  explicit Bound(Rpc& rpc) : rpc_(rpc) {}
  template <typename Reactor>
  void Bind(Reactor* reactor) {
    this->BindReactor(reactor);
  }
  void Finish(grpc::Status status) override { rpc_.Finish(std::move(status)); }
  void SendInitialMetadata() override {}

 protected:
  Rpc& rpc_;

 private:
  grpc::internal::ServerReactor* reactor() override { return nullptr; }
  void CallOnDone() override {}
};
using BoundUnary = Bound<grpc::ServerCallbackUnary>;

template <typename Base>
class BoundWriting : public Bound<Base> {
 public:
  using Bound<Base>::Bound;
  void Write(const ByteBuffer* message, grpc::WriteOptions) override { this->rpc_.Write(message); }
  void WriteAndFinish(const ByteBuffer*, grpc::WriteOptions, grpc::Status) override {
    ADD_FAILURE() << "not used by the service";
  }
};
using BoundWriter = BoundWriting<grpc::ServerCallbackWriter<ByteBuffer>>;

class BoundStream : public BoundWriting<grpc::ServerCallbackReaderWriter<ByteBuffer, ByteBuffer>> {
 public:
  using BoundWriting::BoundWriting;
  void Read(ByteBuffer* to) override { rpc_.Read(to); }
};

class RefusedRpcsTest : public testing::EngineTest, public ::testing::WithParamInterface<int64_t> {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    absl::StatusOr<Registered> echo = Register(
        "echo", "x = Placeholder dtype=float\ny = Identity(x) T=float", {Spec("x:0")}, {"y:0"});
    ASSERT_OK(echo);
    echo_ = echo->function.id;
    absl::StatusOr<Registered> strings = Register(
        "strings", "n = Placeholder dtype=int32\ns = Const string[] \"a\"\ny = Fill(n, s) T=string",
        {Spec("n:0", DType::kInt32)}, {"y:0"});
    ASSERT_OK(strings);
    strings_ = strings->function.id;
    scope_ = std::make_unique<RequestScope>(RequestScope{*engine_, metrics_, transfers_,
                                                         inline_turns_, connections_,
                                                         size_t{64} << 20, options_, absl::Now()});
    open_ = std::make_unique<OpenStreams>(absl::InfiniteDuration(), engine_->memory());
  }

  // A small call, one whose request is read on a thread of the pool, one whose answer is written
  // there, one that fails.
  std::vector<v1::CallRequest> Calls() const {
    std::vector<v1::CallRequest> calls(4);
    const auto fill = [](v1::CallRequest& call, uint64_t function, DType dtype, int64_t elements,
                         std::string content) {
      call.set_namespace_("ns");
      call.set_function_id(function);
      v1::Tensor* input = call.add_inputs()->mutable_tensor();
      input->set_dtype(static_cast<tf::DataType>(dtype));
      input->add_dims(elements);
      input->set_content(std::move(content));
    };
    fill(calls[0], echo_, DType::kFloat, 1, std::string(4, '\0'));
    fill(calls[1], echo_, DType::kFloat, 1 << 18, std::string(4 << 18, '\0'));
    fill(calls[2], strings_, DType::kInt32, 1, std::string("\x20\x4e\0\0", 4));
    fill(calls[3], echo_ + strings_, DType::kFloat, 1, std::string(4, '\0'));
    for (size_t i = 0; i < calls.size(); ++i) calls[i].set_call_id(i + 1);
    calls[0].set_timeline(true);
    return calls;
  }

  // Prepares an RPC and attempts it with the first allocation refused, then with the second, ...,
  // until there are no more; `check` looks at it after each.
  template <typename Attempt, typename Check>
  void ForEachAllocation(const std::vector<v1::CallRequest>& requests, Attempt attempt,
                         Check check) {
    for (int64_t first = 1; first < kMostAllocations; ++first) {
      SCOPED_TRACE(absl::StrCat("allocation ", first));
      Rpc rpc;
      for (const v1::CallRequest& request : requests) rpc.requests.push_back(Message(request));
      grpc::CallbackServerContext context;
      const bool refused = attempt(first, rpc, context);
      EXPECT_LE(rpc.finished, 1);
      check(rpc);
      const EngineStats stats = engine_->Stats();
      EXPECT_EQ(stats.calls_queued, 0);
      EXPECT_EQ(stats.calls_running, 0);
      if (HasFailure() || !refused) return;
    }
    FAIL() << "no end of allocations";
  }

  // Begins it, binds what the handler gave, and serves it; true where an allocation was refused.
  // Who cannot begin throws, which gRPC answers.
  template <typename Binding, typename Begin>
  bool Serve(int64_t first, Rpc& rpc, Begin begin) {
    Binding bound(rpc);
    const Refusing refusing(first, GetParam());
    decltype(begin()) reactor = nullptr;
    const absl::Status begun = CatchOutOfMemory([&] {
      reactor = begin();
      return absl::OkStatus();
    });
    if (begun.ok()) {
      bound.Bind(reactor);
      EXPECT_TRUE(rpc.Serve(reactor)) << "it does not end";
      EXPECT_EQ(rpc.finished, 1);
    } else {
      rpc.status = grpc::Status(grpc::StatusCode::UNKNOWN, "");
    }
    return refusing.refused();
  }
  // The threads of the pool may hold it for a moment yet.
  template <typename Stream>
  static void ExpectGone(const std::weak_ptr<Stream>& stream) {
    for (int i = 0; i < 30'000 && !stream.expired(); ++i) absl::SleepFor(absl::Milliseconds(1));
    EXPECT_TRUE(stream.expired());
  }
  static void ExpectMemoryError(const grpc::Status& status) {
    EXPECT_TRUE(status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ||
                status.error_code() == grpc::StatusCode::UNKNOWN)
        << status.error_code() << " " << status.error_message();
  }

  uint64_t echo_ = 0;
  uint64_t strings_ = 0;
  const ServerOptions options_ = {};
  Metrics metrics_{{.engine = [] { return EngineStats(); },
                    .connections = [] { return ConnectionListener::Stats(); }}};
  TaskPool transfers_{2, 16};
  InlineTurns inline_turns_{false};
  ConnectionListener connections_{1};
  std::unique_ptr<RequestScope> scope_;
  std::unique_ptr<OpenStreams> open_;
};

INSTANTIATE_TEST_SUITE_P(, RefusedRpcsTest, ::testing::Values(1, kMostAllocations),
                         [](const auto& info) { return info.param == 1 ? "One" : "AllFromOneOn"; });

TEST_P(RefusedRpcsTest, ACallIsAnsweredOnce) {
  const std::vector<v1::CallRequest> calls = Calls();
  for (size_t i = 0; i < 3; ++i) {
    int answered = 0;
    ForEachAllocation(
        {calls[i]},
        [&](int64_t first, Rpc& rpc, grpc::CallbackServerContext& context) {
          ByteBuffer response;
          std::weak_ptr<UnaryRequest> held;
          const bool refused = Serve<BoundUnary>(first, rpc, [&] {
            return UnaryRequest::Start(*scope_, nullptr, &context, &rpc.requests.front(), &response,
                                       &transfers_, [&](const auto& unary) {
                                         held = unary;
                                         RunUnaryCall(*scope_, unary);
                                       });
          });
          ExpectGone(held);
          if (rpc.status.ok()) {
            ++answered;
            EXPECT_EQ(ResponseOf(response).outputs_size(), 1);
          }
          return refused;
        },
        [&](Rpc& rpc) {
          if (!rpc.status.ok()) ExpectMemoryError(rpc.status);
        });
    EXPECT_GT(answered, 0);
  }
}

TEST_P(RefusedRpcsTest, ACallInPartsIsAnsweredOnce) {
  const std::vector<v1::CallRequest> calls = Calls();
  for (size_t i = 0; i < 3; ++i) {
    int answered = 0;
    ForEachAllocation(
        {calls[i]},
        [&](int64_t first, Rpc& rpc, grpc::CallbackServerContext& context) {
          auto stream =
              std::make_shared<CallInParts>(*scope_, *open_, context, rpc.requests.front());
          const bool refused = Serve<BoundWriter>(first, rpc, [&] {
            stream->Start();
            return stream.get();
          });
          const std::weak_ptr<CallInParts> held = std::exchange(stream, nullptr);
          ExpectGone(held);
          return refused;
        },
        [&](Rpc& rpc) {
          if (!rpc.status.ok()) return ExpectMemoryError(rpc.status);
          ++answered;
          ASSERT_FALSE(rpc.answers.empty());
          EXPECT_FALSE(ResponseOf(rpc.answers.back()).more());
        });
    EXPECT_GT(answered, 0);
  }
}

TEST_P(RefusedRpcsTest, AStreamAnswersEachCallOnceOrEnds) {
  int whole = 0;
  ForEachAllocation(
      Calls(),
      [&](int64_t first, Rpc& rpc, grpc::CallbackServerContext& context) {
        auto stream = std::make_shared<CallStream>(*scope_, *open_, context);
        const bool refused = Serve<BoundStream>(first, rpc, [&] {
          stream->Start();
          return stream.get();
        });
        const std::weak_ptr<CallStream> held = std::exchange(stream, nullptr);
        ExpectGone(held);
        return refused;
      },
      [&](Rpc& rpc) {
        if (!rpc.status.ok()) return ExpectMemoryError(rpc.status);
        ++whole;
        ASSERT_EQ(rpc.answers.size(), 4u);
        for (size_t i = 0; i < 4; ++i) {
          const v1::CallResponse response = ResponseOf(rpc.answers[i]);
          EXPECT_EQ(response.call_id(), i + 1);
          const int code = response.error().code();
          if (code == 0) {
            EXPECT_EQ(response.outputs_size(), 1);
          } else {
            EXPECT_TRUE(code == grpc::StatusCode::RESOURCE_EXHAUSTED ||
                        (i == 3 && code == grpc::StatusCode::NOT_FOUND))
                << code;
          }
        }
      });
  EXPECT_GT(whole, 0);
}

}  // namespace
}  // namespace formwork::server
