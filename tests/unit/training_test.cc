// Optimizer kernels. Expected values: TensorFlow 2.21's CPU kernels, two steps from the same start.

#include <algorithm>

#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {
namespace {

using ::testing::HasSubstr;

struct OptimizerCase {
  std::string op;
  KernelRunner::Attrs attrs;
  int variables;
  std::vector<float> scalars;
  int grad;  // Its place among the inputs.
  std::vector<std::vector<float>> expected;
};

std::vector<OptimizerCase> OptimizerCases() {
  return {
      {"ResourceApplyGradientDescent", {}, 1, {0.1f}, 2, {{1.02f, -2.03f, 0.4999f, 2.6999998f}}},
      {"ResourceApplyAdam",
       {},
       3,
       {0.9f, 0.99f, 0.1f, 0.9f, 0.99f, 0.001f},
       9,
       {{0.9257124f, -2.0961335f, 0.39120328f, 2.813252f},
        {0.14099999f, 0.275f, 0.3241f, 0.665f},
        {0.197019f, 0.29692602f, 0.39204f, 0.6584498f}}},
      {"ResourceApplyAdam",
       {{"use_nesterov", true}},
       3,
       {0.9f, 0.99f, 0.1f, 0.9f, 0.99f, 0.001f},
       9,
       {{0.93764305f, -2.0920184f, 0.40206704f, 2.794872f},
        {0.14099999f, 0.275f, 0.3241f, 0.665f},
        {0.197019f, 0.29692602f, 0.39204f, 0.6584498f}}},
      {"ResourceApplyMomentum",
       {},
       2,
       {0.1f, 0.8f},
       3,
       {{0.98319995f, -2.0572f, 0.4423f, 2.3079998f}, {-0.09199999f, 0.532f, 0.257f, 2.5200002f}}},
      {"ResourceApplyMomentum",
       {{"use_nesterov", true}},
       2,
       {0.1f, 0.8f},
       3,
       {{1.00656f, -2.07576f, 0.45373997f, 2.1464f}, {-0.09199999f, 0.532f, 0.257f, 2.5200002f}}},
      {"ResourceApplyKerasMomentum",
       {},
       2,
       {0.1f, 0.8f},
       3,
       {{1.3f, -1.582f, 1.0759001f, 3.1f}, {0.15f, 0.15800002f, 0.25590003f, 0.1f}}},
      {"ResourceApplyKerasMomentum",
       {{"use_nesterov", true}},
       2,
       {0.1f, 0.8f},
       3,
       {{1.26f, -1.6955999f, 0.96062005f, 2.78f}, {0.15f, 0.15800002f, 0.25590003f, 0.1f}}},
      {"ResourceApplyAdadelta",
       {},
       3,
       {0.1f, 0.95f, 0.001f},
       6,
       {{1.0201584f, -2.029723f, 0.49989742f, 2.8284752f},
        {0.18547499f, 0.28515f, 0.36100006f, 1.2612503f},
        {0.18562043f, 0.28532052f, 0.36100006f, 0.78094876f}}},
      {"ResourceApplyAdagrad",
       {},
       2,
       {0.1f},
       3,
       {{1.0329504f, -2.0307946f, 0.4998419f, 2.9254315f},
        {0.3f, 0.59000003f, 0.40000102f, 17.5f}}},
      {"ResourceApplyAdagrad",
       {{"update_slots", false}},
       2,
       {0.1f},
       3,
       {{1.0447214f, -2.0547721f, 0.4998419f, 2.5757358f}, {0.2f, 0.3f, 0.4f, 0.5f}}},
      {"ResourceApplyAdagradV2",
       {},
       2,
       {0.1f, 0.001f},
       4,
       {{1.0328982f, -2.0307689f, 0.49984214f, 2.9254498f},
        {0.3f, 0.59000003f, 0.40000102f, 17.5f}}},
      {"ResourceApplyRMSProp",
       {},
       3,
       {0.1f, 0.95f, 0.8f, 0.001f},
       7,
       {{0.7403394f, -2.458388f, -0.07616624f, 1.7316148f},
        {0.185475f, 0.28515f, 0.36100003f, 1.2612503f},
        {0.076809056f, 0.25565597f, 0.25616622f, 0.5142781f}}},
      {"ResourceApplyCenteredRMSProp",
       {},
       4,
       {0.1f, 0.95f, 0.8f, 0.001f},
       8,
       {{0.7416487f, -2.4645267f, -0.07620782f, 1.5897496f},
        {0.17025f, 0.28625f, 0.36104998f, 0.59125006f},
        {0.185475f, 0.28515f, 0.36100003f, 1.2612503f},
        {0.072825424f, 0.2679256f, 0.2562078f, 0.5686253f}}},
      {"ResourceApplyAdaMax",
       {},
       3,
       {0.9f, 0.1f, 0.9f, 0.99f, 0.001f},
       8,
       {{-0.423212f, -3.3878279f, -1.2313986f, 2.619666f},
        {0.14099999f, 0.275f, 0.3241f, 0.665f},
        {0.3f, 0.5f, 0.39204f, 3.96f}}},
      {"ResourceApplyFtrl",
       {},
       3,
       {0.1f, 0.01f, 0.02f, -0.5f},
       3,
       {{0.011905991f, -0.20058739f, -0.061433993f, 2.3882918f},
        {0.3f, 0.59000003f, 0.40000102f, 17.5f},
        {-0.075688034f, 1.5587645f, 0.40100053f, -100.014946f}}},
      {"ResourceApplyFtrl",
       {{"multiply_linear_by_lr", true}},
       3,
       {0.1f, 0.01f, 0.02f, -0.5f},
       3,
       {{-0.3738623f, -0.6604787f, -0.6270666f, 2.2776184f},
        {0.3f, 0.59000003f, 0.40000102f, 17.5f},
        {0.20726827f, 0.5109652f, 0.40010053f, -9.538073f}}},
      {"ResourceApplyFtrl",
       {},
       3,
       {0.1f, 0.01f, 0.02f, -0.3f},
       3,
       {{0.00836788f, -0.14397325f, -0.05120095f, 1.7938607f},
        {0.3f, 0.59000003f, 0.40000102f, 17.5f},
        {-0.068645895f, 1.2447178f, 0.4010003f, -42.41681f}}},
      {"ResourceApplyProximalGradientDescent",
       {},
       1,
       {0.1f, 0.01f, 0.02f},
       4,
       {{1.0139979f, -2.02001f, 0.49591222f, 2.6874375f}}},
      {"ResourceApplyProximalAdagrad",
       {},
       2,
       {0.1f, 0.01f, 0.02f},
       5,
       {{1.0209734f, -2.0158155f, 0.49354774f, 2.9221213f},
        {0.3f, 0.59000003f, 0.40000102f, 17.5f}}},
  };
}

const std::vector<float> kStart = {1.0f, -2.0f, 0.5f, 3.0f};
const std::vector<float> kSlots = {0.2f, 0.3f, 0.4f, 0.5f};
const std::vector<float> kGradients[] = {{0.1f, -0.2f, 0.0f, 4.0f}, {-0.3f, 0.5f, 1e-3f, -1.0f}};

template <typename T>
Tensor Converted(const std::vector<float>& values) {
  std::vector<T> converted;
  for (float value : values) converted.push_back(static_cast<T>(value));
  return VectorOf<T>(converted);
}

// Two steps over variables of `n` copies of the case's elements; n > 1 takes the parallel way.
template <typename T>
void ExpectSteps(const OptimizerCase& c, int copies, double tolerance) {
  KernelRunner run;
  const auto repeated = [copies](const std::vector<float>& values) {
    std::vector<float> all;
    for (int i = 0; i < copies; ++i) all.insert(all.end(), values.begin(), values.end());
    return Converted<T>(all);
  };
  std::vector<Tensor> handles;
  for (int i = 0; i < c.variables; ++i) {
    handles.push_back(run.NewVariable(absl::StrCat("v", i), DTypeOf<T>::value,
                                      PartialShape::Unknown(), repeated(i == 0 ? kStart : kSlots)));
  }
  KernelRunner::Attrs attrs = c.attrs;
  attrs.emplace_back("T", DTypeOf<T>::value);
  for (const std::vector<float>& gradient : kGradients) {
    std::vector<Tensor> inputs = handles;
    for (float scalar : c.scalars) inputs.push_back(Tensor::Scalar(static_cast<T>(scalar)));
    inputs.insert(inputs.begin() + c.grad, repeated(gradient));
    ASSERT_THAT(run.Op(c.op, attrs, std::move(inputs)), IsOk());
  }
  for (int i = 0; i < c.variables; ++i) {
    const Tensor value = run.ValueOf(handles[i]);
    for (int64_t k = 0; k < value.num_elements(); ++k) {
      const double expected = c.expected[i][k % 4];
      const double got = static_cast<double>(value.data<T>()[k]);
      ASSERT_NEAR(got, expected, tolerance * std::max(1.0, std::abs(expected)))
          << c.op << " variable " << i << " element " << k;
    }
  }
}

TEST(TrainingTest, OptimizersStepAsTensorFlow) {
  for (const OptimizerCase& c : OptimizerCases()) {
    ExpectSteps<float>(c, 1, 5e-7);
    ExpectSteps<double>(c, 1, 5e-6);
  }
}

TEST(TrainingTest, LargeVariablesStepAlike) {
  for (const OptimizerCase& c : OptimizerCases()) ExpectSteps<float>(c, 20000, 5e-7);
}

TEST(TrainingTest, SharedValuesAreNotOverwritten) {
  KernelRunner run;
  Tensor handle = run.NewVariable("v", DType::kFloat, PartialShape::Unknown(),
                                  VectorOf(std::vector<float>(100, 1.0f)));
  const Tensor before = run.ValueOf(handle);
  const KernelRunner::Attrs attrs = {{"T", DType::kFloat}};
  ASSERT_THAT(run.Op("ResourceApplyGradientDescent", attrs, {handle, Tensor::Scalar(0.5f), before}),
              IsOk());
  EXPECT_EQ(before.data<float>()[99], 1.0f);
  EXPECT_EQ(run.ValueOf(handle).data<float>()[99], 0.5f);
}

TEST(TrainingTest, ShapesAreCheckedBeforeAnythingIsWritten) {
  KernelRunner run;
  const PartialShape any;
  Tensor var = run.NewVariable("var", DType::kFloat, any, VectorOf<float>({1, 2}));
  Tensor accum = run.NewVariable("accum", DType::kFloat, any, VectorOf<float>({1, 2, 3}));
  Tensor none = run.NewVariable("none", DType::kFloat, any, std::nullopt);
  const Tensor grad = VectorOf<float>({1, 2});
  const Tensor lr = Tensor::Scalar(0.1f);
  const KernelRunner::Attrs attrs = {{"T", DType::kFloat}};
  const auto momentum = [&](Tensor a, Tensor b, Tensor rate, Tensor gradient) {
    return run.Op("ResourceApplyMomentum", attrs, {a, b, rate, gradient, lr}).status();
  };
  EXPECT_THAT(momentum(var, accum, lr, grad),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("var and accum do not have the same shape[2] [3]")));
  EXPECT_THAT(momentum(var, accum, grad, grad),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("lr is not a scalar: [2]")));
  EXPECT_THAT(momentum(var, var, lr, grad), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(momentum(var, none, lr, grad), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(momentum(var, Tensor::Scalar(ResourceHandle{999}), lr, grad),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(run.Op("ResourceApplyGradientDescent", attrs, {accum, lr, grad}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("var and delta do not have the same shape[3] [2]")));
  EXPECT_EQ(ValuesOf<float>(run.ValueOf(var)), (std::vector<float>{1, 2}));
}

// Of several variables all change or none.
TEST(Optimizers, AStopReachesLargeVariables) {
  constexpr int64_t n = int64_t{12} << 20;
  KernelRunner run;
  const auto filled = [](float x) {
    Tensor tensor = *Tensor::Allocate(ProcessAllocator(), DType::kFloat, Shape({n}));
    std::fill_n(tensor.mutable_data<float>(), n, x);
    return tensor;
  };
  const Tensor v = run.NewVariable("v", DType::kFloat, PartialShape(), filled(1));
  const Tensor accumulated = run.NewVariable("m", DType::kFloat, PartialShape(), filled(2));
  const auto step = [&] {
    return run.Op("ResourceApplyMomentum", {{"T", DType::kFloat}},
                  {v, accumulated, Tensor::Scalar(1.0f), filled(1), Tensor::Scalar(0.5f)});
  };
  const auto expect_all = [&](const Tensor& variable, float x) {
    const Tensor value = run.ValueOf(variable);
    const auto values = value.span<float>();
    EXPECT_EQ(std::count(values.begin(), values.end(), x), n) << x;
  };
  {
    StopFlag stop;
    stop.Cancel();
    const StopScope scope(&stop);
    EXPECT_THAT(step(), StatusIs(absl::StatusCode::kCancelled));
  }
  expect_all(v, 1);
  expect_all(accumulated, 2);
  ASSERT_THAT(step(), IsOk());
  expect_all(v, -1);
  expect_all(accumulated, 2);
}

}  // namespace
}  // namespace formwork::testing
