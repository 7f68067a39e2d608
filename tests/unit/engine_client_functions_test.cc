// Calls that ask their client to run a function of its own, and wait without a thread.

#include <deque>
#include <string>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

// Answers when the test says so.
class AskedClient final : public ClientFunctions {
 public:
  absl::StatusOr<std::shared_ptr<ClientAnswer>> Ask(absl::string_view token,
                                                    absl::Span<const Tensor> inputs) override {
    absl::MutexLock lock(&mutex_);
    if (!refusal.ok()) return refusal;
    auto answer = std::make_shared<ClientAnswer>(token);
    asked_.push_back({std::string(token), {inputs.begin(), inputs.end()}, answer});
    return answer;
  }

  struct Question {
    std::string token;
    std::vector<Tensor> inputs;
    std::weak_ptr<ClientAnswer> answer;
  };
  Question Next() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](std::deque<Question>* asked) { return !asked->empty(); }, &asked_));
    Question next = std::move(asked_.front());
    asked_.pop_front();
    return next;
  }
  // False where nobody waits for the answer any more.
  bool Answer(ClientAnswer::Results results) { return Answer(Next(), std::move(results)); }
  static bool Answer(const Question& question, ClientAnswer::Results results) {
    const std::shared_ptr<ClientAnswer> answer = question.answer.lock();
    if (answer != nullptr) answer->Give(std::move(results));
    return answer != nullptr;
  }

  absl::Status refusal;

 private:
  absl::Mutex mutex_;
  std::deque<Question> asked_ ABSL_GUARDED_BY(mutex_);
};

class ClientFunctionsTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineOptions options;
    options.call_threads = 1;
    Start(options);
    NewVariable("v", 1);
  }
  // Adds 1 to v, asks, and stores the answer.
  uint64_t RegisterStores() {
    const auto made =
        Register("stores",
                 "v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
                 "one = Const float[] 1\n"
                 "a = AssignAddVariableOp(v, one) dtype=float\n"
                 "p = EagerPyFunc(x, ^a) token=\"pyfunc_0\" Tin=[float] Tout=[float]\n"
                 "b = AssignVariableOp(v, p) dtype=float\n",
                 {Spec("x:0")}, {"p:0"}, {{"v:0", "v"}}, {"b"});
    EXPECT_OK(made);
    return made.ok() ? made->function.id : 0;
  }
  uint64_t RegisterAsks(const std::string& op = "PyFuncStateless") {
    const auto made = Register(absl::StrCat("asks", op),
                               absl::StrCat("x = Placeholder dtype=float\np = ", op,
                                            "(x) token=\"pyfunc_0\" Tin=[float] Tout=[float]\n"),
                               {Spec("x:0")}, {"p:0"});
    EXPECT_OK(made);
    return made.ok() ? made->function.id : 0;
  }
  std::unique_ptr<Pending> Ask(uint64_t id, float x = 0,
                               absl::Time deadline = absl::InfiniteFuture()) {
    CallSpec spec;
    spec.name_space = "ns";
    spec.function.id = id;
    spec.inputs.resize(1);
    spec.inputs[0].tensor = Tensor::Scalar(x);
    spec.client_functions = client_;
    spec.deadline = deadline;
    return Begin(std::move(spec));
  }
  static ClientAnswer::Results One(float value) { return Owned(Tensor::Scalar(value)); }

  const std::shared_ptr<AskedClient> client_ = std::make_shared<AskedClient>();
};

TEST_F(ClientFunctionsTest, ACallGoesOnWithWhatItsClientAnswers) {
  for (const char* op : {"PyFunc", "PyFuncStateless", "EagerPyFunc"}) {
    auto call = Ask(RegisterAsks(op), 5);
    const AskedClient::Question question = client_->Next();
    EXPECT_EQ(question.token, "pyfunc_0");
    ASSERT_EQ(question.inputs.size(), 1u);
    EXPECT_EQ(question.inputs[0].scalar<float>(), 5);
    EXPECT_TRUE(AskedClient::Answer(question, One(7)));
    EXPECT_OK(call->Wait().status);
    EXPECT_EQ(call->result.outputs[0].tensor.scalar<float>(), 7);
  }
}

TEST_F(ClientFunctionsTest, CallsThatWaitHaveNoThread) {
  const uint64_t id = RegisterAsks();
  constexpr int kCalls = 200;  // Of one thread.
  std::vector<std::unique_ptr<Pending>> calls;
  for (int i = 0; i < kCalls; ++i) calls.push_back(Ask(id, static_cast<float>(i)));
  std::vector<AskedClient::Question> questions;
  for (int i = 0; i < kCalls; ++i) questions.push_back(client_->Next());
  ASSERT_OK_AND_ASSIGN(Registered add, RegisterAdd("add", 1));
  EXPECT_EQ(Value(add.function.id, 1), 2);  // Others run meanwhile.
  for (auto question = questions.rbegin(); question != questions.rend(); ++question) {
    AskedClient::Answer(*question, One(2 * question->inputs[0].scalar<float>()));
  }
  for (int i = 0; i < kCalls; ++i) {
    EXPECT_OK(calls[i]->Wait().status);
    EXPECT_EQ(calls[i]->result.outputs[0].tensor.scalar<float>(), 2 * i);
  }
  EXPECT_EQ(engine_->Stats().calls_queued, 0);
}

