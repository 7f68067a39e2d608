// Elements that are made ahead: that they are, and that nobody can tell. That elements are
// TensorFlow's: tests/python/programs_data.py.

#include <atomic>
#include <random>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "core/base/memory_budget.h"
#include "core/base/parallel.h"
#include "core/ops/shape_inference.h"
#include "tests/unit/plan_fixture.h"

namespace formwork::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

// What the test's ops do, and what they have seen.
struct Steps {
  absl::Duration make = absl::Milliseconds(1), use = absl::Milliseconds(1);
  int64_t fails_at = -1, endless_at = -1;
  std::thread::id user;
  std::atomic<int64_t> made{0}, used{0};
  std::atomic<int64_t> made_elsewhere{0}, used_elsewhere{0};
  std::atomic<int64_t> most_ahead{0};
};
Steps* steps = nullptr;

absl::Status MakeElement(KernelContext& ctx) {
  const int64_t i = ctx.input(0).scalar<int64_t>();
  const int64_t ahead = ++steps->made - steps->used;
  if (ahead > steps->most_ahead) steps->most_ahead = ahead;
  if (std::this_thread::get_id() != steps->user) ++steps->made_elsewhere;
  if (i == steps->fails_at) return absl::InvalidArgumentError("element that fails");
  while (i == steps->endless_at && !WorkIsCut()) absl::SleepFor(absl::Milliseconds(1));
  absl::SleepFor(steps->make);
  ctx.SetOutput(0, ctx.input(0));
  return absl::OkStatus();
}

absl::Status UseElement(KernelContext& ctx) {
  if (std::this_thread::get_id() != steps->user) ++steps->used_elsewhere;
  absl::SleepFor(steps->use);
  ++steps->used;
  ctx.SetOutput(0, ctx.input(0));
  return absl::OkStatus();
}

class PrefetchTest : public PlanFixture {
 protected:
  PrefetchTest() {
    const OpTraits pure{.shape_fn = shapes::Scalar};
    world_.ops.Add("TestMake(x: int64) -> (y: int64)", pure);
    world_.ops.Add("TestUse(x: int64) -> (y: int64)", pure);
    world_.ops.Add("TestSeen(x: int64) -> (y: int64)",
                   {.shape_fn = shapes::Scalar, .effect = Effect::kExternal});
    const auto make = [](KernelInit&) -> absl::StatusOr<KernelFn> {
      return KernelFn(&MakeElement);
    };
    const auto use = [](KernelInit&) -> absl::StatusOr<KernelFn> { return KernelFn(&UseElement); };
    world_.kernels.Add("TestMake", make);
    world_.kernels.Add("TestSeen", make);
    world_.kernels.Add("TestUse", use);
    steps_.user = std::this_thread::get_id();
    steps = &steps_;
  }
  ~PrefetchTest() override { steps = nullptr; }

  // Of a dataset `d`, made of `slow`, which maps `op` over the numbers up to `n`: each value counts
  // with where it stands. `size`: a buffer's.
  void MakeSum(std::string nodes, absl::string_view op = "TestMake", int64_t size = 4,
               absl::string_view functions = "") {
    for (size_t at; (at = nodes.find("TYPES")) != std::string::npos;) {
      nodes.replace(at, 5, "output_types=[int64] output_shapes=[shape:?]");
    }
    Make(absl::StrCat(R"(
    n = Placeholder dtype=int64
    zero = Const int64[] 0
    one = Const int64[] 1
    two = Const int64[] 2
    three = Const int64[] 3
    endless = Const int64[] -1
    size = Const int64[] )",
                      size, R"(
    range = RangeDataset(zero, n, one) output_types=[int64] output_shapes=[shape:?]
    slow = MapDataset(range) f=@make Targuments=[] output_types=[int64] output_shapes=[shape:?]
)",
                      nodes, R"(
    sum = ReduceDataset(d, zero) f=@add Tstate=[int64] Targuments=[] output_types=[int64] output_shapes=[shape:?]
    function make(i: int64) -> (r: int64 = m:y:0)
      m = )",
                      op, R"((i)
    end
    function add(a: int64, b: int64) -> (r: int64 = s:z:0)
      factor = Const int64[] 31
      used = TestUse(b)
      m = Mul(a, factor:output:0) T=int64
      s = AddV2(m:z:0, used:y:0) T=int64
    end
)",
                      functions),
         {{"n:0", DType::kInt64}}, {"sum:0"});
  }
  absl::StatusOr<int64_t> Sum(int64_t n) {
    FORMWORK_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, Run(Owned(Tensor::Scalar(n))));
    return outputs[0].scalar<int64_t>();
  }
  static int64_t SumTo(int64_t n) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; ++i) sum = sum * 31 + static_cast<uint64_t>(i);
    return static_cast<int64_t>(sum);
  }
  void ExpectAheadOf(int64_t least) {
    EXPECT_EQ(steps_.used_elsewhere, 0);
    if (ParallelThreads() > 1) {
      EXPECT_GT(steps_.made_elsewhere, least);
    } else {
      EXPECT_EQ(steps_.made_elsewhere, 0);
    }
  }

  Steps steps_;
};

