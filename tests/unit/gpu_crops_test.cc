// What GPUs do of crops of images (gpu/crop_functions.h), item by item, on the host against the op
// cases: results, and what a word says of bad boxes.

#include <limits>
#include <map>
#include <utility>

#include "core/base/status.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/kernel.h"
#include "core/ops/register_ops.h"
#include "gpu/crop_items.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/op_case.h"
#include "tests/support/run_op_case.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/gpu_cases.h"

namespace formwork::testing {
namespace {

namespace element = formwork_element;

absl::StatusOr<KernelFn> MakeCrop(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const CropAttrs attrs, CropAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const float outside, init.attrs().Get<float>("extrapolation_value"));
  const DType dtype = init.input_dtypes()[0];
  FORMWORK_RETURN_IF_ERROR(CropItemName("CropAndResize", dtype).status());
  return KernelFn([attrs, outside, dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const CropGeometry geometry,
                              PrepareCrop(ctx.input(0).shape().dims(), ctx.input(1).shape().dims(),
                                          ctx.input(2).shape().dims(), &ctx.input(3)));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.crops()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), DType::kFloat, shape));
    FailureWord word;
    RunItems(CheckBoxesItemOf(geometry, ctx, 1, element::MayFailItem{&word, 5}), geometry.boxes);
    if (word.failed_step() != 0) return BadBoxes(word.where);
    switch (dtype) {
      FORMWORK_REAL_CASES(
          RunItems(CropItemOf<T>(geometry, ctx, attrs.nearest, outside, out), out.num_elements());
          break)
      default:
        return Internal("no number");
    }
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeGradImage(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const CropAttrs attrs, CropAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.output_dtypes()[0];
  if (!CropItemName("CropAndResizeGradImage", dtype).ok()) {
    return Unimplemented("a dtype that a GPU leaves to the host");
  }
  return KernelFn([attrs, dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const CropGeometry geometry,
        PrepareCropGradImage(ctx.input(0).shape().dims(), ctx.input(1).shape().dims(),
                             ctx.input(2).shape().dims(), &ctx.input(3)));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(geometry.images()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor out, ZeroTensor(ctx.allocator(), dtype, shape));
    FailureWord word;
    RunItems(CheckBoxesItemOf(geometry, ctx, 1, element::MayFailItem{&word, 5}), geometry.boxes);
    if (word.failed_step() != 0) return BadBoxes(word.where);
    const int64_t n = ctx.input(0).num_elements();
    if (dtype == DType::kFloat) {
      RunItems(CropGradImageItemOf<float>(geometry, ctx, attrs.nearest, out), n);
    } else {
      RunItems(CropGradImageItemOf<double>(geometry, ctx, attrs.nearest, out), n);
    }
    ctx.SetOutput(0, std::move(out));
    return absl::OkStatus();
  });
}

absl::Status GradBoxes(KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(
      const CropGeometry geometry,
      PrepareCropGradBoxes(ctx.input(0).shape().dims(), ctx.input(1).shape().dims(),
                           ctx.input(2).shape().dims(), ctx.input(3).shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({geometry.boxes, 4}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor out, ZeroTensor(ctx.allocator(), DType::kFloat, shape));
  FailureWord word;
  RunItems(CheckBoxesItemOf(geometry, ctx, 2, element::MayFailItem{&word, 5}), geometry.boxes);
  if (word.failed_step() != 0) return BadBoxes(word.where);
  const int64_t elements = ctx.input(0).num_elements();
  const int64_t pixels = elements == 0 ? 0 : elements / geometry.channels;
  switch (ctx.input(1).dtype()) {
    FORMWORK_REAL_CASES(RunItems(CropGradBoxesItemOf<T>(geometry, ctx, out), pixels); break)
    default:
      return Internal("no number");
  }
  ctx.SetOutput(0, std::move(out));
  return absl::OkStatus();
}
absl::StatusOr<KernelFn> MakeGradBoxes(KernelInit&) { return KernelFn(&GradBoxes); }

TEST(GpuCropsTest, GiveWhatTensorFlowDoes) {
  OpRegistry ops;
  RegisterOps(ops);
  KernelRegistry kernels(ops);
  kernels.Add("CropAndResize", &MakeCrop);
  kernels.Add("CropAndResizeGradBoxes", &MakeGradBoxes);
  kernels.Add("CropAndResizeGradImage", &MakeGradImage);
  std::map<std::string, int> tried =
      RunGpuCases({.files = {"crop"}, .some_are_hosts = true}, ops, kernels);
  for (const std::string& op : kernels.Names()) EXPECT_GT(tried[op], 5) << op;
}

// Whichever box comes first, the host names an index before a corner.
TEST(GpuCropsTest, AnIndexIsWorseThanACorner) {
  const float corners[] = {0, 0, 1, std::numeric_limits<float>::infinity(), 0, 0, 1, 1};
  const auto found = [&](int32_t second) {
    const int32_t image[] = {0, second};
    FailureWord word;
    RunItems(element::CheckBoxesItem{corners, image, 2, element::MayFailItem{&word, 5}}, 2);
    return BadBoxes(word.where);
  };
  EXPECT_THAT(found(1), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(found(2), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(found(-1), StatusIs(absl::StatusCode::kOutOfRange));
}

}  // namespace
}  // namespace formwork::testing
