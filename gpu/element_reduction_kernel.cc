// Groups of elementwise nodes that end in a reduction: their compilation and launch.

#include <memory>
#include <utility>

#include "core/base/status.h"
#include "gpu/cuda_stream.h"
#include "gpu/element_kernel.h"
#include "gpu/element_reductions.h"

namespace formwork {
namespace {

constexpr unsigned kBlock = 256;

// Thread-safe once it is prepared.
class ReducedGroup {
 public:
  explicit ReducedGroup(const ElementGroup& group)
      : group_(group),
        dtype_(group.dtype(group.outputs[0])),
        op_(*FindReductionOp(group.reduction->op)) {}

  // Compiles it: what joins parts, too, so that no call waits for the compiler.
  absl::Status Prepare() {
    FORMWORK_ASSIGN_OR_RETURN(
        library_, CudaLibrary::Of(ElementReductionSource(ElementProgram::Of(group_), op_)));
    FORMWORK_ASSIGN_OR_RETURN(whole_, library_->Kernel(kReduceElementsKernel));
    FORMWORK_ASSIGN_OR_RETURN(in_parts_, library_->Kernel(kReduceElementsInPartsKernel));
    FORMWORK_ASSIGN_OR_RETURN(
        join_, CudaKernelOf(ReduceSource(op_, dtype_, dtype_, /*first=*/false, /*last=*/true),
                            kReduceKernel));
    return absl::OkStatus();
  }

  absl::Status Run(KernelContext& ctx) const {
    Tensor out = OutputOf(ctx, 0);
    if (out.num_elements() == 0) return absl::OkStatus();
    FORMWORK_ASSIGN_OR_RETURN(const ElementReduction reduction, ReductionFor(ctx));
    const cudaStream_t stream = CudaStreamOf(StreamOf(ctx));
    const void* const elements = reduction.argument.data();
    void* const result = out.mutable_raw();
    const ReducePass& first = reduction.passes[0];
    if (reduction.passes.size() == 1) return Launch(whole_, first, elements, result, stream);
    FORMWORK_ASSIGN_OR_RETURN(Buffer partial,  // Freed behind what reads it.
                              ScratchOf(ctx, first.outputs() * PartialBytes(op_, dtype_)));
    FORMWORK_RETURN_IF_ERROR(Launch(in_parts_, first, elements, partial.data(), stream));
    const void* const from = partial.data();
    return Launch(join_, reduction.passes[1], &from, result, stream);
  }

 private:
  absl::StatusOr<ElementReduction> ReductionFor(KernelContext& ctx) const {
    absl::InlinedVector<const Shape*, 8> shapes;
    absl::InlinedVector<ElementInput, 8> inputs;
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      shapes.push_back(&ctx.input(i).shape());
      inputs.push_back({ctx.input(i).raw(), shapes.back()});
    }
    Shape elements;
    FORMWORK_RETURN_IF_ERROR(group_.ElementShapes(shapes, absl::MakeSpan(&elements, 1)));
    FORMWORK_ASSIGN_OR_RETURN(
        const ReductionGeometry geometry,
        PrepareReduction(group_.reduction->attrs, elements.dims(), group_.reduction->axes));
    return ElementReduction::Make(inputs, elements, geometry.reduced);
  }

  // `from`: the first argument, as the kernel has it.
  static absl::Status Launch(cudaKernel_t kernel, const ReducePass& pass, const void* from,
                             void* to, cudaStream_t stream) {
    void* const arguments[] = {const_cast<void*>(from), &to,
                               const_cast<formwork_element::ReduceSizes*>(&pass.sizes),
                               const_cast<formwork_element::ReduceBlock*>(&pass.block)};
    return LaunchOver(kernel, pass.outputs() * pass.block.lanes, kBlock, arguments, stream);
  }

  const ElementGroup group_;
  const DType dtype_;
  const ReductionOp& op_;
  std::shared_ptr<const CudaLibrary> library_;
  cudaKernel_t whole_ = nullptr, in_parts_ = nullptr, join_ = nullptr;
};

}  // namespace

absl::StatusOr<KernelFn> MakeElementReduction(const ElementGroup& group) {
  auto kernel = std::make_unique<ReducedGroup>(group);
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return KernelFn([kernel = std::unique_ptr<const ReducedGroup>(std::move(kernel))](
                      KernelContext& ctx) { return kernel->Run(ctx); });
}

}  // namespace formwork
