// Segments and counts on a GPU. An id that is out of range fails its step by the call's word.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "gpu/cuda_stream.h"
#include "gpu/determinism.h"
#include "gpu/item_kernel.h"
#include "gpu/register_kernels.h"
#include "gpu/segment_items.h"

namespace formwork {
namespace {

namespace element = formwork_element;

const SegmentOp& OpNamed(absl::string_view name) {
  for (const SegmentOp& op : SegmentOps()) {
    if (op.op == name) return op;
  }
  std::abort();  // Registered by the same table.
}

absl::StatusOr<std::unique_ptr<ItemKernel>> KernelOf(const std::string& item) {
  auto kernel = std::make_unique<ItemKernel>(SegmentSource(item), ItemKernel::OfText());
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return kernel;
}

// What empty segments have.
absl::Status FillWithFirst(const SegmentOp& op, Tensor& out, cudaStream_t stream) {
  static auto* const kernels = new UnitKernels("SetItem<", ">");
  if (op.combine == "SegmentSum") return EnqueueZeros(out, stream);
  const element::Bytes16 first = FirstOfSegment(op, out.dtype());
  const size_t bytes = DTypeSize(out.dtype());
  return WithUnit(bytes, [&](auto e) {
    element::SetItem<decltype(e)> item{};
    std::memcpy(&item.value, &first, bytes);
    item.to = static_cast<decltype(e)*>(out.mutable_raw());
    return kernels->Of(bytes).Enqueue(item, static_cast<uint64_t>(out.num_elements()), {}, stream);
  });
}

absl::StatusOr<KernelFn> MakeUnsortedSegment(KernelInit& init) {
  const SegmentOp& op = OpNamed(init.op().name);
  FORMWORK_ASSIGN_OR_RETURN(const std::string name,
                            SegmentItemName(op, init.input_dtypes()[0], init.input_dtypes()[1]));
  FORMWORK_ASSIGN_OR_RETURN(auto kernel, KernelOf(name));
  return KernelFn([&op, kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    const Tensor& data = ctx.input(0);
    const Tensor& ids = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(
        const SegmentGeometry geometry,
        PrepareUnsortedSegment(data.shape().dims(), ids.shape().dims(), &ctx.input(2)));
    FORMWORK_ASSIGN_OR_RETURN(const FailurePlace place,
                              MayFail(ctx, [count = geometry.output[0]](uint64_t where) {
                                return SegmentOutOfRange(where, count);
                              }));
    const cudaStream_t stream = CudaStreamOf(StreamOf(ctx));
    Tensor out = OutputOf(ctx, 0);
    FORMWORK_RETURN_IF_ERROR(FillWithFirst(op, out, stream));
    // Of any types: pointers and numbers alone.
    const auto item = SegmentItemOf<char, char, element::SegmentSum>(
        geometry, data, ids, out, element::MayFailItem{place.word, place.step});
    return kernel->Enqueue(item, SegmentItems(geometry, ids), place, stream);
  });
}

absl::StatusOr<KernelFn> MakeDenseBincount(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const BincountAttrs attrs, BincountAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const std::string name,
                            CountItemName(init.output_dtypes()[0], init.input_dtypes()[0]));
  FORMWORK_ASSIGN_OR_RETURN(auto kernel, KernelOf(name));
  return KernelFn([attrs, kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    const Tensor& values = ctx.input(0);
    const Tensor& weights = ctx.input(2);
    FORMWORK_RETURN_IF_ERROR(PrepareCounts(values.shape(), ctx.input(1), weights.shape()).status());
    FORMWORK_ASSIGN_OR_RETURN(const FailurePlace place,
                              MayFail(ctx, [](uint64_t) { return NegativeCounted(); }));
    const cudaStream_t stream = CudaStreamOf(StreamOf(ctx));
    Tensor bins = OutputOf(ctx, 0);
    FORMWORK_RETURN_IF_ERROR(EnqueueZeros(bins, stream));
    const auto item = CountItemOf<char, char>(values, weights, attrs.binary_output, bins,
                                              element::MayFailItem{place.word, place.step});
    return kernel->Enqueue(item, static_cast<uint64_t>(values.num_elements()), place, stream);
  });
}

}  // namespace

void RegisterSegmentKernels(KernelRegistry& registry) {
  for (const SegmentOp& op : SegmentOps()) AddOfOpenOrder(registry, op.op, &MakeUnsortedSegment);
  AddOfOpenOrder(registry, "DenseBincount", &MakeDenseBincount);
}

}  // namespace formwork