constexpr char kPrefetched[] = "    d = PrefetchDataset(slow, size) TYPES\n";

TEST_F(PrefetchTest, ElementsAreMadeWhileThoseBeforeAreUsed) {
  MakeSum(kPrefetched);
  for (int64_t n : {0, 1, 2, 100}) {
    absl::StatusOr<int64_t> sum = Sum(n);
    ASSERT_OK(sum);
    EXPECT_EQ(*sum, SumTo(n));
  }
  EXPECT_EQ(steps_.made, 103);
  EXPECT_EQ(steps_.used, 103);
  EXPECT_LE(steps_.most_ahead, 4 + 2);  // One that is made, one that is used.
  // Others may need the cores during one sum, but not during all.
  for (int again = 0; ParallelThreads() > 1 && steps_.made_elsewhere <= 30 && again < 20; ++again) {
    steps_.made_elsewhere = 0;
    ASSERT_OK(Sum(100));
  }
  ExpectAheadOf(30);
  EXPECT_EQ(Held(), 0);
}

TEST_F(PrefetchTest, NothingIsMadeAheadWhereSomebodyCouldTell) {
  const std::string below = R"(
    more = MapDataset(slow) f=@twice Targuments=[] TYPES
    d = PrefetchDataset(more, size) TYPES
)";
  constexpr char kTwice[] = R"(
    function twice(i: int64) -> (r: int64 = s:z:0)
      s = AddV2(i, i) T=int64
    end
)";
  for (const std::string& nodes : {std::string(kPrefetched), below}) {
    MakeSum(nodes, "TestSeen", 4, kTwice);
    ASSERT_OK(Sum(30));
    EXPECT_EQ(steps_.made_elsewhere, 0) << nodes;
  }
  // A dataset that a function makes.
  MakeSum(R"(
    inner = FlatMapDataset(range) f=@nested Targuments=[] TYPES
    d = PrefetchDataset(inner, size) TYPES
)",
          "TestSeen", 4, R"(
    function nested(i: int64) -> (r: variant = m:handle:0)
      t = TensorDataset(i) Toutput_types=[int64] output_shapes=[shape:?]
      m = MapDataset(t:handle:0) f=@make Targuments=[] output_types=[int64] output_shapes=[shape:?]
    end
)");
  ASSERT_OK(Sum(30));
  // One that a function has captured.
  MakeSum(R"(
    once = TakeDataset(slow, one) TYPES
    inner = FlatMapDataset(range, once) f=@given Targuments=[variant] TYPES
    d = PrefetchDataset(inner, size) TYPES
)",
          "TestSeen", 4, R"(
    function given(i: int64, d: variant) -> (r: variant = d)
    end
)");
  ASSERT_OK(Sum(30));
  // No buffer.
  MakeSum(kPrefetched, "TestMake", 0);
  ASSERT_OK(Sum(30));
  EXPECT_EQ(steps_.made, 150);
  EXPECT_EQ(steps_.made_elsewhere, 0);
}

TEST_F(PrefetchTest, AParallelInterleaveIsMadeAhead) {
  constexpr char kInner[] = R"(
    function numbers(i: int64) -> (r: variant = m:handle:0)
      t = TensorDataset(i) Toutput_types=[int64] output_shapes=[shape:?]
      m = MapDataset(t:handle:0) f=@make Targuments=[] output_types=[int64] output_shapes=[shape:?]
    end
)";
  MakeSum(
      "    d = ParallelInterleaveDatasetV4(range, two, one, endless, endless, two) f=@numbers "
      "Targuments=[] TYPES\n",
      "TestMake", 4, kInner);
  absl::StatusOr<int64_t> sum = Sum(60);
  ASSERT_OK(sum);
  EXPECT_EQ(*sum, SumTo(60));
  ExpectAheadOf(15);
}

TEST_F(PrefetchTest, AnErrorComesAtItsElement) {
  MakeSum(kPrefetched, "TestMake", 8);
  steps_.fails_at = 40;
  EXPECT_THAT(Sum(100).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("element that fails")));
  EXPECT_EQ(steps_.used, 40);
  EXPECT_EQ(steps_.made, 41);
  ExpectAheadOf(0);
  EXPECT_EQ(Held(), 0);
}

