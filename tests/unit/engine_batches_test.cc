// Calls of one function that are computed as one.

#include <atomic>
#include <random>
#include <thread>

#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Of rows: what is added to v is looked up. Turns for as long as any of `spin` is zero or more: for
// ever, or not at all.
constexpr char kLookUp[] = R"(
    v = Placeholder dtype=resource
    x = Placeholder dtype=float
    i = Placeholder dtype=int32
    spin = Placeholder dtype=float
    turned = While(spin) cond=@cond body=@body T=[float]
    table = Const float[3] 10 20 30
    axis = Const int32[] 0
    found = GatherV2(table, i, axis) Tparams=float Tindices=int32 Taxis=int32
    held = ReadVariableOp(v) dtype=float
    sum = AddV2(found, held) T=float
    y = AddV2(x, sum) T=float
    function cond(v: float) -> (go: bool = a:output:0)
      zero = Const float[] 0
      axes = Const int32[] 0
      g = GreaterEqual(v, zero:output:0) T=float
      a = Any(g:z:0, axes:output:0) Tidx=int32 keep_dims=false
    end
    function body(v: float) -> (w: float = n:z:0)
      one = Const float[] 1
      n = AddV2(v, one:output:0) T=float
    end
)";

class EngineBatchesTest : public EngineTest {
 protected:
  static TensorSpec Rows(const std::string& name, DType dtype = DType::kFloat,
                         std::vector<int64_t> dims = {-1}) {
    return {name, dtype, PartialShape::Trusted(dims)};
  }

  absl::StatusOr<Registered> RegisterRows(const std::string& name, absl::string_view text,
                                          std::vector<TensorSpec> inputs,
                                          std::vector<std::string> outputs, int64_t max_rows,
                                          const std::string& captured = "") {
    std::vector<std::pair<std::string, std::string>> variables;
    if (!captured.empty()) variables.emplace_back(captured + ":0", captured);
    FORMWORK_ASSIGN_OR_RETURN(
        Registration registration,
        MakeRegistration(name, text, std::move(inputs), std::move(outputs), std::move(variables)));
    registration.max_batch_rows = max_rows;
    return Register(std::move(registration));
  }

  uint64_t RegisterLookUp(int64_t max_rows, const std::string& name = "f") {
    if (IdOf("v") == 0) NewVariable("v", 100);
    absl::StatusOr<Registered> made =
        RegisterRows(name, kLookUp, {Rows("x:0"), Rows("i:0", DType::kInt32), Rows("spin:0")},
                     {"y:0", "turned:0"}, max_rows, "v");
    EXPECT_OK(made);
    return made.ok() ? made->function.id : 0;
  }

  static std::vector<Tensor> Inputs(const std::vector<float>& x, const std::vector<int32_t>& i,
                                    float spin = -1) {
    return Owned(VectorOf<float>(x), VectorOf<int32_t>(i),
                 VectorOf<float>(std::vector<float>(x.size(), spin)));
  }
  // That many rows, all of them `x`.
  std::unique_ptr<Pending> BeginRows(uint64_t id, size_t rows, float x,
                                     absl::Time deadline = absl::InfiniteFuture()) {
    return Begin(id, Inputs(std::vector<float>(rows, x), std::vector<int32_t>(rows, 0)), false,
                 deadline);
  }
  // One that runs until it is cancelled.
  std::unique_ptr<Pending> BeginSpin(uint64_t id) {
    auto pending = Begin(id, Inputs({0}, {0}, /*spin=*/0));
    while (engine_->Stats().calls_running != 1) absl::SleepFor(absl::Milliseconds(1));
    return pending;
  }
  static void End(Pending& spin) {
    spin.handle->Cancel();
    EXPECT_THAT(spin.Wait().status, StatusIs(StatusCode::kCancelled));
  }
  static std::vector<float> Y(Pending& call) {
    EXPECT_OK(call.Wait().status);
    return call.result.status.ok() ? ValuesOf<float>(call.result.outputs[0].tensor)
                                   : std::vector<float>();
  }
  static std::vector<float> RowsOf(size_t rows, float y) { return std::vector<float>(rows, y); }

  void ExpectBatches(uint64_t batches, uint64_t calls) {
    EXPECT_EQ(engine_->Stats().batches, batches);
    EXPECT_EQ(engine_->Stats().batched_calls, calls);
  }
};

