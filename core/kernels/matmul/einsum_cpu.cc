// Einsum as TensorFlow defines it: one or two operands, repeated labels, ellipses that broadcast.
// Each operand becomes a dense stack of matrices (diagonals taken, lonely labels summed), their
// product is taken, and its dimensions go where the output wants them (core/ops/einsum_plan.h).

#include <utility>

#include "absl/container/inlined_vector.h"
#include "core/base/status.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/kernel.h"
#include "core/kernels/matmul/batch_matmul.h"
#include "core/kernels/reduction/reduction.h"
#include "core/kernels/strided_copy.h"
#include "core/ops/einsum_plan.h"

namespace formwork {

void RegisterEinsumKernel(KernelRegistry& registry);

namespace {

void Copy(const EinsumCopy& copy, const Tensor& from, Tensor& to) {
  if (from.num_elements() == 0) return;
  CopyDims dims;
  for (size_t d = 0; d < copy.sizes.size(); ++d) {
    dims.push_back({copy.sizes[d], copy.from[d], copy.to[d]});
  }
  CopyStrided(from.dtype(), from.raw(), to.mutable_raw(), dims);
}

// The view of `value` as a tensor of its own, or `value` where it is all of that.
absl::StatusOr<Tensor> Gather(Allocator& allocator, Tensor value, const EinsumView& view) {
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(view.dims));
  if (view.IsDense()) return std::move(value).Reshaped(shape);
  FORMWORK_ASSIGN_OR_RETURN(Tensor gathered, Tensor::Allocate(allocator, value.dtype(), shape));
  Copy(Gathered(view), value, gathered);
  return gathered;
}

// What is left of the operand's input once what is summed first has been.
absl::StatusOr<Tensor> Summed(KernelContext& ctx, const EinsumOperand& operand) {
  const Tensor& input = ctx.input(operand.input);
  if (!operand.Sums()) return input;
  const ReduceFn sum = FindReduction(Reduction::kSum, input.dtype());
  if (sum == nullptr) {
    return Unimplemented("Einsum: there are no sums of ", DTypeName(input.dtype()));
  }
  FORMWORK_ASSIGN_OR_RETURN(const Tensor read, Gather(ctx.allocator(), input, operand.read));
  return Reduce(ctx.allocator(), sum, read,
                MakeReductionGeometry(operand.summed, read.shape().dims(), /*keep_dims=*/false));
}

absl::StatusOr<Tensor> Matrices(KernelContext& ctx, const EinsumOperand& operand) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor value, Summed(ctx, operand));
  FORMWORK_ASSIGN_OR_RETURN(value, Gather(ctx.allocator(), std::move(value), operand.matrices));
  return std::move(value).Reshaped(Shape::Trusted(operand.dims));
}

absl::StatusOr<Tensor> Made(KernelContext& ctx, const EinsumPlan& plan) {
  if (plan.operands.size() == 1) return Summed(ctx, plan.operands[0]);
  FORMWORK_ASSIGN_OR_RETURN(const Tensor left, Matrices(ctx, plan.operands[0]));
  FORMWORK_ASSIGN_OR_RETURN(const Tensor right, Matrices(ctx, plan.operands[1]));
  const ProductAttrs attrs = plan.product_attrs();
  return Multiply(ctx.allocator(), plan.product, left, {attrs.transpose_x, false}, right,
                  {attrs.transpose_y, false});
}

absl::StatusOr<Tensor> Einsum(KernelContext& ctx, const EinsumEquation& equation) {
  absl::InlinedVector<absl::Span<const int64_t>, 2> dims;
  for (int i = 0; i < ctx.num_inputs(); ++i) dims.push_back(ctx.input(i).shape().dims());
  FORMWORK_ASSIGN_OR_RETURN(const EinsumPlan plan, PlanEinsum(equation, dims));
  FORMWORK_ASSIGN_OR_RETURN(Tensor made, Made(ctx, plan));
  const Shape shape = Shape::Trusted(plan.output);
  if (plan.is_made) return std::move(made).Reshaped(shape);
  FORMWORK_ASSIGN_OR_RETURN(Tensor output,
                            plan.spreads ? ZeroTensor(ctx.allocator(), made.dtype(), shape)
                                         : Tensor::Allocate(ctx.allocator(), made.dtype(), shape));
  Copy(plan.arrange, made, output);
  return output;
}

absl::StatusOr<KernelFn> MakeEinsum(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  if (!CanMultiply(dtype)) {
    return Unimplemented("Einsum: dtype ", DTypeName(dtype), " is not supported");
  }
  FORMWORK_ASSIGN_OR_RETURN(
      EinsumEquation equation,
      EinsumEquation::FromAttrs(init.attrs(), static_cast<int>(init.input_dtypes().size())));
  return KernelFn([equation = std::move(equation)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(Tensor result, Einsum(ctx, equation));
    ctx.SetOutput(0, std::move(result));
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterEinsumKernel(KernelRegistry& registry) { registry.Add("Einsum", MakeEinsum); }

}  // namespace formwork
