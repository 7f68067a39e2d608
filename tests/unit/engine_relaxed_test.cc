// Relaxed calls: forward and backward on a snapshot, small writes on the way, one apply region.

#include <deque>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Answers the functions that a call asks for when the test says so.
class HeldClient final : public ClientFunctions {
 public:
  absl::StatusOr<std::shared_ptr<ClientAnswer>> Ask(absl::string_view token,
                                                    absl::Span<const Tensor>) override {
    absl::MutexLock lock(&mutex_);
    auto answer = std::make_shared<ClientAnswer>(token);
    asked_.push_back(answer);
    return answer;
  }
  // Until so many have asked and have no answer.
  void AwaitAsked(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto there = [&] {
      mutex_.AssertHeld();
      return asked_.size() == count;
    };
    mutex_.Await(absl::Condition(&there));
  }
  void AnswerNext() {
    std::shared_ptr<ClientAnswer> answer;
    {
      absl::MutexLock lock(&mutex_);
      answer = std::move(asked_.front());
      asked_.pop_front();
    }
    answer->Give(Owned(Tensor::Scalar(0.0f)));
  }

 private:
  absl::Mutex mutex_;
  std::deque<std::shared_ptr<ClientAnswer>> asked_ ABSL_GUARDED_BY(mutex_);
};

constexpr int64_t kSize = 16;

// A step of training in small. Forward: a seed that is counted on, a mean that moves on; products
// with the weights. Then an optimizer with a slot and a count of its steps: after k of them,
// whoever did them, the slot is k, the count is k, and the weights are -k(k+1)/2.
constexpr absl::string_view kStep = R"(
  w = Placeholder dtype=resource
  m = Placeholder dtype=resource
  n = Placeholder dtype=resource
  seed = Placeholder dtype=resource
  mean = Placeholder dtype=resource
  x = Placeholder dtype=float
  one = Const float[] 1
  zero = Const float[] 0
  size = Const int32[2] 16 16
  s = ReadVariableOp(seed) dtype=float
  s1 = AddV2(s, one) T=float
  counted = AssignVariableOp(seed, s1, ^s) dtype=float
  in = Fill(size, s) T=float
  wv = ReadVariableOp(w) dtype=float
  y = MatMul(wv, in) T=float
  mv = ReadVariableOp(mean) dtype=float
  moved = AddV2(mv, x) T=float
  moves = AssignVariableOp(mean, moved, ^mv) dtype=float
  %s
  d = MatMul(y, in) T=float transpose_b=true
  none = Mul(d, zero) T=float
  slot = ReadVariableOp(m) dtype=float
  more = AddV2(none, one) T=float
  slot1 = AddV2(slot, more) T=float
  a = AssignVariableOp(m, slot1, ^slot) dtype=float
  b = AssignSubVariableOp(w, slot1, ^a) dtype=float
  c = AssignAddVariableOp(n, one, ^b) dtype=float
)";
constexpr absl::string_view kAsks =
    "asked = EagerPyFunc(x) token=\"pyfunc_0\" Tin=[float] Tout=[float]\n";

