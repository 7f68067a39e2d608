// Images whose colours change on a GPU.

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/ops/image_color.h"
#include "gpu/color_items.h"
#include "gpu/cuda_stream.h"
#include "gpu/item_kernel.h"
#include "gpu/register_kernels.h"

namespace formwork {
namespace {

namespace element = formwork_element;

const ColorOp& OpNamed(absl::string_view name) {
  for (const ColorOp& op : ColorOps()) {
    if (op.op == name) return op;
  }
  std::abort();  // Registered by the same table.
}

absl::StatusOr<KernelFn> MakeColor(KernelInit& init) {
  const ColorOp& op = OpNamed(init.op().name);
  FORMWORK_ASSIGN_OR_RETURN(const std::string name, ColorItemName(op, init.input_dtypes()[0]));
  auto kernel = std::make_unique<ItemKernel>(name, ColorText());
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return KernelFn([&op, kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    const Tensor& images = ctx.input(0);
    const absl::Span<const int64_t> dims = images.shape().dims();
    const float* by = nullptr;
    if (op.by.empty()) {
      FORMWORK_RETURN_IF_ERROR(CheckColors(dims));
    } else {
      FORMWORK_RETURN_IF_ERROR(
          CheckAdjusting(dims, /*of_three_channels=*/true, op.by, &ctx.input(1)));
      by = static_cast<const float*>(ctx.input(1).raw());
    }
    Tensor out = OutputOf(ctx, 0);
    // Of any type: pointers alone.
    const element::ColorItem<char, void> item{static_cast<const char*>(images.raw()), by,
                                              static_cast<char*>(out.mutable_raw())};
    return kernel->Enqueue(item, static_cast<uint64_t>(images.num_elements() / 3), {},
                           CudaStreamOf(StreamOf(ctx)));
  });
}

absl::StatusOr<KernelFn> MakeContrast(KernelInit& init) {
  static auto* const sum = new ItemKernel("ContrastSumItem", ColorText());
  static auto* const mean = new ItemKernel("ContrastMeanItem", ColorText());
  static auto* const change = new ItemKernel("ContrastItem", ColorText());
  const DType dtype = init.input_dtypes()[0];
  if (dtype != DType::kFloat) {
    return Unimplemented(init.op().name, " of ", DTypeName(dtype), " on a GPU");
  }
  for (ItemKernel* const kernel : {sum, mean, change}) {
    FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  }
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& images = ctx.input(0);
    FORMWORK_RETURN_IF_ERROR(CheckAdjusting(images.shape().dims(), /*of_three_channels=*/false,
                                            "contrast_factor", &ctx.input(1)));
    if (images.num_elements() == 0) return absl::OkStatus();
    const ContrastPlan plan = PlanContrast(images.shape());
    FORMWORK_ASSIGN_OR_RETURN(const Buffer sums, ScratchOf(ctx, plan.sums() * sizeof(double)));
    FORMWORK_ASSIGN_OR_RETURN(const Buffer means, ScratchOf(ctx, plan.means() * sizeof(float)));
    Tensor out = OutputOf(ctx, 0);
    const auto* from = static_cast<const float*>(images.raw());
    auto* const of_parts = static_cast<double*>(sums.data());
    auto* const of_channels = static_cast<float*>(means.data());
    const cudaStream_t stream = CudaStreamOf(StreamOf(ctx));
    FORMWORK_RETURN_IF_ERROR(sum->Enqueue(
        element::ContrastSumItem{from, of_parts, plan.pixels, plan.channels, plan.parts, plan.part},
        plan.sums(), {}, stream));
    FORMWORK_RETURN_IF_ERROR(mean->Enqueue(
        element::ContrastMeanItem{of_parts, of_channels, plan.pixels, plan.channels, plan.parts},
        plan.means(), {}, stream));
    return change->Enqueue(
        element::ContrastItem{from, of_channels, static_cast<const float*>(ctx.input(1).raw()),
                              static_cast<float*>(out.mutable_raw()), plan.pixels, plan.channels},
        static_cast<uint64_t>(images.num_elements()), {}, stream);
  });
}

}  // namespace

void RegisterColorKernels(KernelRegistry& registry) {
  for (const ColorOp& op : ColorOps()) registry.Add(op.op, &MakeColor);
  registry.Add("AdjustContrastv2", &MakeContrast);
}

}  // namespace formwork
