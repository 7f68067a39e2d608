// An engine on a device that has kernels for some ops alone.

#include <cmath>

#include "core/kernels/kernel.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/register_ops.h"
#include "tests/support/sim_device.h"
#include "tests/unit/engine_fixture.h"

namespace formwork::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

void RegisterTanhAlone(KernelRegistry& registry) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry cpu(ops);
  RegisterCpuKernels(cpu);
  registry.Add("Tanh", cpu.Find("Tanh"));
}

constexpr char kText[] = R"(
  x = Placeholder dtype=float
  h = Tanh(x) T=float device="/device:GPU:7"
  s = Softplus(h) T=float
  t = Softplus(s) T=float
  y = Exp(t) T=float device="/device:CPU:0"
)";

class EngineDeviceTest : public EngineTest {
 protected:
  void SetUp() override {
    device_.RunByItself();
    EngineOptions options;
    options.device = &device_;
    options.register_device_kernels = &RegisterTanhAlone;
    options.on_missing_device = [this](absl::string_view device) { missing_.emplace_back(device); };
    Start(options);
  }
  void TearDown() override {
    engine_.reset();
    device_.RunAll();
    EXPECT_THAT(device_.Reports(), ::testing::IsEmpty());
  }

  SimDevice device_{1};
  std::vector<std::string> missing_;
};

TEST_F(EngineDeviceTest, WhatTheHostDoesForTheDeviceIsNamedAndCounted) {
  ASSERT_OK(Register("f", kText, {{"x:0", DType::kFloat, Shape()}}, {"y:0"}).status());
  ASSERT_OK_AND_ASSIGN(std::string text, engine_->DescribeFunction("ns", "f", false, nullptr));
  EXPECT_THAT(text, HasSubstr("On the host, for the device has no kernel: Softplus (2 nodes)"));
  EXPECT_THAT(text, Not(HasSubstr("Tanh")));
  EXPECT_THAT(engine_->Stats().fallbacks, ElementsAre(Pair("Softplus", 2)));
}

// Loads and stores are no kernels: a variable stays on the device, whatever that can compute.
TEST_F(EngineDeviceTest, VariablesNeedNoKernel) {
  NewVariable("v", 1);
  ASSERT_OK_AND_ASSIGN(const Registered made, Register("f", R"(
                 v = Placeholder dtype=resource
                 r = ReadVariableOp(v) dtype=float
                 h = Tanh(r) T=float
                 s = Softplus(r) T=float
                 d = Sub(s, h) T=float
                 a = AssignVariableOp(v, d) dtype=float
               )",
                                                       {}, {"h:0"}, {{"v:0", "v"}}, {"a"}));
  ASSERT_OK_AND_ASSIGN(std::string text, engine_->DescribeFunction("ns", "f", false, nullptr));
  EXPECT_THAT(text, HasSubstr("On the host, for the device has no kernel: Softplus (1 node), Sub"));
  EXPECT_THAT(text, Not(HasSubstr("VariableOp")));
  double v = 1;
  for (int i = 0; i < 3; ++i) {
    const CallResult result = Run(made.function.id, {});
    ASSERT_OK(result.status);
    EXPECT_NEAR(result.outputs[0].tensor.scalar<float>(), std::tanh(v), 1e-5);
    v = std::log1p(std::exp(v)) - std::tanh(v);
    EXPECT_NEAR(ValueOf("v"), v, 1e-5);
  }
}

// Plans are shared between functions, but not these.
TEST_F(EngineDeviceTest, ABranchStaysWhereAVariableHadNoValue) {
  EngineOptions options;
  options.device = &device_;
  Start(options);
  for (const char* name : {"v", "w"}) {
    std::optional<Tensor> value;
    if (*name == 'v') value = Tensor::Scalar(1.0f);
    ASSERT_OK(engine_->CreateVariable("ns", name, DType::kFloat, Shape(), value).status());
  }
  const auto plan_of = [&](const std::string& name, const std::string& variable) {
    EXPECT_OK(Register(name, R"(
      v = Placeholder dtype=resource
      x = Placeholder dtype=float
      nought = Const float[] 0
      p = Greater(x, nought) T=float
      y = If(p, v, x) Tcond=bool Tin=[resource,float] Tout=[float] then_branch=@keep else_branch=@not
      function keep(v: resource, x: float) -> (r: float = x) runs(a)
        a = AssignVariableOp(v, x) dtype=float
      end
      function not(v: resource, x: float) -> (r: float = n:y:0)
        n = Neg(x) T=float
      end
    )",
                       {{"x:0", DType::kFloat, Shape()}}, {"y:0"}, {{"v:0", variable}}, {"y"})
                  .status());
    return engine_->DescribeFunction("ns", name, true, nullptr).value();
  };
  const auto run = [&](const std::string& name, float x) {
    return Run(engine_->ListFunctions("ns")[name == "of_v" ? 0 : 1].id, Owned(Tensor::Scalar(x)));
  };
  EXPECT_THAT(plan_of("of_v", "v"), Not(HasSubstr("branch")));
  EXPECT_THAT(plan_of("of_w", "w"), HasSubstr("branch"));
  for (const char* name : {"of_v", "of_w"}) {
    const CallResult skipped = run(name, -2);
    ASSERT_OK(skipped.status);
    EXPECT_EQ(skipped.outputs[0].tensor.scalar<float>(), 2);
  }
  EXPECT_EQ(ValueOf("v"), 1);
  for (const char* name : {"of_v", "of_w"}) ASSERT_OK(run(name, 3).status);
  EXPECT_EQ(ValueOf("v"), 3);
  EXPECT_EQ(ValueOf("w"), 3);
  EXPECT_THAT(plan_of("of_w_with_value", "w"), Not(HasSubstr("branch")));
}

TEST_F(EngineDeviceTest, ADeviceThatIsNotHereIsToldOfOnce) {
  ASSERT_OK(Register("f", kText, {{"x:0", DType::kFloat, Shape()}}, {"y:0"}).status());
  ASSERT_OK(Register("g", kText, {{"x:0", DType::kFloat, Shape()}}, {"t:0"}).status());
  EXPECT_THAT(missing_, ElementsAre("/device:GPU:7"));
}

}  // namespace
}  // namespace formwork::testing
