#include "core/runtime/function_run.h"

#include <atomic>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "core/base/awaited.h"
#include "core/base/status.h"
#include "core/plan/plan.h"
#include "core/runtime/executor.h"

namespace formwork {
namespace {

// The call as its functions see it: with hidden state and named resources of their own.
class FunctionScope final : public CallScope {
 public:
  FunctionScope(CallScope& call, absl::Span<std::atomic<uint64_t>> state,
                const std::vector<ResourceHandle>& named)
      : call_(call), state_(state), named_(named) {}

  Allocator& allocator() override { return call_.allocator(); }
  ResourceAccess& resources() override { return call_.resources(); }
  void Print(absl::string_view text) override { call_.Print(text); }
  StopFlag& stop() override { return call_.stop(); }
  absl::string_view files_dir() const override { return call_.files_dir(); }
  ClientFunctions* client_functions() override { return call_.client_functions(); }
  bool keeps_thread() const override { return true; }
  std::atomic<uint64_t>& state(int index) override { return state_[first_state() + index]; }
  ResourceHandle named_resource(int index) override { return named_[index]; }
  absl::StatusOr<std::unique_ptr<FunctionRun>> NewRun(const BoundFunction& function) override {
    return MakeFunctionRun(function);
  }

 private:
  CallScope& call_;
  const absl::Span<std::atomic<uint64_t>> state_;
  const std::vector<ResourceHandle>& named_;
};

class PlanRun final : public FunctionRun {
 public:
  explicit PlanRun(const BoundFunction& bound)
      : bound_(bound), plan_(*bound_.function->plan), frame_(plan_), state_(plan_.num_state) {}

  absl::Status Run(CallScope& call, absl::Span<Tensor> args, absl::Span<Tensor> results) override {
    if (runs_) return FailedPrecondition("function '", plan_.name, "' runs already");
    FORMWORK_RETURN_IF_ERROR(Check(args));
    runs_ = true;
    auto ended = absl::MakeCleanup([this] { runs_ = false; });
    FunctionScope scope(call, absl::MakeSpan(state_), bound_.named);
    if (!std::exchange(empty_, false)) {  // An exception has left it as it was.
      for (Tensor& slot : frame_.slots) slot.Drop();
    }
    Execution run(plan_, frame_, scope, args);
    absl::StatusOr<Execution::State> state = run.Run(results);  // Its slice has no end.
    // The kernel that runs it is a part of a step, which keeps its thread.
    while (state.ok() && *state == Execution::State::kWaiting) {
      scope.awaited()->Block(call.stop());
      state = run.Run(results);
    }
    empty_ = true;
    return state.status();
  }

  absl::Span<std::atomic<uint64_t>> state() override { return absl::MakeSpan(state_); }

 private:
  absl::Status Check(absl::Span<const Tensor> args) const {
    const std::vector<DType>& expected = plan_.arg_dtypes;
    if (args.size() != expected.size()) {
      return InvalidArgument("function '", plan_.name,
                             "' has a wrong number of arguments: expected=", expected.size(),
                             " given=", args.size());
    }
    for (size_t i = 0; i < args.size(); ++i) {
      if (args[i].dtype() == expected[i]) continue;
      return InvalidArgument("function '", plan_.name, "': argument ", i,
                             " is of another dtype: expected=", DTypeName(expected[i]),
                             " given=", DTypeName(args[i].dtype()));
    }
    return absl::OkStatus();
  }

  const BoundFunction bound_;
  const Plan& plan_;
  PlanFrame frame_;
  std::vector<std::atomic<uint64_t>> state_;
  bool runs_ = false;
  bool empty_ = true;  // The frame.
};

}  // namespace

std::unique_ptr<FunctionRun> MakeFunctionRun(const BoundFunction& function) {
  return std::make_unique<PlanRun>(function);
}

}  // namespace formwork
