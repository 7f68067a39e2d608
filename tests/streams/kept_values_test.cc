// What follows from variables alone is kept from call to call on a device, too: made anew where a
// variable has changed, and there for whoever still uses it.

#include <atomic>
#include <cmath>

#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/register_ops.h"
#include "tests/streams/stream_world.h"
#include "tests/support/kernel_runner.h"

namespace formwork::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::atomic<int> made = 0;  // How often Exp has run.
std::atomic<bool> fails = false;

absl::StatusOr<KernelFn> MakeCountedExp(KernelInit& /*init*/) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    ++made;
    if (fails) return absl::InternalError("it fails");
    const Tensor& x = ctx.input(0);
    absl::StatusOr<Tensor*> y = ctx.AllocateOutput(0, x.dtype(), x.shape());
    if (!y.ok()) return y.status();
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      (*y)->mutable_data<float>()[i] = std::exp(x.data<float>()[i]);
    }
    return absl::OkStatus();
  });
}

class KeptValuesTest : public ::testing::Test {
 protected:
  KeptValuesTest() {
    RegisterOps(ops_);
    RegisterCpuKernels(cpu_);
    for (const std::string& op : cpu_.Names()) {
      kernels_.Add(op, op == "Exp" ? &MakeCountedExp : cpu_.Find(op));
    }
  }
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(set_, programs_.Make(R"(
      x = Placeholder dtype=float
      v = VarHandleOp dtype=float shape=shape:[32,32] shared_name="v"
      a = AssignVariableOp(v, x) dtype=float
    )",
                                              {{"x:0", DType::kFloat}}, {}, {"a"}));
    // Parts on several streams, of what is kept and of what is not.
    ASSERT_OK_AND_ASSIGN(use_, programs_.Make(R"(
      x = Placeholder dtype=float
      v = VarHandleOp dtype=float shape=shape:[32,32] shared_name="v"
      w = ReadVariableOp(v) dtype=float
      e = Exp(w) T=float
      f = MatMul(e, w) T=float
      g = MatMul(w, e) T=float
      h = MatMul(x, f) T=float
      i = MatMul(g, x) T=float
      j = MatMul(h, x) T=float
      k = MatMul(x, i) T=float
      y = AddV2(j, k) T=float
    )",
                                              {{"x:0", DType::kFloat}}, {"y:0"}, {}));
  }
  Tensor Matrix(float scale) {
    std::vector<float> values(32 * 32);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = scale * (static_cast<float>(i % 7) - 3.0f);
    }
    return VectorOf<float>(values).Reshaped(Shape({32, 32}));
  }
  Request Set(float scale) { return {&set_, Owned(Matrix(scale))}; }
  Request Use() { return {&use_, Owned(Matrix(0.01f))}; }
  static void Succeed(SimWorld& sim, const std::vector<Request>& requests) {
    for (const Outcome& outcome : sim.Run(requests)) ASSERT_OK(outcome.status);
  }

  OpRegistry ops_;
  KernelRegistry cpu_{ops_}, kernels_{ops_};
  Programs programs_;
  Program set_, use_;
};

TEST_F(KeptValuesTest, AreMadeOnceForEachValueOfTheVariables) {
  SimWorld sim(programs_, 1, 4);
  sim.set_streams_per_call(3);
  sim.set_kernels(kernels_);
  Succeed(sim, {Set(0.1f)});
  made = 0;
  Succeed(sim, {Use()});
  EXPECT_EQ(made, 1);
  Succeed(sim, {Use()});
  Succeed(sim, {Use(), Use()});
  EXPECT_EQ(made, 1);
  Succeed(sim, {Set(0.2f)});
  // A change makes it wait: the next two calls find nothing, the one behind them does.
  Succeed(sim, {Use()});
  Succeed(sim, {Use()});
  EXPECT_EQ(made, 3);
  Succeed(sim, {Use()});
  EXPECT_EQ(made, 3);
  EXPECT_THAT(PlanText(sim.PlanOf(use_)), HasSubstr("recall"));
  EXPECT_THAT(sim.Reports(), IsEmpty());
}

TEST_F(KeptValuesTest, GiveWhatTheCpuDoesWhateverIsUnderWay) {
  std::vector<Request> requests;
  for (int round = 0; round < 3; ++round) {
    requests.push_back(Set(0.1f * static_cast<float>(round + 1)));
    for (int i = 0; i < 8; ++i) requests.push_back(Use());
  }
  CpuWorld cpu(programs_.allocator());
  const std::vector<Outcome> expected = cpu.Run(requests);
  int fewest = 24;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SimWorld sim(programs_, seed, 6);
    sim.set_streams_per_call(3);
    sim.set_kernels(kernels_);
    made = 0;
    const std::vector<Outcome> outcomes = sim.Run(requests);
    fewest = std::min(fewest, made.load());
    for (size_t i = 0; i < outcomes.size(); ++i) {
      ASSERT_OK(outcomes[i].status);
      for (size_t k = 0; k < outcomes[i].results.size(); ++k) {
        EXPECT_THAT(ValuesOf<float>(outcomes[i].results[k]),
                    ::testing::Pointwise(::testing::FloatNear(1e-3f),
                                         ValuesOf<float>(expected[i].results[k])))
            << seed;
      }
    }
    ASSERT_THAT(sim.Reports(), IsEmpty()) << seed;
  }
  EXPECT_LT(fewest, 24);  // Calls do find it.
}

TEST_F(KeptValuesTest, AreNotKeptOfACallThatFails) {
  SimWorld sim(programs_, 1, 4);
  sim.set_streams_per_call(3);
  sim.set_kernels(kernels_);
  Succeed(sim, {Set(0.1f)});
  made = 0;
  fails = true;
  EXPECT_THAT(sim.Run({Use()})[0].status, StatusIs(absl::StatusCode::kInternal));
  fails = false;
  Succeed(sim, {Use()});
  EXPECT_EQ(made, 2);
  Succeed(sim, {Use()});
  EXPECT_EQ(made, 2);
  EXPECT_THAT(sim.Reports(), IsEmpty());
}

}  // namespace
}  // namespace formwork::testing