TEST_F(ClientFunctionsTest, EveryIterationOfALoopAsks) {
  ASSERT_OK_AND_ASSIGN(Registered loop, Register("loop", R"(
      x = Placeholder dtype=float
      w = While(x) cond=@cond body=@body T=[float]
      function cond(v: float) -> (go: bool = l:z:0)
        three = Const float[] 3
        l = Less(v, three:output:0) T=float
      end
      function body(v: float) -> (w: float = p:output:0)
        p = EagerPyFunc(v) token="next" Tin=[float] Tout=[float]
      end)",
                                                 {Spec("x:0")}, {"w:0"}));
  auto call = Ask(loop.function.id, 0);
  for (int i = 0; i < 3; ++i) {
    const AskedClient::Question question = client_->Next();
    EXPECT_EQ(question.inputs[0].scalar<float>(), i);
    AskedClient::Answer(question, One(static_cast<float>(i + 1)));
  }
  EXPECT_OK(call->Wait().status);
  EXPECT_EQ(call->result.outputs[0].tensor.scalar<float>(), 3);
}

TEST_F(ClientFunctionsTest, ItsVariablesAreHeldMeanwhile) {
  auto call = Ask(RegisterStores(), 5);
  const AskedClient::Question question = client_->Next();
  auto read = BeginRead({{0, "v"}});
  EXPECT_FALSE(read->done.HasBeenNotified());
  AskedClient::Answer(question, One(9));
  EXPECT_OK(call->Wait().status);
  EXPECT_EQ(read->Wait().values[0].value.scalar<float>(), 9);
}

TEST_F(ClientFunctionsTest, AnErrorOfTheFunctionIsTheCalls) {
  auto call = Ask(RegisterStores());
  client_->Answer(absl::InvalidArgumentError("ValueError: no"));
  EXPECT_THAT(call->Wait().status,
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("node 'p': ValueError: no")));
  EXPECT_EQ(call->result.details.effects, Effects::kSome);
  EXPECT_EQ(ValueOf("v"), 2);
}

TEST_F(ClientFunctionsTest, WhatItAnswersIsHeldAgainstTheNode) {
  const uint64_t id = RegisterAsks();
  auto call = Ask(id);
  client_->Answer(Owned(Tensor::Scalar(1.0f), Tensor::Scalar(1.0f)));
  EXPECT_THAT(call->Wait().status,
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("pyfunc_0 returns 2 values, but expects to see 1 values.")));
  call = Ask(id);
  client_->Answer(Owned(Tensor::Scalar(1.0)));
  EXPECT_THAT(call->Wait().status,
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("0-th value returned by pyfunc_0 is double, but expects float")));
}

TEST_F(ClientFunctionsTest, AClientThatAnswersForNothingIsToldWhichFunctionItIs) {
  const CallResult result = Run(RegisterAsks(), Owned(Tensor::Scalar(1.0f)));
  EXPECT_THAT(result.status, StatusIs(StatusCode::kFailedPrecondition, HasSubstr("'pyfunc_0'")));
  client_->refusal = absl::CancelledError("gone");
  EXPECT_THAT(Ask(RegisterAsks())->Wait().status,
              StatusIs(StatusCode::kCancelled, HasSubstr("gone")));
}

TEST_F(ClientFunctionsTest, ACancellationEndsTheWait) {
  auto call = Ask(RegisterStores());
  const AskedClient::Question question = client_->Next();
  absl::SleepFor(absl::Milliseconds(20));  // It has left its thread.
  call->handle->Cancel();
  EXPECT_THAT(call->Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(call->result.details.effects, Effects::kSome);
  EXPECT_FALSE(AskedClient::Answer(question, One(1)));
  EXPECT_EQ(ValueOf("v"), 2);  // It is given back.
  EXPECT_EQ(engine_->Stats().calls_queued, 0);
}

TEST_F(ClientFunctionsTest, ADeadlineEndsTheWait) {
  auto call = Ask(RegisterStores(), 0, absl::Now() + absl::Milliseconds(50));
  EXPECT_THAT(call->Wait().status, StatusIs(StatusCode::kDeadlineExceeded));
  EXPECT_FALSE(client_->Answer(One(1)));
  EXPECT_EQ(ValueOf("v"), 2);
}

TEST_F(ClientFunctionsTest, AnswersAndCancellationsMeet) {
  const uint64_t id = RegisterAsks();
  for (int i = 0; i < 300; ++i) {
    auto call = Ask(id);
    const AskedClient::Question question = client_->Next();
    std::thread cancels([&] { call->handle->Cancel(); });
    AskedClient::Answer(question, One(1));
    cancels.join();
    const CallResult& result = call->Wait();
    if (!result.status.ok()) {
      EXPECT_THAT(result.status, StatusIs(StatusCode::kCancelled));
    }
  }
  EXPECT_EQ(engine_->Stats().calls_queued, 0);
}

TEST_F(ClientFunctionsTest, ADrainEndsTheWait) {
  auto call = Ask(RegisterAsks());
  client_->Next();
  engine_->Drain(absl::Now() + absl::Milliseconds(20), absl::Seconds(5));
  EXPECT_THAT(call->Wait().status, StatusIs(StatusCode::kAborted));
}

}  // namespace
}  // namespace formwork::testing
