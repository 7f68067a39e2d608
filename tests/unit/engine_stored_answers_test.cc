// Requests that are sent again after the engine's process has ended.

#include <set>
#include <thread>

#include "core/base/reason.h"
#include "core/storage/snapshot_store.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

class TextAnswer final : public MessageAnswer {
 public:
  explicit TextAnswer(std::string text) : text_(std::move(text)) {}
  size_t bytes() const override { return text_.size(); }
  std::string Text() const override { return text_; }

 private:
  const std::string text_;
};

class EngineStoredAnswersTest : public EngineTest {
 protected:
  void SetUp() override {
    Begin();
    NewVariable("v", 0);
    ASSERT_OK_AND_ASSIGN(
        const Registered made,
        Register("add",
                 "v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
                 "a = AssignAddVariableOp(v, x) dtype=float\ntext = Const string[] \"it adds\"\n"
                 "p = PrintV2(text, ^a)\ny = ReadVariableOp(v, ^p) dtype=float",
                 {Spec("x:0")}, {"y:0"}, {{"v:0", "v"}}, {"a", "p"}));
    add_ = made.function.id;
  }
  void TearDown() override { engine_.reset(); }
  using EngineTest::Begin;
  void Begin(Durability durability = Durability::kSync) {
    EngineOptions options;
    options.data_dir = folder_.path();
    options.durability = durability;
    options.max_answers = max_answers_;
    options.max_answer_bytes = max_answer_bytes_;
    Start(options);
  }
  void CrashAndBegin() {
    engine_.reset();
    Begin();
  }
  void EndInPeace() {
    engine_->Drain(absl::InfiniteFuture(), absl::ZeroDuration());
    EXPECT_OK(engine_->TakeLastSnapshot(absl::InfiniteFuture()));
    engine_.reset();
  }
  CallSpec Call(float x, uint64_t sequence, absl::Duration age = absl::Milliseconds(1),
                uint64_t acknowledged = 0) {
    CallSpec spec;
    spec.name_space = "ns";
    spec.function.id = add_;
    spec.inputs.resize(1);
    spec.inputs[0].tensor = Tensor::Scalar(x);
    spec.request = {"client", sequence, acknowledged, age};
    return spec;
  }
  CallResult Done(CallSpec spec) { return std::move(Begin(std::move(spec))->Wait()); }
  float Sum(CallSpec spec) {
    const CallResult result = Done(std::move(spec));
    EXPECT_OK(result.status);
    return result.outputs.size() == 1 ? result.outputs[0].tensor.scalar<float>() : NAN;
  }
  void AwaitDisk() {
    absl::Notification told;
    engine_->WhenDurable([&](const absl::Status& durable) {
      EXPECT_OK(durable);
      told.Notify();
    });
    told.WaitForNotification();
  }
  // Keys of stored answers.
  int64_t Stored() {
    engine_.reset();
    int64_t stored = 0;
    {
      auto store = *SnapshotStore::Open(folder_.path());
      EXPECT_OK(store->VisitLog(
          [&](const StoredKey&, const state::Logged& logged) { stored += logged.answer(); }));
    }
    Begin();
    return stored;
  }

  const TempFolder folder_;
  uint64_t add_ = 0;
  int64_t max_answers_ = 1024;
  size_t max_answer_bytes_ = size_t{64} << 20;
};

TEST_F(EngineStoredAnswersTest, ACallThatIsSentAgainAfterACrashHasTheSameAnswer) {
  EXPECT_EQ(Sum(Call(1, 1, absl::ZeroDuration())), 1);
  EXPECT_EQ(Sum(Call(2, 2, absl::ZeroDuration())), 3);
  for (int round = 0; round < 2; ++round) {
    CrashAndBegin();
    const CallResult first = Done(Call(1, 1));
    ASSERT_OK(first.status);
    EXPECT_EQ(first.outputs[0].tensor.scalar<float>(), 1);
    EXPECT_THAT(first.printed, ::testing::ElementsAre("it adds\n"));
    EXPECT_EQ(first.function_id, add_);
    EXPECT_EQ(first.function_name, "add");
    EXPECT_EQ(Sum(Call(2, 2)), 3);
    EXPECT_EQ(ValueOf("v"), 3);
    EXPECT_EQ(engine_->Stats().repeats_answered, 2u);
  }
  // The number is that request's still, and the client goes on.
  CallSpec other = Call(1, 1);
  other.inputs[0].tensor = Tensor::Scalar(1.0);
  EXPECT_THAT(Done(std::move(other)).status, StatusIs(StatusCode::kInvalidArgument));
  EXPECT_EQ(Sum(Call(4, 3, absl::ZeroDuration())), 7);
}

