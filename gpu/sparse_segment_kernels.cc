// Segments of rows that indices choose, and their gradients, on a GPU. Indices and ids are checked
// there, and a bad one fails its step by the call's word.

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "gpu/cuda_status.h"
#include "gpu/cuda_stream.h"
#include "gpu/determinism.h"
#include "gpu/item_kernel.h"
#include "gpu/register_kernels.h"
#include "gpu/sparse_segment_items.h"

namespace formwork {
namespace {

namespace element = formwork_element;

const SparseSegmentOp& OpNamed(absl::string_view name) {
  for (const SparseSegmentOp& op : SparseSegmentOps()) {
    if (op.op == name) return op;
  }
  std::abort();  // Registered by the same table.
}

class SparseSegmentKernel {
 public:
  SparseSegmentKernel(const SparseSegmentOp& op, const std::string& item, DType index, DType ids)
      : op_(op),
        check_(CheckRowsItemName(index, ids), SparseSegmentText()),
        count_(CountIdsItemName(ids), SparseSegmentText()),
        rows_(item, SparseSegmentText()) {}

  absl::Status Prepare() {
    FORMWORK_RETURN_IF_ERROR(check_.Prepare());
    if (counts()) FORMWORK_RETURN_IF_ERROR(count_.Prepare());
    return rows_.Prepare();
  }

  // First all indices and ids are checked; what comes behind is skipped where one is bad.
  absl::Status Run(KernelContext& ctx) {
    FORMWORK_ASSIGN_OR_RETURN(const SegmentGeometry geometry, PrepareSparseSegmentCall(op_, ctx));
    const auto n = static_cast<uint64_t>(ctx.input(1).num_elements());
    FORMWORK_ASSIGN_OR_RETURN(FailurePlace place, Check(ctx, geometry, n));
    Tensor out = OutputOf(ctx, 0);
    if (out.num_elements() == 0) return absl::OkStatus();
    const cudaStream_t stream = CudaStreamOf(StreamOf(ctx));
    if (!op_.is_gradient) {
      // Of any types, here and below: pointers and numbers alone. Data may have no rows.
      auto item = SparseSegmentItemOf<char, char, char>(op_, geometry, ctx, out);
      item.width = static_cast<uint64_t>(out.num_elements() / out.dim(0));
      return rows_.Enqueue(item, static_cast<uint64_t>(out.num_elements()), place, stream);
    }
    FORMWORK_RETURN_IF_ERROR(EnqueueZeros(out, stream));
    if (ctx.input(0).num_elements() == 0) return absl::OkStatus();
    const size_t bytes = counts() ? static_cast<size_t>(ctx.input(0).dim(0)) * sizeof(uint64_t) : 0;
    FORMWORK_ASSIGN_OR_RETURN(const Buffer counts, ScratchOf(ctx, bytes));
    void* const of_segments = counts ? counts.data() : nullptr;
    if (counts) {
      FORMWORK_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(of_segments, 0, bytes, stream));
      const element::CountIdsItem<char> item{static_cast<const char*>(ctx.input(2).raw()),
                                             static_cast<uint64_t*>(of_segments)};
      FORMWORK_RETURN_IF_ERROR(count_.Enqueue(item, n, place, stream));
    }
    return rows_.Enqueue(
        SparseSegmentGradItemOf<char, char, char>(op_, geometry, ctx, of_segments, out),
        n * static_cast<uint64_t>(geometry.width), place, stream);
  }

 private:
  bool counts() const { return op_.is_gradient && op_.scale != element::kSumOfRows; }

  absl::StatusOr<FailurePlace> Check(KernelContext& ctx, const SegmentGeometry& geometry,
                                     uint64_t n) {
    auto item = CheckRowsItemOf<char, char>(op_, geometry, ctx, {});
    FORMWORK_ASSIGN_OR_RETURN(
        const FailurePlace place,
        MayFail(ctx, [&op = op_, rows = item.rows, segments = item.segments](uint64_t where) {
          return BadRow(op, rows, segments, where);
        }));
    item.may_fail = element::MayFailItem{place.word, place.step};
    FORMWORK_RETURN_IF_ERROR(check_.Enqueue(item, n, place, CudaStreamOf(StreamOf(ctx))));
    return FailurePlace{place.word, 0};  // This step's failure counts, too.
  }

  const SparseSegmentOp& op_;  // Of the table.
  ItemKernel check_, count_, rows_;
};

absl::StatusOr<KernelFn> MakeSparseSegment(KernelInit& init) {
  const SparseSegmentOp& op = OpNamed(init.op().name);
  const DType index = init.input_dtypes()[1], ids = init.input_dtypes()[2];
  FORMWORK_ASSIGN_OR_RETURN(const std::string item,
                            SparseSegmentItemName(op, init.input_dtypes()[0], index, ids));
  auto kernel = std::make_unique<SparseSegmentKernel>(op, item, index, ids);
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return KernelFn([kernel = std::move(kernel)](KernelContext& ctx) { return kernel->Run(ctx); });
}

}  // namespace

void RegisterSparseSegmentKernels(KernelRegistry& registry) {
  for (const SparseSegmentOp& op : SparseSegmentOps()) {
    if (op.is_gradient) {
      AddOfOpenOrder(registry, op.op, &MakeSparseSegment);
    } else {
      registry.Add(op.op, &MakeSparseSegment);
    }
  }
}

}  // namespace formwork
