#pragma once

// An engine as the server uses it, for tests.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/engine.h"
#include "tests/support/graph_text.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/status_matchers.h"

namespace formwork::testing {

// The functions of a While over a float that goes up from where it starts: for ever, or, from below
// zero, not at all.
inline constexpr char kSpin[] = R"(
    function cond(v: float) -> (go: bool = l:z:0)
      zero = Const float[] 0
      l = GreaterEqual(v, zero:output:0) T=float
    end
    function body(v: float) -> (w: float = n:z:0)
      one = Const float[] 1
      n = AddV2(v, one:output:0) T=float
    end
)";

// A request under way, or done.
template <typename Result>
struct PendingRequest {
  Result& Wait() {
    done.WaitForNotification();
    return result;
  }
  // For `done` of the request.
  auto Done() {
    return [this](Result made) {
      result = std::move(made);
      done.Notify();
    };
  }
  absl::Notification done;
  Result result;
  std::shared_ptr<CallHandle> handle;
};
using Pending = PendingRequest<CallResult>;
using PendingRead = PendingRequest<ReadResult>;
using PendingAssign = PendingRequest<AssignResult>;

class EngineTest : public ::testing::Test {
 protected:
  void SetUp() override { Start({}); }
  void Start(const EngineOptions& options) { engine_ = *Engine::Create(options); }

  absl::StatusOr<Registration> MakeRegistration(
      const std::string& name, absl::string_view text, std::vector<TensorSpec> inputs,
      std::vector<std::string> outputs,
      std::vector<std::pair<std::string, std::string>> variables = {}) {
    FORMWORK_ASSIGN_OR_RETURN(tf::GraphDef graph_def, ParseGraph(text));
    Registration registration;
    registration.name_space = "ns";
    registration.name = name;
    registration.graph_def = graph_def.SerializeAsString();
    registration.inputs = std::move(inputs);
    registration.outputs = std::move(outputs);
    for (const auto& [tensor, variable] : variables) {
      Argument argument;
      argument.kind = Argument::Kind::kResource;
      argument.id = IdOf(variable);
      registration.captures.emplace_back(tensor, std::move(argument));
    }
    return registration;
  }
  absl::StatusOr<Registered> Register(
      const std::string& name, absl::string_view text, std::vector<TensorSpec> inputs,
      std::vector<std::string> outputs,
      std::vector<std::pair<std::string, std::string>> variables = {},
      std::vector<std::string> targets = {}, bool replace = false) {
    FORMWORK_ASSIGN_OR_RETURN(
        Registration registration,
        MakeRegistration(name, text, std::move(inputs), std::move(outputs), std::move(variables)));
    registration.targets = std::move(targets);
    registration.replace = replace;
    return Register(std::move(registration));
  }
  absl::StatusOr<Registered> Register(Registration registration) {
    absl::Notification done;
    RegisterResult result;
    engine_
        ->Register(std::move(registration),
                   [&](RegisterResult made) {
                     result = std::move(made);
                     done.Notify();
                   })
        ->Start();
    done.WaitForNotification();
    details_ = std::move(result.details);
    if (!result.status.ok()) return result.status;
    return std::move(result.registered);
  }
  // y = x + constant.
  absl::StatusOr<Registered> RegisterAdd(const std::string& name, int constant,
                                         bool replace = false) {
    return Register(name,
                    absl::StrCat("x = Placeholder dtype=float\nc = Const float[] ", constant,
                                 "\ny = AddV2(x, c) T=float"),
                    {Spec("x:0")}, {"y:0"}, {}, {}, replace);
  }
  // Turns for ever from 0 on, or until the call is stopped; from below 0 not at all.
  uint64_t RegisterSpin(const std::string& name) {
    absl::StatusOr<Registered> made =
        Register(name,
                 absl::StrCat("x = Placeholder dtype=float\n"
                              "y = While(x) cond=@cond body=@body T=[float]\n",
                              kSpin),
                 {Spec("x:0")}, {"y:0"});
    EXPECT_OK(made);
    return made.ok() ? made->function.id : 0;
  }
  // Turns with variable v in its hands, then stores where it came to.
  uint64_t RegisterHolder(const std::string& name) {
    absl::StatusOr<Registered> made =
        Register(name,
                 absl::StrCat("v = Placeholder dtype=resource\nx = Placeholder dtype=float\n"
                              "loop = While(x) cond=@cond body=@body T=[float]\n"
                              "a = AssignVariableOp(v, loop) dtype=float\n",
                              kSpin),
                 {Spec("x:0")}, {}, {{"v:0", "v"}}, {"a"});
    EXPECT_OK(made);
    return made.ok() ? made->function.id : 0;
  }
  static TensorSpec Spec(const std::string& name, DType dtype = DType::kFloat) {
    return {name, dtype, PartialShape()};
  }