TEST_F(EngineStoredAnswersTest, WhatWasNotDoneIsDone) {
  EXPECT_EQ(Sum(Call(1, 1, absl::ZeroDuration())), 1);
  CrashAndBegin();
  EXPECT_EQ(Sum(Call(2, 2)), 3);
  EXPECT_EQ(Sum(Call(2, 2)), 3);
}

TEST_F(EngineStoredAnswersTest, AFailureAfterAnEffectIsRemembered) {
  ASSERT_OK_AND_ASSIGN(
      const Registered half,
      Register("half",
               "v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
               "a = AssignAddVariableOp(v, x) dtype=float\ni = Identity(x, ^a) T=float\n"
               "y = MatMul(i, i) T=float",
               {Spec("x:0")}, {"y:0"}, {{"v:0", "v"}}, {"a"}));
  add_ = half.function.id;
  for (int round = 0; round < 3; ++round) {
    const CallResult result =
        Done(Call(1, 1, round == 0 ? absl::ZeroDuration() : absl::Milliseconds(1)));
    EXPECT_THAT(result.status, StatusIs(StatusCode::kInvalidArgument, HasSubstr("node 'y'")));
    EXPECT_EQ(result.details.effects, Effects::kAll);
    EXPECT_EQ(ValueOf("v"), 1);
    CrashAndBegin();
  }
}

TEST_F(EngineStoredAnswersTest, WritesAndRegistrationsAndShortRequests) {
  const auto assign = [&](float value, absl::Duration age) {
    auto pending = std::make_unique<PendingAssign>();
    AssignSpec spec{"ns", {{{0, "v"}, Tensor::Scalar(value)}}};
    spec.request = {"client", 1, 0, age};
    engine_->AssignVariables(std::move(spec), pending->Done())->Start();
    return std::move(pending->Wait());
  };
  const auto registers = [&](absl::Duration age) {
    Registration registration;
    registration.name_space = "ns";
    registration.name = "one";
    registration.graph_def = ParseGraph("y = Const float[] 1")->SerializeAsString();
    registration.outputs = {"y:0"};
    registration.request = {"client", 2, 0, age};
    return Register(std::move(registration));
  };
  int runs = 0;
  const auto make = [&](absl::Duration age) {
    return engine_->AnswerOnce(
        "ns", {"client", 3, 0, age}, 7,
        [&](bool* done) -> absl::StatusOr<std::shared_ptr<const MessageAnswer>> {
          ++runs;
          FORMWORK_RETURN_IF_ERROR(
              engine_->CreateVariable("ns", "w", DType::kFloat, Shape({}), Tensor::Scalar(1.0f))
                  .status());
          *done = true;
          return std::make_shared<const TextAnswer>("made");
        });
  };
  ASSERT_OK(assign(5, absl::ZeroDuration()).status);
  ASSERT_OK_AND_ASSIGN(const Registered one, registers(absl::ZeroDuration()));
  EXPECT_FALSE(one.existed);
  ASSERT_OK(make(absl::ZeroDuration()));
  AwaitDisk();
  CrashAndBegin();
  ASSERT_OK(Assign({{{0, "v"}, Tensor::Scalar(6.0f)}}).status);
  const AssignResult assigned = assign(5, absl::Milliseconds(1));
  ASSERT_OK(assigned.status);
  ASSERT_EQ(assigned.variables.size(), 1u);
  EXPECT_EQ(assigned.variables[0].name, "v");
  EXPECT_EQ(assigned.variables[0].version, 2u);
  EXPECT_EQ(assigned.variables[0].type.ToString(), "float32[]");
  EXPECT_EQ(ValueOf("v"), 6);
  ASSERT_OK_AND_ASSIGN(const Registered again, registers(absl::Milliseconds(1)));
  EXPECT_EQ(again.function.id, one.function.id);
  EXPECT_FALSE(again.existed);
  ASSERT_OK_AND_ASSIGN(const auto made, make(absl::Milliseconds(1)));
  EXPECT_EQ(made->Text(), "made");
  EXPECT_EQ(runs, 1);
  // What it was about has gone: it is not done again either.
  ASSERT_OK(engine_->Unregister("ns", {one.function.id, ""}));
  AwaitDisk();
  CrashAndBegin();
  EXPECT_THAT(registers(absl::Milliseconds(1)), StatusIs(StatusCode::kFailedPrecondition));
}

