// Requests that are sent again: done once, answered each time.

#include <thread>

#include "core/base/reason.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;

class EngineAnswersTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    Prepare();
  }
  // A function that adds x to the variable and gives the sum, and one that spins before it adds.
  void Prepare() {
    NewVariable("v", 0);
    add_ = Made("add", "a = AssignAddVariableOp(v, x) dtype=float\n");
    spin_ = Made("spin", absl::StrCat("loop = While(x) cond=@cond body=@body T=[float]\n"
                                      "a = AssignAddVariableOp(v, loop) dtype=float\n",
                                      kSpin));
  }
  uint64_t Made(const std::string& name, absl::string_view steps) {
    const absl::StatusOr<Registered> made = Register(
        name,
        absl::StrCat("v = Placeholder dtype=resource\nx = Placeholder dtype=float\n", steps,
                     name == "add" ? "y = ReadVariableOp(v, ^a) dtype=float\n" : ""),
        {Spec("x:0")}, name == "add" ? std::vector<std::string>{"y:0"} : std::vector<std::string>{},
        {{"v:0", "v"}}, {"a"});
    EXPECT_OK(made);
    return made.ok() ? made->function.id : 0;
  }
  CallSpec Call(uint64_t function, float x, uint64_t sequence) {
    CallSpec spec;
    spec.name_space = "ns";
    spec.function.id = function;
    spec.inputs.resize(1);
    spec.inputs[0].tensor = Tensor::Scalar(x);
    spec.request = {"client", sequence, 0, absl::ZeroDuration()};
    return spec;
  }
  float Sum(CallSpec spec) {
    const auto pending = Begin(std::move(spec));
    EXPECT_OK(pending->Wait().status);
    return pending->result.outputs.empty() ? NAN
                                           : pending->result.outputs[0].tensor.scalar<float>();
  }

  uint64_t add_ = 0, spin_ = 0;
};

TEST_F(EngineAnswersTest, ACallThatIsSentAgainHasTheSameAnswer) {
  EXPECT_EQ(Sum(Call(add_, 1, 1)), 1);
  EXPECT_EQ(Sum(Call(add_, 1, 2)), 2);
  EXPECT_EQ(Sum(Call(add_, 1, 1)), 1);
  EXPECT_EQ(Sum(Call(add_, 1, 2)), 2);
  EXPECT_EQ(ValueOf("v"), 2);
  EXPECT_EQ(engine_->Stats().repeats_answered, 2u);
  EXPECT_EQ(engine_->Stats().answers, 2);
  CallSpec next = Call(add_, 1, 3);
  next.request.acknowledged = 2;
  Sum(std::move(next));
  EXPECT_EQ(engine_->Stats().answers, 1);
}

TEST_F(EngineAnswersTest, AlsoWhenItsFunctionHasGone) {
  EXPECT_EQ(Sum(Call(add_, 1, 1)), 1);
  ASSERT_OK(engine_->Unregister("ns", {add_, ""}));
  EXPECT_EQ(Sum(Call(add_, 1, 1)), 1);
}

TEST_F(EngineAnswersTest, AlsoWhenItsNamespaceWasCleared) {
  EXPECT_EQ(Sum(Call(add_, 1, 1)), 1);
  engine_->Clear("ns");
  NewVariable("v", 0);
  EXPECT_EQ(Sum(Call(add_, 1, 1)), 1);
  EXPECT_EQ(ValueOf("v"), 0);
  EXPECT_EQ(engine_->Stats().repeats_answered, 1u);
}

TEST_F(EngineAnswersTest, WithoutANameNothingIsRemembered) {
  CallSpec unnamed = Call(add_, 1, 1);
  unnamed.request.client.clear();
  Sum(std::move(unnamed));
  Sum(Call(add_, 1, 0));
  Sum(Call(add_, 1, 0));
  EXPECT_EQ(ValueOf("v"), 3);
  EXPECT_EQ(engine_->Stats().answers, 0);
}

TEST_F(EngineAnswersTest, WhatChangesNothingIsNotRemembered) {
  ASSERT_OK_AND_ASSIGN(Registered plus, RegisterAdd("plus", 1));
  EXPECT_EQ(Sum(Call(plus.function.id, 1, 1)), 2);
  EXPECT_EQ(Sum(Call(plus.function.id, 1, 1)), 2);
  EXPECT_EQ(engine_->Stats().answers, 0);
  // Unless it leaves something.
  CallSpec keeps = Call(plus.function.id, 1, 2);
  keeps.keep_outputs = true;
  CallSpec again = Call(plus.function.id, 1, 2);
  again.keep_outputs = true;
  const auto first = Begin(std::move(keeps)), second = Begin(std::move(again));
  EXPECT_EQ(first->Wait().outputs[0].kept_id, second->Wait().outputs[0].kept_id);
  EXPECT_EQ(engine_->Stats().kept_tensors, 1);
}