class RelaxedCallTest : public EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    MakeVariables();
  }
  void MakeVariables() {
    for (const char* matrix : {"w", "m"}) {
      Tensor value = *Tensor::Allocate(ProcessAllocator(), DType::kFloat, Shape({kSize, kSize}));
      std::fill_n(value.mutable_data<float>(), kSize * kSize, 0.0f);
      ASSERT_OK(engine_->CreateVariable("ns", matrix, DType::kFloat, Shape({kSize, kSize}),
                                        std::move(value)));
    }
    for (const char* scalar : {"n", "seed", "mean"}) NewVariable(scalar, 0);
  }
  // Its result is the seed that a call has drawn.
  uint64_t RegisterStep(absl::string_view on_the_way = "") {
    std::string text(kStep);
    text.replace(text.find("%s"), 2, std::string(on_the_way));
    std::vector<std::string> targets = {"counted", "moves", "a", "b", "c"};
    if (!on_the_way.empty()) targets.push_back("asked");
    return Made("step", text, {"w", "m", "n", "seed", "mean"}, {"s:0"}, std::move(targets));
  }
  uint64_t Made(const std::string& name, absl::string_view text,
                const std::vector<std::string>& variables, std::vector<std::string> outputs,
                std::vector<std::string> targets) {
    std::vector<std::pair<std::string, std::string>> captures;
    for (const std::string& v : variables) captures.emplace_back(v + ":0", v);
    const absl::StatusOr<Registered> made =
        Register(name, text, {Spec("x:0")}, std::move(outputs), captures, std::move(targets));
    EXPECT_OK(made);
    return made.ok() ? made->function.id : 0;
  }
  CallSpec Relaxed(uint64_t id, uint64_t sequence = 0) {
    CallSpec spec;
    spec.name_space = "ns";
    spec.function.id = id;
    spec.inputs.resize(1);
    spec.inputs[0].tensor = Tensor::Scalar(1.0f);
    spec.client_functions = client_;
    spec.relaxed = true;
    if (sequence != 0) spec.request = {"client", sequence, 0, absl::ZeroDuration()};
    return spec;
  }
  std::unique_ptr<Pending> BeginRelaxed(uint64_t id) { return Begin(Relaxed(id)); }
  CallResult RunRelaxed(uint64_t id, uint64_t sequence = 0) {
    return std::move(Begin(Relaxed(id, sequence))->Wait());
  }
  std::string Described(const std::string& name) {
    const absl::StatusOr<std::string> text = engine_->DescribeFunction("ns", name, true, nullptr);
    EXPECT_OK(text);
    return text.value_or("");
  }
  // The parts of a function's relaxed calls, as they come.
  std::vector<std::string> Regions(const std::string& name) {
    std::vector<std::string> regions;
    const std::string described = Described(name);
    for (absl::string_view line : absl::StrSplit(described, '\n')) {
      const size_t at = line.find(": region ");
      if (at != absl::string_view::npos) regions.emplace_back(line.substr(line.find('\'', at)));
    }
    return regions;
  }
  // w, m and n, as one state between two calls, are that after some number of whole steps.
  void ExpectWhole(int64_t* steps = nullptr) {
    const ReadResult read = Read({{0, "w"}, {0, "m"}, {0, "n"}});
    ASSERT_OK(read.status);
    const float n = read.values[2].value.scalar<float>();
    for (int64_t i = 0; i < kSize * kSize; ++i) {
      ASSERT_EQ(read.values[0].value.data<float>()[i], -n * (n + 1) / 2);
      ASSERT_EQ(read.values[1].value.data<float>()[i], n);
    }
    if (steps != nullptr) *steps = static_cast<int64_t>(n);
  }

  const std::shared_ptr<HeldClient> client_ = std::make_shared<HeldClient>();
};

TEST_F(RelaxedCallTest, ThePlanShowsTheParts) {
  const uint64_t step = RegisterStep();
  EXPECT_THAT(Described("step"), HasSubstr("relaxed: not asked for yet"));
  ASSERT_OK(RunRelaxed(step).status);
  EXPECT_THAT(Regions("step"),
              ElementsAre("'snapshot'", "'small write of seed'", "'snapshot'",
                          "'small write of mean'", "'snapshot'", "'apply region'"));
  EXPECT_EQ(engine_->Stats().relaxed_calls, 1u);
  EXPECT_EQ(engine_->Stats().relaxed_ordered, 0u);
}

// Both are in their forward parts before either goes on: ordered, the second would wait for the
// first one's end.
TEST_F(RelaxedCallTest, ForwardAndBackwardRunSideBySide) {
  const uint64_t step = RegisterStep(kAsks);
  auto one = BeginRelaxed(step);
  auto other = BeginRelaxed(step);
  client_->AwaitAsked(2);
  // Small writes are there before the call's end, and others see them.
  EXPECT_EQ(ValueOf("seed"), 2);
  EXPECT_EQ(ValueOf("mean"), 2);
  EXPECT_EQ(ValueOf("n"), 0);
  client_->AnswerNext();
  client_->AnswerNext();
  ASSERT_OK(one->Wait().status);
  ASSERT_OK(other->Wait().status);
  int64_t steps = 0;
  ExpectWhole(&steps);
  EXPECT_EQ(steps, 2);
  // Each has drawn a seed of its own.
  EXPECT_EQ(one->result.outputs[0].tensor.scalar<float>() +
                other->result.outputs[0].tensor.scalar<float>(),
            1);
}

