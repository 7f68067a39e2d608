// Random ops whose sequence the host keeps, and whose numbers a device makes.

#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/register_ops.h"
#include "tests/streams/stream_world.h"
#include "tests/support/kernel_runner.h"

namespace formwork::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Numbers of a loop go on from one iteration to the next.
constexpr char kDraws[] = R"(
  n = Placeholder dtype=int32
  s = Const int32[1] 7
  zero = Const int32[] 0
  a = RandomUniform(s) dtype=float T=int32 seed=3 seed2=4
  w = While(zero, a, n) cond=@cond body=@body T=[int32,float,int32]
  t = TruncatedNormal(s) dtype=double T=int32 seed=5 seed2=6
  y = Mul(w:1, a) T=float
  function cond(k: int32, t: float, n: int32) -> (go: bool = l:z:0)
    l = Less(k, n) T=int32
  end
  function body(k: int32, t: float, n: int32) -> (j: int32 = next:z:0, q: float = h:z:0, m: int32 = n)
    one = Const int32[] 1
    s = Const int32[1] 7
    next = AddV2(k, one:output:0) T=int32
    r = RandomStandardNormal(s:output:0) dtype=float T=int32 seed=1 seed2=2
    h = AddV2(t, r:output:0) T=float
  end
  )";

// Whether its work enqueues.
class DrawnNumbersTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(
        program_, programs_.Make(kDraws, {{"n:0", DType::kInt32}}, {"y:0", "w:1", "t:0"}, {}));
  }
  std::vector<Outcome> Run(World& world) {
    std::vector<Request> requests;
    for (const int32_t n : {0, 1, 5}) requests.push_back({&program_, Owned(Tensor::Scalar(n))});
    return world.Run(requests);
  }
  void ExpectTheCpus(SimWorld& sim) {
    CpuWorld cpu(programs_.allocator());
    const std::vector<Outcome> expected = Run(cpu), outcomes = Run(sim);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_OK(expected[i].status);
      ASSERT_OK(outcomes[i].status);
      for (int k = 0; k < 2; ++k) {
        EXPECT_EQ(ValuesOf<float>(outcomes[i].results[k]), ValuesOf<float>(expected[i].results[k]));
      }
      EXPECT_EQ(ValuesOf<double>(outcomes[i].results[2]), ValuesOf<double>(expected[i].results[2]));
    }
    EXPECT_NE(ValuesOf<float>(expected[1].results[1]), ValuesOf<float>(expected[2].results[1]));
    EXPECT_THAT(sim.Reports(), IsEmpty());
  }

  Programs programs_;
  Program program_;
};

TEST_P(DrawnNumbersTest, AreTheCpus) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SimWorld sim(programs_, seed, 2, GetParam());
    ExpectTheCpus(sim);
  }
}

TEST_P(DrawnNumbersTest, AreMadeOnTheDevice) {
  SimWorld sim(programs_, 1, 2, GetParam());
  const Plan& plan = sim.PlanOf(program_);
  EXPECT_THAT(PlanText(plan), HasSubstr("@device = RandomUniform(#"));
  EXPECT_THAT(PlanText(plan), HasSubstr("@device = RandomStandardNormal(#"));
  EXPECT_THAT(plan.fallbacks, IsEmpty());
  // The host's kernel and the device's share their places.
  EXPECT_EQ(plan.num_state, program_.cpu->num_state);
  EXPECT_EQ(plan.states.size(), program_.cpu->states.size());
}

TEST_P(DrawnNumbersTest, AreMadeByTheHostWhereTheDeviceHasNoKernel) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry none(ops);
  SimWorld sim(programs_, 1, 2, GetParam());
  sim.set_kernels(none);
  std::vector<std::string> names;
  for (const Plan::Fallback& fallback : sim.PlanOf(program_).fallbacks) {
    if (fallback.node != "y") names.push_back(fallback.node);
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("a", "t", "w/body/r", "w/body/h"));
  ExpectTheCpus(sim);
}

// A key and a counter that the host has are not copied to the device.
TEST_P(DrawnNumbersTest, BeginWhereEitherMemorySays) {
  ASSERT_OK_AND_ASSIGN(
      program_,
      programs_.Make(R"(
    seed = Placeholder dtype=int64
    x = Placeholder dtype=double
    s = Const int32[1] 7
    alg = Const int32[] 1
    k = StatelessRandomGetKeyCounter(seed) Tseed=int64
    a = StatelessRandomUniformV2(s, k, k:1, alg) dtype=float Tshape=int32
    h = Tanh(x) T=double
    key = Bitcast(h) T=double type=uint64
    b = StatelessRandomUniformV2(s, key, k:1, alg) dtype=float Tshape=int32
  )",
                     {{"seed:0", DType::kInt64}, {"x:0", DType::kDouble}}, {"a:0", "b:0"}, {}));
  std::vector<Request> requests;
  for (const int64_t seed : {3, 4}) {
    requests.push_back({&program_, Owned(VectorOf<int64_t>({seed, 5}), VectorOf<double>({0.5}))});
  }
  CpuWorld cpu(programs_.allocator());
  SimWorld sim(programs_, 1, 2, GetParam());
  const std::vector<Outcome> expected = cpu.Run(requests), outcomes = sim.Run(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_OK(expected[i].status);
    ASSERT_OK(outcomes[i].status);
    for (int k = 0; k < 2; ++k) {
      EXPECT_EQ(ValuesOf<float>(outcomes[i].results[k]), ValuesOf<float>(expected[i].results[k]));
    }
  }
  EXPECT_EQ(PlanText(sim.PlanOf(program_)), R"(#0 = int32[1] 7
#1 = int32[] 1
0: %2@host %3@host = StatelessRandomGetKeyCounter(%0!) 'k' drop %0
1: %4@device = StatelessRandomUniformV2(#0 %2! %3 #1) 'a' drop %2
2: %5@device = copy(%1!) drop %1
3: %6@device = Tanh(%5!) 'h' drop %5
4: %7@device = Bitcast(%6!) 'key' drop %6
5: %8@device = copy(%3!) drop %3
6: %9@device = StatelessRandomUniformV2(#0 %7! %8! #1) 'b' drop %7 %8
7: return %4! %9!
)");
  EXPECT_THAT(sim.Reports(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Enqueues, DrawnNumbersTest, ::testing::Bool());

}  // namespace
}  // namespace formwork::testing
