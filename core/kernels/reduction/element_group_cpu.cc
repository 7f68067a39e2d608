// Groups of elementwise nodes, and their reductions, on the CPU: what a device runs whose work
// computes, and what is placed on the host of a plan for a device.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/elementwise/elementwise_program.h"
#include "core/kernels/reduction/reduction.h"
#include "core/kernels/register_cpu_kernels.h"

namespace formwork {
namespace {

using Program = ElementwiseProgram;

// A program, and for shapes that are not the same for all results its instructions one by one.
class GroupKernel {
 public:
  static absl::StatusOr<std::shared_ptr<const GroupKernel>> Make(const ElementGroup& group) {
    std::vector<Program::Instruction> instructions;
    std::vector<Single> singles;
    for (const ElementGroup::Instruction& from : group.instructions) {
      const absl::InlinedVector<DType, 3> dtypes = group.operand_dtypes(from);
      Program::Instruction& instruction = instructions.emplace_back();
      instruction.op = FindBlockOp(from.op, dtypes, from.dtype);
      if (instruction.op == nullptr) return Unimplemented("a group with ", from.op);
      std::copy(from.operands.begin(), from.operands.end(), instruction.operands);
      singles.push_back({std::make_unique<const Program>(
                             std::vector<DType>(dtypes.begin(), dtypes.end()),
                             std::vector<Program::Instruction>{{instruction.op, {0, 1, 2}}},
                             std::vector<uint16_t>{static_cast<uint16_t>(dtypes.size())}),
                         from.operands});
    }
    const ReductionLoops* loops = nullptr;
    if (group.reduction.has_value()) {
      loops = FindReductionLoops(group.reduction->op, group.dtype(group.outputs[0]));
      if (loops == nullptr) return Unimplemented("a group that ends in ", group.reduction->op);
    }
    return std::make_shared<const GroupKernel>(group, std::move(instructions), std::move(singles),
                                               loops);
  }

  struct Single {
    std::unique_ptr<const Program> program;
    absl::InlinedVector<uint16_t, 3> operands;
  };
  // `loops`: of the group's reduction; null where it has none.
  GroupKernel(const ElementGroup& group, std::vector<Program::Instruction> instructions,
              std::vector<Single> singles, const ReductionLoops* loops)
      : outputs_(group.outputs),
        program_(group.inputs, std::move(instructions), group.outputs),
        singles_(std::move(singles)),
        reduction_(group.reduction),
        loops_(loops) {}

  absl::Status Run(KernelContext& ctx) const {
    if (loops_ == nullptr) return RunElements(ctx);
    Tensor elements;
    KernelContext inner(ctx.call(), ctx.inputs(), absl::MakeSpan(&elements, 1));
    FORMWORK_RETURN_IF_ERROR(RunElements(inner));
    FORMWORK_ASSIGN_OR_RETURN(
        const ReductionGeometry geometry,
        PrepareReduction(reduction_->attrs, elements.shape().dims(), reduction_->axes));
    FORMWORK_ASSIGN_OR_RETURN(Tensor reduced,
                              Reduce(ctx.allocator(), loops_->whole, elements, geometry));
    ctx.SetOutput(0, std::move(reduced));
    return absl::OkStatus();
  }

 private:
  absl::Status RunElements(KernelContext& ctx) const {
    FORMWORK_ASSIGN_OR_RETURN(const bool done, program_.Run(ctx));
    return done ? absl::OkStatus() : RunSingly(ctx);
  }

  absl::Status RunSingly(KernelContext& ctx) const {
    const size_t inputs = program_.num_inputs();
    std::vector<Tensor> results(singles_.size());
    for (size_t i = 0; i < singles_.size(); ++i) {
      absl::InlinedVector<InputRef, 3> operands;
      for (const uint16_t value : singles_[i].operands) {
        operands.push_back(
            {value < inputs ? &ctx.input(value) : &results[value - inputs], /*owned=*/false});
      }
      KernelContext inner(ctx.call(), operands, absl::MakeSpan(&results[i], 1));
      FORMWORK_RETURN_IF_ERROR(singles_[i].program->Run(inner).status());
    }
    for (size_t k = 0; k < outputs_.size(); ++k) {
      ctx.SetOutput(static_cast<int>(k), results[outputs_[k] - inputs]);
    }
    return absl::OkStatus();
  }

  const std::vector<uint16_t> outputs_;
  const Program program_;
  const std::vector<Single> singles_;
  const std::optional<ElementGroup::Reduction> reduction_;
  const ReductionLoops* const loops_;
};

absl::StatusOr<KernelFn> MakeGroup(const ElementGroup& group) {
  FORMWORK_ASSIGN_OR_RETURN(auto kernel, GroupKernel::Make(group));
  return KernelFn([kernel = std::move(kernel)](KernelContext& ctx) { return kernel->Run(ctx); });
}

bool Takes(absl::string_view op, absl::Span<const DType> operands, DType result) {
  const BlockOp* const found = FindBlockOp(op, operands, result);
  return found != nullptr && found->refuses == Refusal::kNone;
}

bool Reduces(absl::string_view op, DType dtype) { return FindReductionLoops(op, dtype) != nullptr; }

}  // namespace

void RegisterGroupCpuKernels(KernelRegistry& registry) {
  registry.SetGroups({&MakeGroup, &Takes, &Reduces});
}

}  // namespace formwork
