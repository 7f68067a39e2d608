// Einsum on a GPU: operands are copied to where a product wants them, unless they lie so already.

#include <array>
#include <memory>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "core/base/status.h"
#include "core/ops/einsum_plan.h"
#include "gpu/cuda_status.h"
#include "gpu/cuda_stream.h"
#include "gpu/item_kernel.h"
#include "gpu/matrix_product.h"
#include "gpu/register_kernels.h"

namespace formwork {
namespace {

class EinsumKernel {
 public:
  EinsumKernel(EinsumEquation equation, DType dtype)
      : equation_(std::move(equation)), dtype_(dtype) {
    if (equation_.inputs.size() == 1) return;
    for (const bool x : {false, true}) {
      for (const bool y : {false, true}) {
        products_[2 * x + y] =
            std::make_unique<MatrixProduct>(ProductAttrs{x, y}, Epilogue(), dtype);
      }
    }
  }

  absl::Status Run(KernelContext& ctx) const {
    absl::InlinedVector<absl::Span<const int64_t>, 2> dims;
    for (int i = 0; i < ctx.num_inputs(); ++i) dims.push_back(ctx.input(i).shape().dims());
    FORMWORK_ASSIGN_OR_RETURN(const EinsumPlan plan, PlanEinsum(equation_, dims));
    Tensor out = OutputOf(ctx, 0);
    if (out.num_elements() == 0) return absl::OkStatus();
    if (plan.operands.size() == 1) return Arrange(ctx, plan, ctx.input(0).raw(), out);
    if (plan.is_made) return Multiply(ctx, plan, out.mutable_raw(), out.bytes());
    int64_t elements = 1;
    for (const int64_t dim : plan.made.dims) elements *= dim;
    const size_t bytes = static_cast<size_t>(elements) * DTypeSize(dtype_);
    FORMWORK_ASSIGN_OR_RETURN(const Buffer made, ScratchOf(ctx, bytes));
    FORMWORK_RETURN_IF_ERROR(Multiply(ctx, plan, made.data(), bytes));
    return Arrange(ctx, plan, made.data(), out);
  }

 private:
  absl::Status Copy(KernelContext& ctx, const EinsumCopy& copy, const void* from, void* to) const {
    Move move;
    for (size_t d = 0; d < copy.sizes.size(); ++d) {
      move.dims.push_back({copy.sizes[d], copy.from[d], copy.to[d]});
    }
    FORMWORK_ASSIGN_OR_RETURN(const UnitCopy units, UnitCopyOf(move, DTypeSize(dtype_)));
    return EnqueueUnitCopy(units, from, to, {}, CudaStreamOf(StreamOf(ctx)));
  }

  absl::Status Arrange(KernelContext& ctx, const EinsumPlan& plan, const void* made,
                       Tensor& out) const {
    if (plan.spreads) {
      FORMWORK_CUDA_RETURN_IF_ERROR(
          cudaMemsetAsync(out.mutable_raw(), 0, out.bytes(), CudaStreamOf(StreamOf(ctx))));
    }
    return Copy(ctx, plan.arrange, made, out.mutable_raw());
  }

  // `gathered`: holds what is copied.
  absl::StatusOr<const void*> Matrices(KernelContext& ctx, const EinsumOperand& operand,
                                       Buffer& gathered) const {
    const void* const input = ctx.input(operand.input).raw();
    if (operand.matrices.IsDense()) return input;
    int64_t elements = 1;
    for (const int64_t dim : operand.dims) elements *= dim;
    FORMWORK_ASSIGN_OR_RETURN(gathered,
                              ScratchOf(ctx, static_cast<size_t>(elements) * DTypeSize(dtype_)));
    FORMWORK_RETURN_IF_ERROR(Copy(ctx, Gathered(operand.matrices), input, gathered.data()));
    return gathered.data();
  }

  absl::Status Multiply(KernelContext& ctx, const EinsumPlan& plan, void* made,
                        size_t bytes) const {
    if (plan.product.k == 0) {
      FORMWORK_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(made, 0, bytes, CudaStreamOf(StreamOf(ctx))));
      return absl::OkStatus();
    }
    Buffer left, right;  // Freed behind the product.
    FORMWORK_ASSIGN_OR_RETURN(const void* const x, Matrices(ctx, plan.operands[0], left));
    FORMWORK_ASSIGN_OR_RETURN(const void* const y, Matrices(ctx, plan.operands[1], right));
    const ProductAttrs attrs = plan.product_attrs();
    return products_[2 * attrs.transpose_x + attrs.transpose_y]->EnqueueAll(
        ctx, plan.product, plan.operands[0].dims, plan.operands[1].dims,
        {x, y, nullptr, nullptr, made});
  }

  const EinsumEquation equation_;
  const DType dtype_;
  // Of two operands, by which are transposed.
  std::array<std::unique_ptr<MatrixProduct>, 4> products_;
};

absl::StatusOr<KernelFn> MakeEinsum(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  FORMWORK_ASSIGN_OR_RETURN(
      EinsumEquation equation,
      EinsumEquation::FromAttrs(init.attrs(), static_cast<int>(init.input_dtypes().size())));
  if (HasSums(equation)) return Unimplemented("Einsum with sums of one operand on a GPU");
  const bool takes = equation.inputs.size() == 1 ? IsPlainData(dtype) : MatrixProduct::Takes(dtype);
  if (!takes) return Unimplemented("Einsum of ", DTypeName(dtype), " on a GPU");
  auto kernel = std::make_unique<EinsumKernel>(std::move(equation), dtype);
  return KernelFn([kernel = std::move(kernel)](KernelContext& ctx) { return kernel->Run(ctx); });
}

}  // namespace

void RegisterEinsumKernels(KernelRegistry& registry) { registry.Add("Einsum", &MakeEinsum); }

}  // namespace formwork