TEST_F(EngineStoredAnswersTest, AShortRequestsChangesAndAnswerAreOnDiskAtOnce) {
  bool told = false;
  const auto made = engine_->AnswerOnce(
      "ns", {"client", 1, 0, absl::ZeroDuration()}, 7,
      [&](bool* done) -> absl::StatusOr<std::shared_ptr<const MessageAnswer>> {
        FORMWORK_RETURN_IF_ERROR(
            engine_->CreateVariable("ns", "w", DType::kFloat, Shape({}), Tensor::Scalar(1.0f))
                .status());
        absl::Notification durable;
        engine_->WhenDurable([&](const absl::Status&) { told = true; });
        absl::SleepFor(absl::Milliseconds(100));
        EXPECT_FALSE(told);
        *done = true;
        return std::make_shared<const TextAnswer>("made");
      });
  ASSERT_OK(made);
  AwaitDisk();
  EXPECT_TRUE(told);
}

TEST_F(EngineStoredAnswersTest, WhatIsForgottenGoesAndIsNotDoneAgain) {
  max_answers_ = 4;
  CrashAndBegin();
  for (int i = 1; i <= 20; ++i) Sum(Call(1, static_cast<uint64_t>(i), absl::ZeroDuration()));
  EXPECT_LE(Stored(), 5);
  const CallResult gone = Done(Call(1, 3));
  EXPECT_THAT(gone.status, StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_EQ(ReasonOf(gone.status), Reason::kAnswerForgotten);
  EXPECT_EQ(Sum(Call(1, 20)), 20);
  EXPECT_EQ(ValueOf("v"), 20);
  // What is acknowledged likewise, with the next request that is logged.
  EXPECT_EQ(Sum(Call(1, 21, absl::ZeroDuration(), 20)), 21);
  EXPECT_EQ(Sum(Call(1, 22, absl::ZeroDuration(), 21)), 22);
  EXPECT_LE(Stored(), 2);
  EXPECT_THAT(Done(Call(1, 20)).status, StatusIs(StatusCode::kFailedPrecondition));
}

TEST_F(EngineStoredAnswersTest, ALargeAnswerIsForgottenAndItsRequestNotDoneAgain) {
  max_answer_bytes_ = 2000;
  CrashAndBegin();
  EXPECT_EQ(Sum(Call(1, 1, absl::ZeroDuration())), 1);
  ASSERT_OK_AND_ASSIGN(
      const Registered wide,
      Register("wide",
               "v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
               "a = AssignAddVariableOp(v, x) dtype=float\nn = Const int32[1] 1000\n"
               "y = Fill(n, x, ^a) T=float",
               {Spec("x:0")}, {"y:0"}, {{"v:0", "v"}}, {"a"}));
  add_ = wide.function.id;
  ASSERT_OK(Done(Call(1, 2, absl::ZeroDuration())).status);
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(Done(Call(1, 2)).status, StatusIs(StatusCode::kFailedPrecondition));
    EXPECT_EQ(ValueOf("v"), 2);
    CrashAndBegin();
  }
}

