// Choices, one-hot values, bands of matrices, ranges and sums of several values on a GPU.

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/ops/elementwise.h"
#include "core/ops/fill.h"
#include "gpu/array_items.h"
#include "gpu/cuda_stream.h"
#include "gpu/element_source.h"
#include "gpu/item_kernel.h"
#include "gpu/moves.h"
#include "gpu/register_kernels.h"

namespace formwork {
namespace {

std::unique_ptr<ItemKernel> KernelOf(const std::string& item) {
  return std::make_unique<ItemKernel>(ArraySource(item), ItemKernel::OfText());
}

absl::Status Refuse(const KernelInit& init, DType dtype) {
  return Unimplemented(init.op().name, " of ", DTypeName(dtype), " on a GPU");
}

// The name of the unit that elements of a plain dtype are moved as; empty: of another dtype.
std::string UnitName(DType dtype) {
  const size_t bytes = DTypeSize(dtype);
  if (!IsPlainData(dtype)) return "";
  return bytes == 16 ? "Bytes16" : absl::StrCat("uint", 8 * bytes, "_t");
}

uint64_t ElementsOf(const Tensor& out) { return static_cast<uint64_t>(out.num_elements()); }

template <bool kByRows>
absl::StatusOr<KernelFn> MakeSelect(KernelInit& init) {
  const DType dtype = init.input_dtypes()[1];
  const std::string unit = UnitName(dtype);
  if (unit.empty()) return Refuse(init, dtype);
  auto kernel = KernelOf(absl::StrCat("SelectItem<", unit, ">"));
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return KernelFn([kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const SelectPlan plan,
        PlanSelect(ctx.input(0).shape(), ctx.input(1).shape(), ctx.input(2).shape(), kByRows));
    Tensor out = OutputOf(ctx, 0);
    // Of any unit: pointers and numbers alone.
    return kernel->Enqueue(SelectItemOf<char>(plan, ctx, out), ElementsOf(out), {},
                           CudaStreamOf(StreamOf(ctx)));
  });
}

absl::StatusOr<KernelFn> MakeOneHot(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const OneHotAttrs attrs, OneHotAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.output_dtypes()[0], index = init.input_dtypes()[0];
  const std::string unit = UnitName(dtype);
  if (unit.empty()) return Refuse(init, dtype);
  auto kernel = KernelOf(absl::StrCat("OneHotItem<", unit, ", ", ElementTypeName(index), ">"));
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return KernelFn([attrs, kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const OneHotGeometry geometry,
        PrepareOneHot(attrs, ctx.input(0).shape().dims(), &ctx.input(1),
                      ctx.input(2).shape().dims(), ctx.input(3).shape().dims()));
    Tensor out = OutputOf(ctx, 0);
    return kernel->Enqueue(OneHotItemOf<char, char>(geometry, ctx, out), ElementsOf(out), {},
                           CudaStreamOf(StreamOf(ctx)));
  });
}

absl::StatusOr<KernelFn> MakeMatrixBandPart(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  const std::string unit = UnitName(dtype);
  if (unit.empty()) return Refuse(init, dtype);
  auto kernel = KernelOf(absl::StrCat("BandItem<", unit, ">"));
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return KernelFn([kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    const Tensor& from = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(
        const BandPart part,
        PrepareMatrixBandPart(from.shape().dims(), ctx.input(1), ctx.input(2)));
    Tensor out = OutputOf(ctx, 0);
    return kernel->Enqueue(BandItemOf<char>(part, from, out), ElementsOf(out), {},
                           CudaStreamOf(StreamOf(ctx)));
  });
}

absl::StatusOr<KernelFn> MakeRange(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  auto kernel = KernelOf(absl::StrCat("RangeItem<", ElementTypeName(dtype), ">"));
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return KernelFn([dtype, kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(PrepareRange(ctx.input(0), ctx.input(1), ctx.input(2)).status());
    Tensor out = OutputOf(ctx, 0);
    switch (dtype) {
      FORMWORK_REAL_CASES(return kernel->Enqueue(RangeItemOf<T>(ctx, out), ElementsOf(out), {},
                                                 CudaStreamOf(StreamOf(ctx))))
      default:
        return Internal("a range of ", DTypeName(dtype));
    }
  });
}

absl::StatusOr<KernelFn> MakeAddN(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  if (ElementTypeName(dtype).empty()) return Refuse(init, dtype);
  auto kernel = KernelOf(absl::StrCat("SumItem<", ElementTypeName(dtype), ">"));
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return KernelFn([kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(
        PrepareAddN(ctx.num_inputs(), [&](int i) { return ctx.input(i).shape().dims(); }).status());
    Tensor out = OutputOf(ctx, 0);
    for (int next = 0; next < ctx.num_inputs();) {
      const auto item = SumItemOf<char>(ctx, next, out, next);
      FORMWORK_RETURN_IF_ERROR(
          kernel->Enqueue(item, ElementsOf(out), {}, CudaStreamOf(StreamOf(ctx))));
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterArrayKernels(KernelRegistry& registry) {
  registry.Add("AddN", &MakeAddN);
  registry.Add("MatrixBandPart", &MakeMatrixBandPart);
  registry.Add("OneHot", &MakeOneHot);
  registry.Add("Range", &MakeRange);
  registry.Add("Select", &MakeSelect<true>);
  registry.Add("SelectV2", &MakeSelect<false>);
}

}  // namespace formwork
