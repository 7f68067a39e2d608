// What GPUs do of images' colours (gpu/color_functions.h), item by item, on the host against the op
// cases.

#include <map>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/kernel.h"
#include "core/ops/image_color.h"
#include "core/ops/register_ops.h"
#include "gpu/color_items.h"
#include "gpu/item_source.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

namespace element = formwork_element;

absl::Status Refuse() { return Unimplemented("a dtype that a GPU leaves to the host"); }

template <typename Change, bool kBy>
absl::StatusOr<KernelFn> MakeColor(KernelInit& init) {
  const ColorOp* op = nullptr;
  for (const ColorOp& each : ColorOps()) {
    if (each.op == init.op().name) op = &each;
  }
  const DType dtype = init.input_dtypes()[0];
  if (!ColorItemName(*op, dtype).ok()) return Refuse();
  return KernelFn([op, dtype](KernelContext& ctx) -> absl::Status {
    const Tensor& images = ctx.input(0);
    const absl::Span<const int64_t> dims = images.shape().dims();
    FORMWORK_RETURN_IF_ERROR(kBy ? CheckAdjusting(dims, true, op->by, &ctx.input(1))
                                 : CheckColors(dims));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), dtype, images.shape()));
    const auto run = [&](auto t) {
      using T = decltype(t);
      const float* const by = kBy ? ctx.input(1).data<float>() : nullptr;
      RunItems(element::ColorItem<T, Change>{images.data<T>(), by, out.mutable_data<T>()},
               static_cast<uint64_t>(images.num_elements() / 3));
    };
    if constexpr (kBy) {
      run(float());
    } else {
      switch (dtype) {
        FORMWORK_FLOAT_CASES(run(T()); break)
        default:
          return Internal("no float");
      }
    }
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

absl::Status Contrast(const ContrastPlan& plan, const float* from, const float* factor, float* to) {
  std::vector<double> sums(plan.sums());
  std::vector<float> means(plan.means());
  RunItems(element::ContrastSumItem{from, sums.data(), plan.pixels, plan.channels, plan.parts,
                                    plan.part},
           plan.sums());
  RunItems(
      element::ContrastMeanItem{sums.data(), means.data(), plan.pixels, plan.channels, plan.parts},
      plan.means());
  RunItems(element::ContrastItem{from, means.data(), factor, to, plan.pixels, plan.channels},
           plan.images * plan.pixels * plan.channels);
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeContrast(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  if (dtype != DType::kFloat) return Refuse();
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    const Tensor& images = ctx.input(0);
    FORMWORK_RETURN_IF_ERROR(
        CheckAdjusting(images.shape().dims(), false, "contrast_factor", &ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), dtype, images.shape()));
    if (images.num_elements() > 0) {
      FORMWORK_RETURN_IF_ERROR(Contrast(PlanContrast(images.shape()), images.data<float>(),
                                        ctx.input(1).data<float>(), out.mutable_data<float>()));
    }
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

TEST(GpuColorsTest, GiveWhatTensorFlowDoes) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  kernels.Add("RGBToHSV", &MakeColor<color::ToHsv, false>);
  kernels.Add("HSVToRGB", &MakeColor<color::ToRgb, false>);
  kernels.Add("AdjustHue", &MakeColor<color::TurnHue, true>);
  kernels.Add("AdjustSaturation", &MakeColor<color::Saturate, true>);
  kernels.Add("AdjustContrastv2", &MakeContrast);
  std::map<std::string, int> tried =
      RunGpuCases({.files = {"image_color"}, .some_are_hosts = true}, ops, kernels);
  for (const std::string& op : kernels.Names()) EXPECT_GT(tried[op], 4) << op;
}

TEST(GpuColorsTest, ContrastIsOfAllParts) {
  const Shape shape({2, 37, 11, 2});
  const ContrastPlan plan = PlanContrast(shape);
  EXPECT_EQ(plan.parts, 5u);  // Of 407 pixels.
  std::vector<float> from(static_cast<size_t>(shape.num_elements())), to(from.size());
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i % 97);
  const float factor = 0;
  ASSERT_OK(Contrast(plan, from.data(), &factor, to.data()));
  for (size_t i = 0; i < from.size(); ++i) {
    double sum = 0;
    for (size_t k = i / 814 * 814 + i % 2; k < (i / 814 + 1) * 814; k += 2) sum += from[k];
    ASSERT_FLOAT_EQ(to[i], static_cast<float>(sum / 407));
  }
}

TEST(GpuColorsTest, LargeImagesHaveNoMorePartsThanKeepAGpuBusy) {
  const ContrastPlan plan = PlanContrast(Shape({1, 4096, 4096, 3}));
  EXPECT_GE(plan.part * plan.parts, plan.pixels);
  EXPECT_LT(plan.part * (plan.parts - 1), plan.pixels);
  EXPECT_LE(plan.sums(), uint64_t{kBusyItems} + 3);
}

}  // namespace
}  // namespace formwork::testing