  std::unique_ptr<Pending> Begin(uint64_t id, std::vector<Tensor> inputs, bool keep = false,
                                 absl::Time deadline = absl::InfiniteFuture()) {
    CallSpec spec;
    spec.name_space = "ns";
    spec.function.id = id;
    spec.keep_outputs = keep;
    spec.deadline = deadline;
    for (Tensor& input : inputs) {
      Argument argument;
      argument.tensor = std::move(input);
      spec.inputs.push_back(std::move(argument));
    }
    return Begin(std::move(spec));
  }
  std::unique_ptr<Pending> Begin(CallSpec spec) {
    auto pending = std::make_unique<Pending>();
    pending->handle = engine_->Call(std::move(spec), pending->Done());
    pending->handle->Start();
    return pending;
  }
  CallResult Run(uint64_t id, std::vector<Tensor> inputs) {
    return std::move(Begin(id, std::move(inputs))->Wait());
  }
  float Value(uint64_t id, float x) {
    CallResult result = Run(id, Owned(Tensor::Scalar(x)));
    EXPECT_OK(result.status);
    return result.status.ok() ? result.outputs[0].tensor.scalar<float>() : NAN;
  }

  void NewVariable(const std::string& name, float value) {
    ASSERT_OK(engine_->CreateVariable("ns", name, DType::kFloat, Shape({}), Tensor::Scalar(value)));
  }
  uint64_t IdOf(const std::string& name) {
    for (const ResourceInfo& variable : engine_->ListResources("ns")) {
      if (variable.name == name) return variable.id;
    }
    return 0;
  }
  float ValueOf(const std::string& name) {
    const ReadResult result = Read({{0, name}});
    return result.status.ok() ? result.values[0].value.scalar<float>() : NAN;
  }
  std::unique_ptr<PendingRead> BeginRead(std::vector<Target> variables,
                                         absl::Time deadline = absl::InfiniteFuture()) {
    auto pending = std::make_unique<PendingRead>();
    pending->handle =
        engine_->ReadVariables({"ns", std::move(variables), deadline}, pending->Done());
    pending->handle->Start();
    return pending;
  }
  ReadResult Read(std::vector<Target> variables) {
    return std::move(BeginRead(std::move(variables))->Wait());
  }
  std::unique_ptr<PendingAssign> BeginAssign(std::vector<std::pair<Target, Tensor>> values,
                                             absl::Time deadline = absl::InfiniteFuture()) {
    auto pending = std::make_unique<PendingAssign>();
    pending->handle =
        engine_->AssignVariables({"ns", std::move(values), deadline}, pending->Done());
    pending->handle->Start();
    return pending;
  }
  AssignResult Assign(std::vector<std::pair<Target, Tensor>> values) {
    return std::move(BeginAssign(std::move(values))->Wait());
  }
  // Until that many requests wait.
  void AwaitQueued(int64_t count) {
    while (engine_->Stats().calls_queued != count) absl::SleepFor(absl::Milliseconds(1));
  }

  std::unique_ptr<Engine> engine_;
  ErrorDetails details_;
};

}  // namespace formwork::testing