TEST_F(EngineAnswersTest, ANumberIsOfOneRequest) {
  Sum(Call(add_, 1, 1));
  EXPECT_THAT(Begin(Call(spin_, 1, 1))->Wait().status, StatusIs(StatusCode::kInvalidArgument));
  auto assign = std::make_unique<PendingAssign>();
  engine_
      ->AssignVariables({.name_space = "ns",
                         .values = {{{0, "v"}, Tensor::Scalar(9.0f)}},
                         .request = Call(add_, 1, 1).request},
                        assign->Done())
      ->Start();
  EXPECT_THAT(assign->Wait().status, StatusIs(StatusCode::kInvalidArgument));
  EXPECT_EQ(ValueOf("v"), 1);
}

TEST_F(EngineAnswersTest, ARepeatWaitsWhileTheFirstRuns) {
  // Held up by another call, which has the variable.
  const auto holder = Begin(Call(spin_, 0, 1));
  const auto first = Begin(Call(add_, 1, 2));
  AwaitQueued(1);
  const auto repeat = Begin(Call(add_, 1, 2)), cancelled = Begin(Call(add_, 1, 2));
  CallSpec late = Call(add_, 1, 2);
  late.deadline = absl::Now() + absl::Milliseconds(20);
  EXPECT_THAT(Begin(std::move(late))->Wait().status, StatusIs(StatusCode::kDeadlineExceeded));
  cancelled->handle->Cancel();
  EXPECT_THAT(cancelled->Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_FALSE(first->done.HasBeenNotified());
  AwaitQueued(2);
  holder->handle->Cancel();
  EXPECT_THAT(holder->Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_OK(first->Wait().status);
  EXPECT_OK(repeat->Wait().status);
  EXPECT_EQ(repeat->result.outputs[0].tensor.scalar<float>(), 1);
  EXPECT_EQ(ValueOf("v"), 1);
  EXPECT_EQ(engine_->Stats().calls_queued, 0);
}

TEST_F(EngineAnswersTest, WhenTheFirstIsCancelledBeforeItsEffectTheRepeatRuns) {
  const auto holder = Begin(Call(spin_, 0, 1));
  const auto first = Begin(Call(add_, 1, 2));
  AwaitQueued(1);
  const auto repeat = Begin(Call(add_, 1, 2)), another = Begin(Call(add_, 1, 2));
  AwaitQueued(3);
  first->handle->Cancel();
  EXPECT_THAT(first->Wait().status, StatusIs(StatusCode::kCancelled));
  holder->handle->Cancel();
  EXPECT_THAT(holder->Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_OK(repeat->Wait().status);
  EXPECT_OK(another->Wait().status);
  EXPECT_EQ(ValueOf("v"), 1);
  // And one that comes after it all had been cancelled.
  EXPECT_EQ(Sum(Call(add_, 1, 2)), 1);
  // The holder had no effect: it is done again.
  CallSpec again = Call(spin_, 0, 1);
  again.inputs[0].tensor = Tensor::Scalar(-1.0f);  // From below 0 it does not turn.
  EXPECT_OK(Begin(std::move(again))->Wait().status);
  EXPECT_EQ(ValueOf("v"), 0);
}

// Calls whose clients lose their connections while they run.
class DisconnectedTest : public EngineAnswersTest {
 protected:
  static constexpr absl::Duration kTtl = absl::Milliseconds(100);

  void SetUp() override {
    EngineOptions options;
    options.disconnected_ttl = kTtl;
    Start(options);
    Prepare();
  }
};

TEST_F(DisconnectedTest, OneWithoutANumberEndsAtOnce) {
  const auto call = Begin(Call(spin_, 0, 0));
  call->handle->Disconnected();
  EXPECT_THAT(call->Wait().status, StatusIs(StatusCode::kCancelled));
}

TEST_F(DisconnectedTest, OneThatNobodyAsksForEndsAfterAWhile) {
  const auto call = Begin(Call(spin_, 0, 1));
  const absl::Time lost = absl::Now();
  call->handle->Disconnected();
  EXPECT_THAT(call->Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_GE(absl::Now() - lost, kTtl);
}

TEST_F(DisconnectedTest, OneThatIsAskedForAgainGoesOn) {
  const auto call = Begin(Call(spin_, 0, 1));
  call->handle->Disconnected();
  const auto repeat = Begin(Call(spin_, 0, 1));
  EXPECT_FALSE(call->done.WaitForNotificationWithTimeout(4 * kTtl));
  // The second connection is lost, too, and nobody comes for a third time.
  repeat->handle->Disconnected();
  EXPECT_THAT(repeat->Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_THAT(call->Wait().status, StatusIs(StatusCode::kCancelled));
}

TEST_F(DisconnectedTest, AndIsAnsweredAsIfNothingHadHappened) {
  const auto holder = Begin(Call(spin_, 0, 1));
  const auto call = Begin(Call(add_, 1, 2));
  AwaitQueued(1);
  call->handle->Disconnected();
  const auto repeat = Begin(Call(add_, 1, 2));
  AwaitQueued(2);
  absl::SleepFor(2 * kTtl);
  holder->handle->Cancel();
  EXPECT_THAT(holder->Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_OK(call->Wait().status);
  EXPECT_OK(repeat->Wait().status);
  EXPECT_EQ(ValueOf("v"), 1);
}

TEST_F(DisconnectedTest, WhatItsClientCancelsEndsAtOnceAllTheSame) {
  const auto call = Begin(Call(spin_, 0, 1));
  call->handle->Disconnected();
  call->handle->Cancel();
  EXPECT_THAT(call->Wait().status, StatusIs(StatusCode::kCancelled));
}

TEST_F(EngineAnswersTest, AFailureAfterAnEffectIsRemembered) {
  const absl::StatusOr<Registered> made =
      Register("half",
               absl::StrCat("v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
                            "a = AssignAddVariableOp(v, x) dtype=float\n"
                            "loop = While(x, ^a) cond=@cond body=@body T=[float]\n"
                            "b = AssignAddVariableOp(v, loop, ^a) dtype=float\n",
                            kSpin),
               {Spec("x:0")}, {}, {{"v:0", "v"}}, {"a", "b"});
  ASSERT_OK(made);
  const auto first = Begin(Call(made->function.id, 1, 1));
  absl::SleepFor(absl::Milliseconds(50));
  first->handle->Cancel();
  EXPECT_THAT(first->Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(first->result.details.effects, Effects::kSome);
  const auto repeat = Begin(Call(made->function.id, 1, 1));
  EXPECT_THAT(repeat->Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(repeat->result.details.effects, Effects::kSome);
  EXPECT_EQ(ValueOf("v"), 1);
}

TEST_F(EngineAnswersTest, AnAnswerThatFellOutIsAnError) {
  EngineOptions options;
  options.max_answers = 2;
  Start(options);
  Prepare();
  for (uint64_t i = 1; i <= 4; ++i) Sum(Call(add_, 1, i));
  const auto gone = Begin(Call(add_, 1, 1));
  EXPECT_THAT(gone->Wait().status, StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_EQ(ReasonOf(gone->result.status), Reason::kAnswerForgotten);
  EXPECT_EQ(gone->result.details.effects, Effects::kUnknown);
  EXPECT_EQ(Sum(Call(add_, 1, 4)), 4);
  EXPECT_EQ(ValueOf("v"), 4);
  EXPECT_EQ(engine_->Stats().answer_evictions, 2u);
  EXPECT_EQ(engine_->Stats().repeats_forgotten, 1u);
}

TEST_F(EngineAnswersTest, WritesAndRegistrationsAreDoneOnce) {
  const auto assign = [&](float value, uint64_t sequence) {
    PendingAssign pending;
    engine_
        ->AssignVariables({.name_space = "ns",
                           .values = {{{0, "v"}, Tensor::Scalar(value)}},
                           .request = {"client", sequence, 0, absl::ZeroDuration()}},
                          pending.Done())
        ->Start();
    EXPECT_OK(pending.Wait().status);
    return pending.result.variables[0].version;
  };
  const uint64_t version = assign(5, 1);
  EXPECT_EQ(assign(6, 2), version + 1);
  EXPECT_EQ(assign(5, 1), version);
  EXPECT_EQ(ValueOf("v"), 6);
  Registration registration;
  registration.name_space = "ns";
  registration.name = "once";
  registration.graph_def =
      ParseGraph("x = Placeholder dtype=float\ny = Neg(x) T=float\n")->SerializeAsString();
  registration.inputs = {Spec("x:0")};
  registration.outputs = {"y:0"};
  registration.request = {"client", 3, 0, absl::ZeroDuration()};
  ASSERT_OK_AND_ASSIGN(const Registered made, Register(registration));
  ASSERT_OK_AND_ASSIGN(const Registered again, Register(registration));
  EXPECT_FALSE(made.existed);
  EXPECT_FALSE(again.existed);
  EXPECT_EQ(made.function.id, again.function.id);
}

TEST_F(EngineAnswersTest, ManyClientsThatRepeatAtRandomCountRight) {
  constexpr int kClients = 6, kCalls = 150;
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      uint32_t random = 12345 + c;
      for (uint64_t i = 1; i <= kCalls; ++i) {
        std::vector<std::unique_ptr<Pending>> attempts;
        while (true) {
          CallSpec spec = Call(add_, 1, i);
          spec.request.client = absl::StrCat("client ", c);
          spec.request.acknowledged = i - 1;
          attempts.push_back(Begin(std::move(spec)));
          random = random * 1664525 + 1013904223;
          if (random >> 31 != 0) attempts.back()->handle->Cancel();
          if (random >> 30 == 1) continue;  // Another at once.
          bool answered = false;
          for (const auto& attempt : attempts) answered |= attempt->Wait().status.ok();
          if (answered) break;
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(ValueOf("v"), kClients * kCalls);
  EXPECT_EQ(engine_->Stats().calls_queued, 0);
  EXPECT_LE(engine_->Stats().answers, kClients);
}

}  // namespace
}  // namespace formwork::testing