TEST_F(EngineBatchesTest, WhatComesWhileOneRunsIsComputedAsOne) {
  const uint64_t id = RegisterLookUp(64);
  auto spin = BeginSpin(id);
  auto a = Begin(id, Inputs({1, 2}, {0, 2}));
  auto b = Begin(id, Inputs({3}, {1}));
  auto c = Begin(id, Inputs({4, 5, 6}, {2, 1, 0}));
  AwaitQueued(3);
  End(*spin);
  EXPECT_THAT(Y(*a), ElementsAre(111, 132));
  EXPECT_THAT(Y(*b), ElementsAre(123));
  EXPECT_THAT(Y(*c), ElementsAre(134, 125, 116));
  EXPECT_EQ(b->result.function_name, "f");
  ExpectBatches(1, 3);
  // One that comes alone does not wait.
  EXPECT_THAT(Y(*Begin(id, Inputs({1}, {0}))), ElementsAre(111));
  ExpectBatches(1, 3);
  EXPECT_EQ(engine_->Stats().calls_queued, 0);
}

TEST_F(EngineBatchesTest, ABatchHasNoMoreRowsThanItMay) {
  const uint64_t id = RegisterLookUp(4);
  auto spin = BeginSpin(id);
  auto three = BeginRows(id, 3, 1);
  auto two = BeginRows(id, 2, 2);
  auto one = BeginRows(id, 1, 3);
  auto four = BeginRows(id, 4, 4);
  AwaitQueued(4);
  // Who has more by itself does not wait in that line.
  EXPECT_THAT(Y(*BeginRows(id, 5, 5)), RowsOf(5, 115));
  End(*spin);
  EXPECT_THAT(Y(*three), RowsOf(3, 111));
  EXPECT_THAT(Y(*two), RowsOf(2, 112));
  EXPECT_THAT(Y(*one), RowsOf(1, 113));
  EXPECT_THAT(Y(*four), RowsOf(4, 114));
  ExpectBatches(1, 2);  // Three and one.
}