TEST_F(RelaxedCallTest, NoStepIsTornOrLost) {
  constexpr int kWorkers = 4, kSteps = 50;
  const uint64_t step = RegisterStep();
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done.load()) ExpectWhole();
  });
  absl::Mutex mutex;
  std::multiset<float> seeds;
  std::vector<std::thread> workers;
  for (int k = 0; k < kWorkers; ++k) {
    workers.emplace_back([&, k] {
      for (int i = 0; i < kSteps; ++i) {
        // Ordered ones among them.
        CallSpec spec = Relaxed(step);
        spec.relaxed = k > 0 || i % 2 == 0;
        const auto call = Begin(std::move(spec));
        ASSERT_OK(call->Wait().status);
        absl::MutexLock lock(&mutex);
        seeds.insert(call->result.outputs[0].tensor.scalar<float>());
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  done.store(true);
  reader.join();
  int64_t steps = 0;
  ExpectWhole(&steps);
  EXPECT_EQ(steps, kWorkers * kSteps);
  EXPECT_EQ(ValueOf("mean"), kWorkers * kSteps);
  EXPECT_EQ(std::set<float>(seeds.begin(), seeds.end()).size(), seeds.size());
  EXPECT_EQ(*seeds.rbegin(), kWorkers * kSteps - 1);
}

TEST_F(RelaxedCallTest, OneThatIsCancelledBeforeItsApplyRegionLeavesItsSmallWritesAlone) {
  const uint64_t step = RegisterStep(kAsks);
  auto call = BeginRelaxed(step);
  client_->AwaitAsked(1);
  call->handle->Cancel();
  EXPECT_THAT(call->Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(call->result.details.effects, Effects::kSome);
  EXPECT_EQ(ValueOf("seed"), 1);
  int64_t steps = -1;
  ExpectWhole(&steps);
  EXPECT_EQ(steps, 0);
}

// Waits behind a writer of n for its apply region.
TEST_F(RelaxedCallTest, OneThatWaitsForItsApplyRegionCanLeave) {
  const uint64_t step = RegisterStep();
  const uint64_t holder =
      Made("holder",
           absl::StrCat("n = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
                        "loop = While(x) cond=@cond body=@body T=[float]\n"
                        "a = AssignVariableOp(n, loop) dtype=float\n",
                        kSpin),
           {"n"}, {}, {"a"});
  auto holds = Begin(holder, Owned(Tensor::Scalar(0.0f)));
  auto call = BeginRelaxed(step);
  while (engine_->Stats().ticket_waits == 0 && ValueOf("mean") == 0) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  AwaitQueued(1);
  call->handle->Cancel();
  EXPECT_THAT(call->Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(call->result.details.effects, Effects::kSome);
  // Another one gets there once the writer has gone.
  auto next = BeginRelaxed(step);
  while (ValueOf("mean") != 2) absl::SleepFor(absl::Milliseconds(1));
  holds->handle->Cancel();
  EXPECT_THAT(holds->Wait().status, StatusIs(StatusCode::kCancelled));
  ASSERT_OK(next->Wait().status);
  int64_t steps = 0;
  ExpectWhole(&steps);
  EXPECT_EQ(steps, 1);
}

TEST_F(RelaxedCallTest, WhatHasNoSuchPartsRunsAsAnyOther) {
  const uint64_t count = Made("count",
                              "n = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
                              "a = AssignAddVariableOp(n, x) dtype=float\n",
                              {"n"}, {}, {"a"});
  ASSERT_OK(RunRelaxed(count).status);
  ASSERT_OK(RunRelaxed(count).status);
  EXPECT_EQ(ValueOf("n"), 2);
  EXPECT_THAT(Described("count"), HasSubstr("relaxed: as any other call, because no product"));
  // What is assigned follows from what was read before the product: all is the apply region.
  const uint64_t early = Made("early", R"(
    w = Placeholder dtype=resource
    x = Placeholder dtype=float
    one = Const float[] 1
    v = ReadVariableOp(w) dtype=float
    y = MatMul(v, v) T=float
    z = AddV2(v, one) T=float
    a = AssignVariableOp(w, z) dtype=float
  )",
                              {"w"}, {"y:0"}, {"a"});
  ASSERT_OK(RunRelaxed(early).status);
  EXPECT_THAT(Described("early"), HasSubstr("relaxed: as any other call"));
  EXPECT_EQ(engine_->Stats().relaxed_ordered, 3u);
  EXPECT_EQ(engine_->Stats().relaxed_calls, 0u);
  // What only reads is a snapshot anyhow.
  const uint64_t reads = Made("reads",
                              "w = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
                              "v = ReadVariableOp(w) dtype=float\n"
                              "y = MatMul(v, v) T=float\n",
                              {"w"}, {"y:0"}, {});
  ASSERT_OK(RunRelaxed(reads).status);
  EXPECT_THAT(Described("reads"), Not(HasSubstr("relaxed")));
}

TEST_F(RelaxedCallTest, OneVariableUnderTwoNames) {
  ASSERT_OK_AND_ASSIGN(const Registered made,
                       Register("alias", R"(
    w = Placeholder dtype=resource
    u = Placeholder dtype=resource
    x = Placeholder dtype=float
    v = ReadVariableOp(w) dtype=float
    y = MatMul(v, v) T=float
    a = AssignSubVariableOp(w, y) dtype=float
    b = AssignSubVariableOp(u, y, ^a) dtype=float
  )",
                                {Spec("x:0")}, {"y:0"}, {{"w:0", "w"}, {"u:0", "w"}}, {"a", "b"}));
  ASSERT_OK(RunRelaxed(made.function.id).status);
  EXPECT_EQ(engine_->Stats().relaxed_ordered, 1u);
  EXPECT_EQ(engine_->Stats().relaxed_calls, 0u);
}

TEST_F(RelaxedCallTest, AtomicOnesAreRefused) {
  CallSpec spec = Relaxed(RegisterStep());
  spec.atomic = true;
  const auto call = Begin(std::move(spec));
  EXPECT_THAT(call->Wait().status,
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("both atomic and relaxed")));
  EXPECT_EQ(ValueOf("seed"), 0);
}

TEST_F(RelaxedCallTest, ADeletedVariableIsNamed) {
  const uint64_t step = RegisterStep();
  ASSERT_OK(RunRelaxed(step).status);
  ASSERT_OK(engine_->DeleteResource("ns", {0, "m"}, false));
  EXPECT_THAT(RunRelaxed(step).status,
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("deleted")));
}

// The answer comes with the last record; a request that is sent again is done once.
TEST_F(RelaxedCallTest, WhatWasAnsweredIsThereAfterACrash) {
  TempFolder directory;
  EngineOptions options;
  options.data_dir = directory.path();
  options.durability = Durability::kSync;
  Start(options);
  MakeVariables();
  uint64_t step = RegisterStep(kAsks);
  auto unanswered = Begin(Relaxed(step, 1));
  client_->AwaitAsked(1);
  client_->AnswerNext();
  ASSERT_OK(unanswered->Wait().status);
  const float seed = unanswered->result.outputs[0].tensor.scalar<float>();
  auto cut = Begin(Relaxed(step, 2));
  client_->AwaitAsked(1);
  EXPECT_EQ(ValueOf("seed"), 2);  // Told, so it is on disk.
  cut->handle->Cancel();
  (void)cut->Wait();
  engine_.reset();
  Start(options);
  int64_t steps = 0;
  ExpectWhole(&steps);
  EXPECT_EQ(steps, 1);
  EXPECT_EQ(ValueOf("seed"), 2);
  const CallResult again = RunRelaxed(step, 1);
  ASSERT_OK(again.status);
  EXPECT_EQ(again.outputs[0].tensor.scalar<float>(), seed);
  ExpectWhole(&steps);
  EXPECT_EQ(steps, 1);
  engine_.reset();
}

}  // namespace
}  // namespace formwork::testing
