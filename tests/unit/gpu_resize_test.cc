// What GPUs do of images that are resized (gpu/resize_functions.h), item by item, on the host
// against the op cases.

#include <cstring>
#include <map>
#include <type_traits>

#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/register_ops.h"
#include "gpu/moves.h"
#include "gpu/resize_items.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

namespace element = formwork_element;

template <typename Item>
void RunItems(const Item& item, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) item(i);
}

absl::Status Refuse() { return Unimplemented("a dtype that a GPU leaves to the host"); }

absl::StatusOr<KernelFn> MakeNearest(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ResizeAttrs attrs, ResizeAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& images = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const ResizeGeometry geometry,
                              PrepareResize(images.shape().dims(), &ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.resized()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), images.dtype(), shape));
    if (out.num_elements() > 0) {
      Aligned from(images), to(out);
      const size_t pixel = static_cast<size_t>(geometry.channels) * DTypeSize(images.dtype());
      const size_t unit = UnitOf(pixel);
      WithUnit(unit, [&](auto e) {
        using E = decltype(e);
        RunItems(
            element::NearestItem<E>{
                reinterpret_cast<const E*>(from.data()), reinterpret_cast<E*>(to.data()),
                ResizeSizesOf(attrs, geometry, static_cast<int64_t>(pixel / unit))},
            out.bytes() / unit);
      });
      to.CopyTo(out);
    }
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeBilinear(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ResizeAttrs attrs, ResizeAttrs::FromAttrs(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(ResizeItemName(init.op().name, init.input_dtypes()[0]).status());
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& images = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const ResizeGeometry geometry,
                              PrepareResize(images.shape().dims(), &ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.resized()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), DType::kFloat, shape));
    const auto run = [&](auto t) {
      using T = decltype(t);
      RunItems(element::BilinearItem<T>{images.data<T>(), out.mutable_data<float>(),
                                        ResizeSizesOf(attrs, geometry, geometry.channels)},
               static_cast<uint64_t>(out.num_elements()));
    };
    switch (images.dtype()) {
      FORMWORK_REAL_CASES(run(T()); break)
      default:
        return Internal("no number");
    }
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

template <bool kNearest>
absl::StatusOr<KernelFn> MakeGradient(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ResizeAttrs attrs, ResizeAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.output_dtypes()[0];
  if (!ResizeItemName(init.op().name, dtype).ok()) return Refuse();
  return KernelFn([attrs, dtype](KernelContext& ctx) -> absl::Status {
    const Tensor& grads = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(
        const ResizeGeometry geometry,
        kNearest ? PrepareNearestGrad(grads.shape().dims(), &ctx.input(1))
                 : PrepareBilinearGrad(grads.shape().dims(), ctx.input(1).shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.original()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), dtype, shape));
    if (out.num_elements() > 0) {
      std::memset(out.mutable_raw(), 0, out.bytes());
      const element::ResizeSizes sizes = ResizeSizesOf(attrs, geometry, geometry.channels);
      const auto n = static_cast<uint64_t>(grads.num_elements());
      const auto run = [&](auto t) {
        using T = decltype(t);
        if constexpr (kNearest) {
          RunItems(element::NearestGradItem<T>{grads.data<T>(), out.mutable_data<T>(), sizes}, n);
        } else if constexpr (std::is_floating_point_v<T>) {
          RunItems(element::BilinearGradItem<T>{grads.data<float>(), out.mutable_data<T>(), sizes},
                   n);
        }
      };
      switch (dtype) {
        FORMWORK_REAL_CASES(run(T()); break)
        default:
          return Internal("no number");
      }
    }
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

TEST(GpuResizeTest, GiveWhatTensorFlowDoes) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  kernels.Add("ResizeBilinear", &MakeBilinear);
  kernels.Add("ResizeBilinearGrad", &MakeGradient<false>);
  kernels.Add("ResizeNearestNeighbor", &MakeNearest);
  kernels.Add("ResizeNearestNeighborGrad", &MakeGradient<true>);
  std::map<std::string, int> tried =
      RunGpuCases({.files = {"image"}, .some_are_hosts = true}, ops, kernels);
  for (const std::string& op : kernels.Names()) EXPECT_GT(tried[op], 8) << op;
}

}  // namespace
}  // namespace formwork::testing
