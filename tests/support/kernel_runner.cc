#include "tests/support/kernel_runner.h"

#include "core/base/status.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/default_attrs.h"
#include "core/ops/register_ops.h"
#include "tests/support/op_case.h"

namespace formwork::testing {

class KernelRunner::Init final : public KernelInit {
 public:
  Init(KernelRunner& runner, const OpDef& op, AttrMap attrs, std::vector<DType> inputs,
       std::vector<DType> outputs)
      : runner_(runner),
        op_(op),
        attrs_(std::move(attrs)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)) {}
  absl::string_view node_name() const override { return "node"; }
  const OpDef& op() const override { return op_; }
  const AttrMap& attrs() const override { return attrs_; }
  absl::Span<const DType> input_dtypes() const override { return inputs_; }
  absl::Span<const DType> output_dtypes() const override { return outputs_; }
  int NewState(int count) override {
    const int first = static_cast<int>(runner_.state_.size());
    for (int i = 0; i < count; ++i) runner_.state_.emplace_back(0);
    return first;
  }

 private:
  KernelRunner& runner_;
  const OpDef& op_;
  const AttrMap attrs_;
  const std::vector<DType> inputs_;
  const std::vector<DType> outputs_;
};

KernelRunner::KernelRunner(size_t limit_bytes)
    : budget_(limit_bytes),
      allocator_(&budget_),
      ticket_(std::make_unique<AccessTicket>(store_, allocator_)) {
  RegisterOps(ops_);
  RegisterCpuKernels(kernels_);
}

absl::StatusOr<KernelFn> KernelRunner::Make(absl::string_view op, Attrs attrs,
                                            std::vector<DType> inputs, std::vector<DType> outputs) {
  const OpDef* def = ops_.Find(op);
  const KernelFactory factory = kernels_.Find(op);
  if (def == nullptr || factory == nullptr) return NotFound("no such op or kernel: ", op);
  AttrMap map = DefaultAttrs(*def);
  for (auto& [name, value] : attrs) map.Set(name, std::move(value));
  Init init(*this, *def, std::move(map), std::move(inputs), std::move(outputs));
  return factory(init);
}

absl::StatusOr<std::vector<Tensor>> KernelRunner::Run(const KernelFn& kernel,
                                                      std::vector<Tensor> inputs, int num_outputs) {
  std::vector<InputRef> refs;
  for (const Tensor& input : inputs) refs.push_back({&input, true});
  std::vector<Tensor> outputs(num_outputs);
  KernelContext context(*this, refs, absl::MakeSpan(outputs));
  FORMWORK_RETURN_IF_ERROR(kernel(context));
  return outputs;
}

absl::StatusOr<std::vector<Tensor>> KernelRunner::Op(absl::string_view op, Attrs attrs,
                                                     std::vector<Tensor> inputs) {
  const OpDef* def = ops_.Find(op);
  if (def == nullptr) return NotFound("no such op: ", op);
  AttrMap map = DefaultAttrs(*def);
  for (const auto& [name, value] : attrs) map.Set(name, value);
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<DType> outputs, ArgDTypes(def->outputs, map));
  std::vector<DType> dtypes;
  for (const Tensor& input : inputs) dtypes.push_back(input.dtype());
  FORMWORK_ASSIGN_OR_RETURN(const KernelFn kernel, Make(op, std::move(attrs), dtypes, outputs));
  return Run(kernel, std::move(inputs), static_cast<int>(outputs.size()));
}

absl::StatusOr<Tensor> KernelRunner::One(absl::string_view op, Attrs attrs,
                                         std::vector<Tensor> inputs) {
  FORMWORK_ASSIGN_OR_RETURN(std::vector<Tensor> outputs,
                            Op(op, std::move(attrs), std::move(inputs)));
  return std::move(outputs[0]);
}

Tensor KernelRunner::NewResource(absl::string_view name, ResourceType type,
                                 std::optional<Tensor> value) {
  bool existed = false;
  auto resource = store_.Create("ns", name, std::move(type), std::move(value), true, &existed);
  const uint64_t id = (*resource)->id;
  resources_.push_back({*std::move(resource), Access::kWrite});
  ticket_ = nullptr;  // Releases before the next one takes its places.
  ticket_ = std::make_unique<AccessTicket>(store_, allocator_);
  ticket_->Take(resources_, [] {});
  return Tensor::Scalar(ResourceHandle{id});
}

Tensor KernelRunner::ValueOf(const Tensor& handle) {
  return *ticket_->Read(handle.scalar<ResourceHandle>());
}

std::atomic<uint64_t>& KernelRunner::state(int index) { return state_[index]; }

}  // namespace formwork::testing
