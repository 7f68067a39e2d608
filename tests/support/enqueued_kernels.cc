#include "tests/support/enqueued_kernels.h"

#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/device/host_allocator.h"
#include "core/kernels/enqueued_work.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/cannot_fail.h"
#include "core/ops/random.h"
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
  std::optional<FailurePlace> may_fail;  // Else its op cannot.
  std::shared_ptr<absl::Status> failure;
  std::deque<DeviceView> views, outputs;
  std::vector<bool> stored;                            // By output: it may be a variable's value,
  std::vector<std::unique_ptr<DeviceView>> befores;    // and was this; null: it lies there.
  std::vector<std::pair<DeviceView*, Tensor>> inputs;  // One of both.
  std::deque<WorkVariable> variables;

  // What fails is the call's, and not the stream's.
  absl::Status Run() {
    if (!may_fail) return RunKernel();
    if (may_fail->word->failed_step() != 0) {
      // Undefined elsewhere; here no more than that a bool is one.
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (befores[i] != nullptr) {
          FORMWORK_RETURN_IF_ERROR(outputs[i].Write(befores[i]->Read(nullptr), nullptr));
        } else if (!stored[i]) {
          std::memset(outputs[i].block.data, 0, outputs[i].block.bytes);
        }
      }
      return absl::OkStatus();
    }
    *failure = RunKernel();
    if (!failure->ok()) may_fail->word->Fail(may_fail->step, 0);
    return absl::OkStatus();
  }

  absl::Status RunKernel() {
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

// `may_fail`: or changes variables. `stored`: outputs that may be variables' next values.
KernelFn EnqueuedFrom(KernelFn made, bool may_fail, std::vector<bool> stored) {
  const auto kernel = std::make_shared<const KernelFn>(std::move(made));
  return KernelFn([kernel, may_fail,
                   stored = std::move(stored)](KernelContext& ctx) -> absl::Status {
    Stream& stream = StreamOf(ctx);
    auto run = std::make_unique<Enqueued>();
    run->kernel = kernel;
    run->stored = stored;
    if (may_fail) {
      run->failure = std::make_shared<absl::Status>();
      FORMWORK_ASSIGN_OR_RETURN(
          run->may_fail, MayFail(ctx, [failure = run->failure](uint64_t) { return *failure; }));
    }
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      const Tensor& input = ctx.input(i);
      if (input.on_device()) {
        run->inputs.emplace_back(&run->views.emplace_back(input), Tensor());
      } else {
        run->inputs.emplace_back(nullptr, input);
      }
    }
    for (int i = 0; i < ctx.num_outputs(); ++i) {
      run->outputs.emplace_back(OutputOf(ctx, i));
      const Tensor before = ValueBefore(ctx, i);
      run->befores.push_back(before.has_value() ? std::make_unique<DeviceView>(before) : nullptr);
    }
    for (WorkVariable& variable : static_cast<WorkScope&>(ctx.call()).variables()) {
      WorkVariable& copy = run->variables.emplace_back();
      copy.handle = variable.handle;
      copy.type = variable.type;
      if (variable.host.has_value()) return Internal("a variable in host memory");
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

absl::StatusOr<KernelFn> MakeEnqueued(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(KernelFn made, CpuKernels().Find(init.op().name)(init));
  return EnqueuedFrom(std::move(made), !CannotFailByValue(init.op().name, init.output_dtypes()),
                      std::vector<bool>(init.output_dtypes().size()));
}

absl::StatusOr<KernelFn> MakeEnqueuedGroup(const ElementGroup& group) {
  FORMWORK_ASSIGN_OR_RETURN(KernelFn made, CpuKernels().groups()->make(group));
  std::vector<bool> stored(group.outputs.size());
  for (const ElementGroup::Store& store : group.stores) stored[store.output] = true;
  return EnqueuedFrom(std::move(made), !group.stores.empty(), std::move(stored));
}

// The call for a kernel that draws when it is issued: its sequence, and memory of the host.
class DrawScope final : public CallScope {
 public:
  explicit DrawScope(CallScope& call) : call_(call) {}

  Allocator& allocator() override {
    static HostAllocator* const host = new HostAllocator;
    return *host;
  }
  ResourceAccess& resources() override { return call_.resources(); }
  void Print(absl::string_view /*text*/) override {}
  StopFlag& stop() override { return call_.stop(); }
  std::atomic<uint64_t>& state(int index) override { return call_.state(index); }
  ResourceHandle named_resource(int /*index*/) override { return {}; }

 private:
  CallScope& call_;
};

// A GPU's kernel takes its place in a sequence when it is issued. This one draws then, too, and
// enqueues that what it has drawn is put where it belongs.
absl::StatusOr<KernelFn> MakeDrawn(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(KernelFn made, CpuKernels().Find(init.op().name)(init));
  const auto kernel = std::make_shared<const KernelFn>(std::move(made));
  return KernelFn([kernel](KernelContext& ctx) -> absl::Status {
    std::vector<InputRef> refs;
    for (int i = 0; i < ctx.num_inputs(); ++i) refs.push_back({&ctx.input(i), false});
    std::vector<Tensor> drawn(1);
    DrawScope scope(ctx.call());
    KernelContext now(scope, refs, absl::MakeSpan(drawn));
    FORMWORK_RETURN_IF_ERROR((*kernel)(now));
    EnqueueKernel(StreamOf(ctx),
                  [output = std::make_shared<DeviceView>(OutputOf(ctx, 0)),
                   value = std::move(drawn[0])] { return output->Write(value, nullptr); });
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterEnqueuedKernels(KernelRegistry& registry) {
  for (const std::string& op : CpuKernels().Names()) {
    registry.Add(op, FillsFromSequence(op) ? &MakeDrawn : &MakeEnqueued);
  }
  registry.SetGroups(
      {&MakeEnqueuedGroup, CpuKernels().groups()->takes, CpuKernels().groups()->reduces});
  registry.SetAttention(
      [](const AttentionKind& kind) { return CpuKernels().TakesAttention(kind); });
}

}  // namespace formwork::testing