TEST_F(PrefetchTest, ElementsBehindAnErrorFollow) {
  MakeSum(R"(
    ahead = PrefetchDataset(slow, size) TYPES
    d = IgnoreErrorsDataset(ahead) TYPES
)");
  steps_.fails_at = 40;
  ASSERT_OK(Sum(100));
  EXPECT_EQ(steps_.used, 99);
  ExpectAheadOf(0);
}

TEST_F(PrefetchTest, ACallThatIsToStopDoesNotWaitForAnElement) {
  MakeSum(kPrefetched);
  steps_.endless_at = 40;
  std::thread other([this] {
    while (steps_.used < 40) absl::SleepFor(absl::Milliseconds(1));
    absl::SleepFor(absl::Milliseconds(20));
    stop_.Cancel();
  });
  EXPECT_THAT(Sum(100).status(), StatusIs(StatusCode::kCancelled));
  other.join();
  EXPECT_EQ(steps_.used, 40);
}

TEST_F(PrefetchTest, ADeadlineEndsWhatIsMadeAhead) {
  MakeSum(kPrefetched);
  steps_.endless_at = 40;
  StopFlag stop(absl::Now() + absl::Milliseconds(400));
  const std::vector<ResourceHandle> named;
  Call call(*allocator_, absl::MakeSpan(state_), &named, stop);
  std::vector<Tensor> inputs = Owned(Tensor::Scalar(int64_t{100})), outputs(1);
  Execution execution(*plan_, *frame_, call, absl::MakeSpan(inputs));
  EXPECT_THAT(execution.Run(absl::MakeSpan(outputs)).status(),
              StatusIs(StatusCode::kDeadlineExceeded));
  EXPECT_EQ(steps_.used, 40);
}

TEST_F(PrefetchTest, WhatNobodyNeedsAnyMoreIsStopped) {
  MakeSum(R"(
    ahead = PrefetchDataset(slow, size) TYPES
    d = TakeDataset(ahead, first) TYPES
    first = Const int64[] 40
)");
  steps_.endless_at = 42;
  absl::StatusOr<int64_t> sum = Sum(100);
  ASSERT_OK(sum);
  EXPECT_EQ(*sum, SumTo(40));
  ExpectAheadOf(10);
}

TEST_F(PrefetchTest, WhatIsHeldIsBounded) {
  MakeSum(kPrefetched, "TestMake", int64_t{1} << 40);
  steps_.use = absl::Milliseconds(3);
  ASSERT_OK(Sum(60));
  EXPECT_LE(steps_.most_ahead, 16 + 2);

  steps_.most_ahead = 0;
  MakeSum(R"(
    large = MapDataset(slow) f=@repeated Targuments=[] TYPES
    ahead = PrefetchDataset(large, size) TYPES
    d = MapDataset(ahead) f=@first Targuments=[] TYPES
)",
          "TestMake", int64_t{1} << 40, R"(
    function repeated(i: int64) -> (r: int64 = f:output:0)
      many = Const int64[1] 524288
      f = Fill(many:output:0, i) T=int64 index_type=int64
    end
    function first(x: int64) -> (r: int64 = m:output:0)
      axis = Const int32[1] 0
      m = Max(x, axis:output:0) T=int64 Tidx=int32
    end
)");
  MemoryBudget budget(size_t{128} << 20);
  absl::StatusOr<int64_t> sum = HoldToBudget(budget, [&] { return Sum(60); });
  ASSERT_OK(sum);
  EXPECT_EQ(*sum, SumTo(60));
  EXPECT_LE(steps_.most_ahead, 4 + 2);  // Of 4 MiB each.
}

TEST_F(PrefetchTest, ABufferOfANegativeSizeIsRefused) {
  MakeSum(kPrefetched, "TestMake", -2);
  EXPECT_THAT(Sum(3).status(),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("buffer_size must be >= 0")));
}

TEST_F(PrefetchTest, CallsThatShareTheThreadsEachHaveTheirElements) {
  MakeSum(kPrefetched);
  steps_.make = steps_.use = absl::Microseconds(50);
  std::vector<std::thread> calls;
  for (int k = 0; k < 6; ++k) {
    calls.emplace_back([this, k] {
      for (int64_t n = 20; n < 40; ++n) {
        PlanFrame frame(*plan_);
        std::vector<std::atomic<uint64_t>> state(plan_->num_state);
        const std::vector<ResourceHandle> named;
        StopFlag stop;
        Call call(*allocator_, absl::MakeSpan(state), &named, stop);
        std::vector<Tensor> inputs = Owned(Tensor::Scalar(n + k)), outputs(1);
        Execution execution(*plan_, frame, call, absl::MakeSpan(inputs));
        EXPECT_OK(execution.Run(absl::MakeSpan(outputs)).status());
        EXPECT_EQ(outputs[0].scalar<int64_t>(), SumTo(n + k));
      }
    });
  }
  for (std::thread& call : calls) call.join();
}

