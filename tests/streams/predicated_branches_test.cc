// Branches that became selects, on the simulated device: whatever the schedule, calls give what
// they give on the CPU, where the branches are, one after the other, and no step waits for a
// predicate.

#include <cstring>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/streams/stream_world.h"
#include "tests/support/kernel_runner.h"

namespace formwork::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kHead[] = R"(
  x = Placeholder dtype=float
  g = EnsureShape(x) T=float shape=shape:[4]
  w = VarHandleOp dtype=float shape=shape:[4] shared_name="w"
  m = VarHandleOp dtype=float shape=shape:[4] shared_name="m"
  scale = VarHandleOp dtype=float shape=shape:[] shared_name="scale"
  good = VarHandleOp dtype=int64 shape=shape:[] shared_name="good"
)";

constexpr char kInitial[] = R"(
  one = Const float[] 1024
  zero = Const int64[] 0
  a = AssignVariableOp(w, g) dtype=float
  b = AssignVariableOp(m, g) dtype=float
  c = AssignVariableOp(scale, one) dtype=float
  d = AssignVariableOp(good, zero) dtype=int64
)";

constexpr char kValues[] = R"(
  ow = ReadVariableOp(w) dtype=float
  om = ReadVariableOp(m) dtype=float
  os = ReadVariableOp(scale) dtype=float
  og = ReadVariableOp(good) dtype=int64
)";

// A step of mixed precision: gradients of a scaled loss are applied where all are finite, and the
// scale is doubled after three of those; else they are skipped and it is halved.
constexpr char kLossScaling[] = R"(
  first = Const int32[1] 0
  scaled = Mul(g, os) T=float
  gradient = RealDiv(scaled, os) T=float
  each = IsFinite(gradient) T=float
  finite = All(each, first)
  y = If(finite, w, m, scale, good, gradient) Tcond=bool Tin=[resource,resource,resource,resource,float] Tout=[float] then_branch=@apply else_branch=@skip
  function apply(w: resource, m: resource, scale: resource, good: resource, g: float) -> (r: float = less:z:0) runs(a, b, c)
    keep = Const float[] 0.9
    rate = Const float[] 0.1
    two = Const int64[] 2
    om = ReadVariableOp(m) dtype=float
    kept = Mul(om:value:0, keep:output:0) T=float
    moment = AddV2(kept:z:0, g) T=float
    a = AssignVariableOp(m, moment:z:0) dtype=float
    by = Mul(moment:z:0, rate:output:0) T=float
    ow = ReadVariableOp(w) dtype=float
    less = Sub(ow:value:0, by:z:0) T=float
    b = AssignVariableOp(w, less:z:0) dtype=float
    og = ReadVariableOp(good) dtype=int64
    full = GreaterEqual(og:value:0, two:output:0) T=int64
    c = If(full:z:0, scale, good) Tcond=bool Tin=[resource,resource] Tout=[] then_branch=@grow else_branch=@count
  end
  function grow(scale: resource, good: resource) -> () runs(a, b)
    two = Const float[] 2
    zero = Const int64[] 0
    o = ReadVariableOp(scale) dtype=float
    n = Mul(o:value:0, two:output:0) T=float
    a = AssignVariableOp(scale, n:z:0) dtype=float
    b = AssignVariableOp(good, zero:output:0) dtype=int64
  end
  function count(scale: resource, good: resource) -> () runs(a)
    one = Const int64[] 1
    a = AssignAddVariableOp(good, one:output:0) dtype=int64
  end
  function skip(w: resource, m: resource, scale: resource, good: resource, g: float) -> (r: float = ow:value:0) runs(a, b)
    half = Const float[] 0.5
    zero = Const int64[] 0
    ow = ReadVariableOp(w) dtype=float
    o = ReadVariableOp(scale) dtype=float
    n = Mul(o:value:0, half:output:0) T=float
    a = AssignVariableOp(scale, n:z:0) dtype=float
    b = AssignVariableOp(good, zero:output:0) dtype=int64
  end
)";

// A running largest value, by tf.cond with an assignment in one branch.
constexpr char kOneBranch[] = R"(
  first = Const int32[1] 0
  new = Max(g, first) T=float
  old = Max(ow, first) T=float
  more = Greater(new, old) T=float
  y = If(more, w, g) Tcond=bool Tin=[resource,float] Tout=[float] then_branch=@keep else_branch=@not
  function keep(w: resource, g: float) -> (r: float = g) runs(a)
    a = AssignVariableOp(w, g) dtype=float
  end
  function not(w: resource, g: float) -> (r: float = o:value:0)
    o = ReadVariableOp(w) dtype=float
  end
)";

struct Case {
  const char* text;
  bool enqueues;
};

class PredicatedBranchesTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    initial_ = Make(absl::StrCat(kHead, kInitial), {}, {"a", "b", "c", "d"});
    read_ = Make(absl::StrCat(kHead, kValues), {"ow:0", "om:0", "os:0", "og:0"}, {});
    step_ = Make(absl::StrCat(kHead, kValues, GetParam().text),
                 {"y:0", "ow:0", "om:0", "os:0", "og:0"}, {"y"});
  }
  Program Make(const std::string& text, const std::vector<std::string>& fetches,
               const std::vector<std::string>& targets) {
    absl::StatusOr<Program> program =
        programs_.Make(text, {{"x:0", DType::kFloat}}, fetches, targets);
    EXPECT_OK(program);
    return *std::move(program);
  }
  // Steps of which some have gradients that are not finite once they are scaled, and reads between
  // them.
  std::vector<Request> Requests(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<Request> requests;
    for (int i = 0; i < 24; ++i) {
      std::vector<float> x(4);
      for (float& value : x) value = static_cast<float>(random() % 2001) / 1000 - 1;
      if (random() % 3 == 0) x[random() % 4] = 3e38f;
      if (random() % 8 == 0) x[random() % 4] = std::numeric_limits<float>::quiet_NaN();
      const Program& program = random() % 5 == 0 ? read_ : step_;
      requests.push_back({&program, Owned(VectorOf<float>(x)), random() % 4 == 0});
    }
    return requests;
  }
  static bool Same(const Outcome& a, const Outcome& b) {
    if (a.status != b.status || a.results.size() != b.results.size()) return false;
    for (size_t i = 0; i < a.results.size(); ++i) {
      if (a.results[i].shape() != b.results[i].shape() ||
          std::memcmp(a.results[i].raw(), b.results[i].raw(), a.results[i].bytes()) != 0) {
        return false;
      }
    }
    return true;
  }

  Programs programs_;
  Program initial_, read_, step_;
};

TEST_P(PredicatedBranchesTest, NoStepWaitsForThePredicate) {
  SimWorld sim(programs_, 1, 2, GetParam().enqueues);
  EXPECT_THAT(PlanText(*step_.cpu), HasSubstr("branch"));
  EXPECT_THAT(PlanText(sim.PlanOf(step_)),
              AllOf(Not(HasSubstr("branch")), Not(HasSubstr("@host = copy"))));
}

TEST_P(PredicatedBranchesTest, CallsGiveWhatBranchesGiveOnTheCpu) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const std::vector<Request> requests = Requests(seed);
    const Request first = {&initial_, Owned(VectorOf<float>({0.5f, -0.5f, 0, 2}))};
    CpuWorld cpu(programs_.allocator());
    cpu.Run({first});
    const std::vector<Outcome> expected = cpu.Run(requests);
    SimWorld sim(programs_, seed, 4, GetParam().enqueues);
    sim.set_streams_per_call(1 + static_cast<int>(seed % 2));
    sim.Run({first});
    const std::vector<Outcome> outcomes = sim.Run(requests);
    for (size_t i = 0; i < outcomes.size(); ++i) {
      ASSERT_OK(expected[i].status);
      ASSERT_TRUE(Same(outcomes[i], expected[i]))
          << "seed " << seed << ", call " << i << ": " << outcomes[i].status;
    }
    ASSERT_THAT(sim.Reports(), IsEmpty()) << "seed " << seed;
  }
}

// What came before them has failed: nothing is stored.
TEST_P(PredicatedBranchesTest, NothingIsStoredAfterAFailure) {
  SimWorld sim(programs_, 1, 2, GetParam().enqueues);
  const Program failing =
      Make(absl::StrCat(kHead, kValues,
                        "axis = Const int32[] 0\n"
                        "many = Cast(g) SrcT=float DstT=int32\n"
                        "f = GatherV2(g, many, axis) Tparams=float Tindices=int32 Taxis=int32\n",
                        GetParam().text),
           {"f:0", "y:0"}, {"y"});
  sim.Run({{&initial_, Owned(VectorOf<float>({0, 0, 0, 0}))}});
  const std::vector<Outcome> outcomes = sim.Run({{&failing, Owned(VectorOf<float>({7, 1, 2, 3}))},
                                                 {&read_, Owned(VectorOf<float>({0, 0, 0, 0}))}});
  EXPECT_THAT(outcomes[0].status,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("node 'f'")));
  ASSERT_OK(outcomes[1].status);
  EXPECT_EQ(ValuesOf<float>(outcomes[1].results[0]), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(outcomes[1].results[2].scalar<float>(), 1024);
  EXPECT_THAT(sim.Reports(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Devices, PredicatedBranchesTest,
                         ::testing::Values(Case{kLossScaling, false}, Case{kLossScaling, true},
                                           Case{kOneBranch, false}, Case{kOneBranch, true}),
                         [](const auto& info) {
                           return absl::StrCat(
                               info.param.text == kLossScaling ? "LossScaling" : "OneBranch",
                               info.param.enqueues ? "Enqueues" : "Computes");
                         });

}  // namespace
}  // namespace formwork::testing