TEST_F(EngineStoredAnswersTest, SnapshotsDoNotDisturbThem) {
  EXPECT_EQ(Sum(Call(1, 1, absl::ZeroDuration())), 1);
  absl::Notification taken;
  engine_->TakeSnapshot([&](const absl::StatusOr<SnapshotInfo>& made) {
    EXPECT_OK(made);
    taken.Notify();
  });
  taken.WaitForNotification();
  EXPECT_EQ(Sum(Call(1, 2, absl::ZeroDuration())), 2);
  CrashAndBegin();
  EXPECT_EQ(Sum(Call(1, 1)), 1);
  EXPECT_EQ(Sum(Call(1, 2)), 2);
  EXPECT_EQ(ValueOf("v"), 2);
}

TEST_F(EngineStoredAnswersTest, AnEndInPeaceKeepsThemWhateverTheDurability) {
  const uint64_t epoch = engine_->epoch();
  EXPECT_EQ(Sum(Call(1, 1, absl::ZeroDuration())), 1);
  float sum = 1;
  uint64_t sequence = 2;
  for (const Durability next : {Durability::kSnapshot, Durability::kSnapshot, Durability::kSync,
                                Durability::kSync, Durability::kSnapshot}) {
    EndInPeace();
    Begin(next);
    ASSERT_EQ(engine_->epoch(), epoch);
    EXPECT_EQ(Sum(Call(1, sequence, absl::ZeroDuration())), ++sum);
    for (uint64_t i = 1; i <= sequence; ++i) EXPECT_EQ(Sum(Call(1, i)), static_cast<float>(i));
    EXPECT_EQ(ValueOf("v"), sum);
    ++sequence;
  }
  // Another epoch: what was done is not known, and clients are told so by that.
  CrashAndBegin();
  EXPECT_NE(engine_->epoch(), epoch);
  EXPECT_EQ(engine_->Stats().answers, 0);
}

TEST_F(EngineStoredAnswersTest, ADamagedAnswerIsNamedAtTheStart) {
  EXPECT_EQ(Sum(Call(1, 1, absl::ZeroDuration())), 1);
  engine_.reset();
  {
    auto store = *SnapshotStore::Open(folder_.path());
    LoggedValue value;
    value.key = {StoredKey::Of::kLoggedAnswer, 0, 1000};
    value.logged.set_position(1000);
    value.logged.set_answer(true);
    value.parts.push_back(Tensor::StringScalar("\xff\xff no message"));
    ASSERT_OK(store->Log({&value, 1}, {}));
  }
  EngineOptions options;
  options.data_dir = folder_.path();
  options.durability = Durability::kSync;
  EXPECT_THAT(Engine::Create(options),
              StatusIs(StatusCode::kDataLoss, HasSubstr("an answer is damaged")));
  {
    auto store = *SnapshotStore::Open(folder_.path());
    const StoredKey key{StoredKey::Of::kLoggedAnswer, 0, 1000};
    ASSERT_OK(store->Log({}, {&key, 1}));
  }
  Begin();
  EXPECT_EQ(Sum(Call(1, 1)), 1);
}

// Each of many clients counts; of each call it is asked twice, side by side.
TEST_F(EngineStoredAnswersTest, ClientsThatAskTwiceAcrossCrashesCountRight) {
  constexpr int kClients = 4, kCalls = 25, kLives = 4;
  uint64_t sequence = 0;
  for (int life = 0; life < kLives; ++life) {
    std::vector<std::thread> threads;
    for (int k = 0; k < kClients; ++k) {
      threads.emplace_back([&, k] {
        for (int i = 0; i < kCalls; ++i) {
          const auto spec = [&, k, i] {
            CallSpec call = Call(1, sequence + static_cast<uint64_t>(i) + 1);
            call.request.client = absl::StrCat("client", k);
            return call;
          };
          const auto one = Begin(spec()), two = Begin(spec());
          EXPECT_OK(one->Wait().status);
          EXPECT_OK(two->Wait().status);
          EXPECT_EQ(one->result.outputs[0].tensor.scalar<float>(),
                    two->result.outputs[0].tensor.scalar<float>());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    sequence += kCalls;
    CrashAndBegin();
    EXPECT_EQ(ValueOf("v"), static_cast<float>(kClients * kCalls * (life + 1)));
  }
}

}  // namespace
}  // namespace formwork::testing