// Pipelines at random give the same with prefetches between their stages as without.
class RandomPipelines : public PrefetchTest, public ::testing::WithParamInterface<int> {
 protected:
  // The nodes, where `prefetch` says what stands behind each stage.
  static std::string Nodes(int seed, bool ahead) {
    std::mt19937 random(static_cast<uint32_t>(seed));
    std::string last = "slow", nodes;
    const int stages = 2 + static_cast<int>(random() % 4);
    for (int i = 0; i <= stages; ++i) {
      const std::string name = absl::StrCat("s", i);
      const uint32_t kind = random() % 8;
      absl::StrAppend(&nodes, "    ", name, " = ");
      switch (kind) {
        case 0:
          absl::StrAppend(&nodes, "MapDataset(", last, ") f=@make Targuments=[] TYPES\n");
          break;
        case 1:
          absl::StrAppend(&nodes, "ShuffleDatasetV3(", last,
                          ", size, one, two, none) reshuffle_each_iteration=true TYPES\n");
          break;
        case 2:
          absl::StrAppend(&nodes, "RepeatDataset(", last, ", two) TYPES\n");
          break;
        case 3:
          absl::StrAppend(&nodes, "SkipDataset(", last, ", two) TYPES\n");
          break;
        case 4:
          absl::StrAppend(&nodes, "FlatMapDataset(", last, ") f=@inner Targuments=[] TYPES\n");
          break;
        case 5:
          absl::StrAppend(&nodes, "ParallelInterleaveDatasetV4(", last,
                          ", two, one, endless, endless, two) f=@inner Targuments=[] TYPES\n");
          break;
        case 6:
          absl::StrAppend(&nodes, "ConcatenateDataset(", last, ", slow) TYPES\n");
          break;
        default:
          absl::StrAppend(&nodes, "ParallelMapDatasetV2(", last,
                          ", two) f=@make Targuments=[] TYPES\n");
      }
      last = name;
      if (random() % 2 == 0) continue;
      last = absl::StrCat("p", i);
      absl::StrAppend(&nodes, "    ", last, " = ", Same(absl::StrCat(name, ", "), ahead),
                      " TYPES\n");
    }
    absl::StrAppend(&nodes, "    some = Const int64[] 60\n    none = DummySeedGenerator()\n",
                    "    d = TakeDataset(", last, ", some) TYPES\n");
    return nodes;
  }
  static std::string Same(absl::string_view input, bool ahead) {
    return ahead ? absl::StrCat("PrefetchDataset(", input, "size)")
                 : absl::StrCat("TakeDataset(", input, "endless)");
  }
  static std::string Inner(bool ahead) {
    return absl::StrCat(R"(
    function inner(i: int64) -> (r: variant = p:handle:0)
      zero = Const int64[] 0
      one = Const int64[] 1
      three = Const int64[] 3
      r = RangeDataset(zero:output:0, three:output:0, one:output:0) output_types=[int64] output_shapes=[shape:?]
      m = MapDataset(r:handle:0, i) f=@offset Targuments=[int64] output_types=[int64] output_shapes=[shape:?]
      p = )",
                        ahead ? "PrefetchDataset" : "TakeDataset",
                        R"((m:handle:0, three:output:0) output_types=[int64] output_shapes=[shape:?]
    end
    function offset(j: int64, i: int64) -> (r: int64 = s:z:0)
      m = TestMake(j)
      s = AddV2(i, m:y:0) T=int64
    end
)");
  }
};

TEST_P(RandomPipelines, GiveTheSame) {
  steps_.make = absl::Microseconds(20 + 60 * (GetParam() % 3));
  steps_.use = absl::Microseconds(20 + 60 * (GetParam() % 2));
  absl::StatusOr<int64_t> expected;
  for (const bool ahead : {false, true}) {
    MakeSum(Nodes(GetParam(), ahead), "TestMake", 1 + GetParam() % 5, Inner(ahead));
    absl::StatusOr<int64_t> sum = Sum(20);
    ASSERT_OK(sum) << Nodes(GetParam(), ahead);
    if (!ahead) expected = sum;
    EXPECT_EQ(*sum, *expected) << Nodes(GetParam(), ahead);
  }
  EXPECT_EQ(steps_.used_elsewhere, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPipelines, ::testing::Range(0, 60));

}  // namespace
}  // namespace formwork::testing