TEST_F(EngineBatchesTest, WhoLeavesTheLineHoldsUpNobody) {
  const uint64_t id = RegisterLookUp(64);
  auto spin = BeginSpin(id);
  auto cancelled = BeginRows(id, 1, 1);
  auto late = BeginRows(id, 1, 2, absl::Now() + absl::Milliseconds(30));
  auto a = BeginRows(id, 1, 3);
  auto b = BeginRows(id, 1, 4);
  AwaitQueued(4);
  cancelled->handle->Cancel();
  EXPECT_THAT(cancelled->Wait().status, StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(cancelled->result.details.effects, Effects::kNone);
  EXPECT_THAT(late->Wait().status, StatusIs(StatusCode::kDeadlineExceeded));
  AwaitQueued(2);
  End(*spin);
  EXPECT_THAT(Y(*a), ElementsAre(113));
  EXPECT_THAT(Y(*b), ElementsAre(114));
  ExpectBatches(1, 2);
}

TEST_F(EngineBatchesTest, WhatFailsFailsAlone) {
  const uint64_t id = RegisterLookUp(64);
  auto spin = BeginSpin(id);
  auto a = Begin(id, Inputs({1}, {0}));
  auto bad = Begin(id, Inputs({2}, {7}));
  auto b = Begin(id, Inputs({3}, {2}));
  AwaitQueued(3);
  End(*spin);
  EXPECT_THAT(Y(*a), ElementsAre(111));
  EXPECT_THAT(bad->Wait().status, StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(std::string(bad->result.status.message()), HasSubstr("7"));
  EXPECT_THAT(Y(*b), ElementsAre(133));
  ExpectBatches(0, 0);
}

// Those that lead do not take what others lead ask for along with them.
TEST_F(EngineBatchesTest, ALeaderThatIsCancelledTakesNobodyAlong) {
  const uint64_t id = RegisterLookUp(64);
  auto spin = BeginSpin(id);
  auto leader = Begin(id, Inputs({1}, {0}, /*spin=*/0));
  auto a = BeginRows(id, 1, 2);
  AwaitQueued(2);
  End(*spin);
  AwaitQueued(0);  // Both turn now, for the leader does.
  End(*leader);
  EXPECT_THAT(Y(*a), ElementsAre(112));
}

TEST_F(EngineBatchesTest, OtherShapesAreNotMixed) {
  constexpr char kDouble[] = "x = Placeholder dtype=float\ny = AddV2(x, x) T=float\n";
  ASSERT_OK_AND_ASSIGN(
      const Registered made,
      RegisterRows("f", kDouble, {Rows("x:0", DType::kFloat, {-1, -1})}, {"y:0"}, 64));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<uint32_t>(t));
      for (int round = 0; round < 300; ++round) {
        const Shape shape({static_cast<int64_t>(random() % 4), static_cast<int64_t>(random() % 3)});
        std::vector<float> x(static_cast<size_t>(shape.num_elements()));
        for (float& value : x) value = static_cast<float>(random() % 1000);
        auto call = Begin(made.function.id, Owned(TensorOf<float>(shape, x)));
        for (float& value : x) value *= 2;
        const CallResult& result = call->Wait();
        if (!result.status.ok() || result.outputs[0].tensor.shape() != shape ||
            ValuesOf<float>(result.outputs[0].tensor) != x) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(EngineBatchesTest, StringsHaveRowsToo) {
  constexpr char kJoin[] =
      "x = Placeholder dtype=string\nspin = Placeholder dtype=float\n"
      "y = StringJoin(x, x) N=2 separator=\"-\"\n"
      "turned = While(spin) cond=@cond body=@body T=[float]\n";
  const std::string functions = std::string(kLookUp).substr(std::string(kLookUp).find("function"));
  ASSERT_OK_AND_ASSIGN(
      const Registered made,
      RegisterRows("f", kJoin + functions, {Rows("x:0", DType::kString, {-1, 2}), Rows("spin:0")},
                   {"y:0", "turned:0"}, 64));
  const auto begin = [&](const std::vector<std::string>& texts, float spin) {
    const auto rows = static_cast<int64_t>(texts.size() / 2);
    Tensor x = *Tensor::Allocate(ProcessAllocator(), DType::kString, Shape({rows, 2}));
    std::copy(texts.begin(), texts.end(), x.mutable_data<std::string>());
    return Begin(made.function.id,
                 Owned(std::move(x), VectorOf<float>(std::vector<float>(texts.size() / 2, spin))));
  };
  auto spin = begin({"s", "s"}, 0);
  while (engine_->Stats().calls_running != 1) absl::SleepFor(absl::Milliseconds(1));
  auto a = begin({"a", std::string(100, 'b')}, -1);
  auto b = begin({"c", "d", "e", "f"}, -1);
  AwaitQueued(2);
  End(*spin);
  ASSERT_OK(a->Wait().status);
  ASSERT_OK(b->Wait().status);
  EXPECT_EQ(a->result.outputs[0].tensor.span<std::string>()[1].size(), 201u);
  EXPECT_THAT(b->result.outputs[0].tensor.span<std::string>(),
              ElementsAre("c-c", "d-d", "e-e", "f-f"));
  EXPECT_EQ(b->result.outputs[0].tensor.shape(), Shape({2, 2}));
  ExpectBatches(1, 2);
}

TEST_F(EngineBatchesTest, WhatHasOtherRowsThanItSaysIsComputedAlone) {
  const std::string graph = absl::StrCat(kLookUp, "\nzero = Const int32[] 0\n",
                                         "twice = ConcatV2(y, y, zero) N=2 T=float Tidx=int32\n");
  NewVariable("v", 100);
  ASSERT_OK_AND_ASSIGN(
      const Registered made,
      RegisterRows("f", graph, {Rows("x:0"), Rows("i:0", DType::kInt32), Rows("spin:0")},
                   {"twice:0", "turned:0"}, 64, "v"));
  const uint64_t id = made.function.id;
  auto spin = BeginSpin(id);
  auto a = BeginRows(id, 1, 1);
  auto b = BeginRows(id, 1, 2);
  AwaitQueued(2);
  End(*spin);
  EXPECT_THAT(Y(*a), ElementsAre(111, 111));
  EXPECT_THAT(Y(*b), ElementsAre(112, 112));
  // From now on none waits.
  spin = BeginSpin(id);
  EXPECT_THAT(Y(*BeginRows(id, 1, 3)), ElementsAre(113, 113));
  End(*spin);
  ExpectBatches(0, 0);
}

TEST_F(EngineBatchesTest, WhatCannotBeIsRefused) {
  NewVariable("v", 1);
  const auto refusal = [&](absl::string_view text, std::vector<TensorSpec> inputs,
                           const std::string& output, const std::string& captured = "") {
    const absl::StatusOr<Registered> made =
        RegisterRows("f", text, std::move(inputs), {output}, 8, captured);
    EXPECT_THAT(made, StatusIs(StatusCode::kInvalidArgument));
    return std::string(made.status().message());
  };
  constexpr char kDouble[] = "x = Placeholder dtype=float\ny = AddV2(x, x) T=float\n";
  EXPECT_THAT(refusal(kDouble, {Rows("x:0", DType::kFloat, {})}, "y:0"), HasSubstr("input 'x:0'"));
  EXPECT_THAT(refusal(kDouble, {Rows("x:0", DType::kFloat, {3})}, "y:0"), HasSubstr("[3]"));
  EXPECT_THAT(refusal(kDouble, {Spec("x:0")}, "y:0"), HasSubstr("input 'x:0'"));
  EXPECT_THAT(refusal("x = Placeholder dtype=float\na = Const int32[] 0\n"
                      "y = Sum(x, a) T=float Tidx=int32 keep_dims=false\n",
                      {Rows("x:0")}, "y:0"),
              HasSubstr("output 'y:0'"));
  EXPECT_THAT(refusal("v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
                      "c = Const float[] 1\na = AssignAddVariableOp(v, c) dtype=float\n"
                      "y = AddV2(x, x, ^a) T=float\n",
                      {Rows("x:0")}, "y:0", "v"),
              HasSubstr("effects"));
  EXPECT_THAT(refusal("x = Placeholder dtype=float\ns = Shape(x) T=float out_type=int32\n"
                      "r = RandomUniform(s) T=int32 dtype=float seed=0 seed2=0\n"
                      "y = AddV2(x, r) T=float\n",
                      {Rows("x:0")}, "y:0"),
              HasSubstr("draw"));
  EXPECT_EQ(engine_->Stats().functions, 0);
}

// A call sees all that was answered before it was asked for.
TEST_F(EngineBatchesTest, WhoComesAfterAWriteIsNotComputedWithThoseBefore) {
  const uint64_t id = RegisterLookUp(64);
  auto spin = BeginSpin(id);
  auto a = BeginRows(id, 1, 1);
  auto b = BeginRows(id, 1, 2);
  AwaitQueued(2);
  EXPECT_OK(Assign({{{0, "v"}, Tensor::Scalar(200.0f)}}).status);
  auto c = BeginRows(id, 1, 3);
  auto d = BeginRows(id, 1, 4);
  AwaitQueued(4);
  End(*spin);
  EXPECT_THAT(Y(*a), ElementsAre(111));
  EXPECT_THAT(Y(*b), ElementsAre(112));
  EXPECT_THAT(Y(*c), ElementsAre(213));
  EXPECT_THAT(Y(*d), ElementsAre(214));
  ExpectBatches(2, 4);
}

TEST_F(EngineBatchesTest, TheDrainEndsTheLine) {
  const uint64_t id = RegisterLookUp(64);
  auto spin = BeginSpin(id);
  auto a = BeginRows(id, 1, 1);
  auto b = BeginRows(id, 1, 2);
  AwaitQueued(2);
  const DrainResult drained =
      engine_->Drain(absl::Now() + absl::Milliseconds(20), absl::Seconds(20));
  EXPECT_EQ(drained.cut_off, 3);
  EXPECT_EQ(drained.left, 0);
  for (Pending* call : {spin.get(), a.get(), b.get()}) {
    EXPECT_THAT(call->Wait().status, StatusIs(StatusCode::kAborted));
  }
}

TEST_F(EngineBatchesTest, WriterAndManyReaders) {
  const uint64_t id = RegisterLookUp(16);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    for (int round = 0; !stop; ++round) {
      const float value = static_cast<float>(100 + 100 * (round % 5));
      Assign({{{0, "v"}, Tensor::Scalar(value)}});
    }
  });
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<uint32_t>(t));
      for (int round = 0; round < 400; ++round) {
        const size_t rows = 1 + random() % 6;
        const float x = static_cast<float>(random() % 50);
        auto call = BeginRows(id, rows, x);
        if (random() % 8 == 0) call->handle->Cancel();
        const CallResult& result = call->Wait();
        if (result.status.code() == StatusCode::kCancelled) continue;
        if (!result.status.ok()) {
          ++wrong;
          continue;
        }
        // All rows from one value of v.
        const std::vector<float> y = ValuesOf<float>(result.outputs[0].tensor);
        const float held = y[0] - x - 10;
        if (y != RowsOf(rows, y[0]) || held < 100 || held > 500) ++wrong;
      }
    });
  }
  for (size_t t = 1; t < threads.size(); ++t) threads[t].join();
  stop = true;
  threads[0].join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(engine_->Stats().calls_queued, 0);
}

}  // namespace
}  // namespace formwork::testing
