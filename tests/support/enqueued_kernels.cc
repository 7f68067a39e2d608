#include "tests/support/enqueued_kernels.h"

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/device/host_allocator.h"
#include "core/kernels/enqueued_work.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/cannot_fail.h"
#include "core/ops/register_ops.h"
#include "tests/support/sim_device.h"

namespace formwork::testing {
namespace {

const KernelRegistry& CpuKernels() {
  static const KernelRegistry* const kernels = [] {
    auto* const ops = new OpRegistry;
    RegisterOps(*ops);
    auto* const made = new KernelRegistry(*ops);
    RegisterCpuKernels(*made);
    return made;
  }();
  return *kernels;
}

// One run of a kernel, until its turn comes.
struct Enqueued {
  std::shared_ptr<const KernelFn> kernel;
  std::deque<DeviceView> views, outputs;
  std::vector<std::pair<DeviceView*, Tensor>> inputs;  // One of both.
  std::deque<WorkVariable> variables;

  absl::Status Run() {
    static HostAllocator* const host = new HostAllocator;
    std::deque<Tensor> values;
    std::vector<InputRef> refs;
    for (auto& [view, value] : inputs) {
      values.push_back(view == nullptr ? value : view->Read(nullptr));
      refs.push_back({&values.back(), false});
    }
    std::vector<Tensor> results(outputs.size());
    WorkScope scope(*host, variables);
    KernelContext ctx(scope, refs, absl::MakeSpan(results));
    FORMWORK_RETURN_IF_ERROR((*kernel)(ctx));
    for (size_t i = 0; i < results.size(); ++i) {
      FORMWORK_RETURN_IF_ERROR(outputs[i].Write(results[i], nullptr));
    }
    return absl::OkStatus();
  }
};

absl::StatusOr<KernelFn> MakeEnqueued(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(KernelFn made, CpuKernels().Find(init.op().name)(init));
  const auto kernel = std::make_shared<const KernelFn>(std::move(made));
  return KernelFn([kernel](KernelContext& ctx) -> absl::Status {
    Stream& stream = StreamOf(ctx);
    auto run = std::make_unique<Enqueued>();
    run->kernel = kernel;
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      const Tensor& input = ctx.input(i);
      if (input.on_device()) {
        run->inputs.emplace_back(&run->views.emplace_back(input), Tensor());
      } else {
        run->inputs.emplace_back(nullptr, input);
      }
    }
    for (int i = 0; i < ctx.num_outputs(); ++i) run->outputs.emplace_back(OutputOf(ctx, i));
    for (WorkVariable& variable : static_cast<WorkScope&>(ctx.call()).variables()) {
      WorkVariable& copy = run->variables.emplace_back();
      copy.handle = variable.handle;
      copy.type = variable.type;
      copy.host = variable.host;
      // What it was has been copied to what it is to be.
      if (variable.after) {
        copy.after.emplace(variable.after->Read(&stream));
      } else if (variable.before) {
        copy.before.emplace(variable.before->Read(&stream));
      }
    }
    EnqueueKernel(stream, [run = std::move(run)] { return run->Run(); });
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterEnqueuedKernels(KernelRegistry& registry) {
  for (const std::string& op : CpuKernels().Names()) {
    if (CannotFailByValue(op) || op == "AssignAddVariableOp" || op == "AssignSubVariableOp" ||
        absl::StartsWith(op, "ResourceApply")) {
      registry.Add(op, &MakeEnqueued);
    }
  }
}

}  // namespace formwork::testing
