#include "core/ops/image.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/crop.h"
#include "core/ops/dims.h"
#include "core/ops/histogram.h"
#include "core/ops/patches.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

struct Size {
  int64_t rows = -1;
  int64_t cols = -1;
};

absl::StatusOr<Size> SizeOf(const Tensor* tensor) {
  if (tensor == nullptr) return Size();
  if (tensor->rank() != 1) {
    return InvalidArgument("shape_t must be 1-dimensional", tensor->shape().ToString());
  }
  if (tensor->num_elements() != 2) {
    return InvalidArgument("shape_t must have two elements", tensor->shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(const Dims values, IntegersOf(*tensor, "size"));
  // No size that is known is unknown.
  return Size{std::max<int64_t>(values[0], 0), std::max<int64_t>(values[1], 0)};
}

}  // namespace

absl::StatusOr<ResizeAttrs> ResizeAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(
      const ResizeAttrs read,
      ReadAttrs<ResizeAttrs>(attrs, "align_corners", &ResizeAttrs::align_corners,
                             "half_pixel_centers", &ResizeAttrs::half_pixel_centers));
  if (read.align_corners && read.half_pixel_centers) {
    return InvalidArgument("If half_pixel_centers is True, align_corners must be False.");
  }
  return read;
}

absl::StatusOr<ResizeGeometry> PrepareResize(absl::Span<const int64_t> images, const Tensor* size) {
  if (images.size() != 4) {
    return InvalidArgument("input must be 4-dimensional", DimsText(images));
  }
  FORMWORK_ASSIGN_OR_RETURN(const Size out, SizeOf(size));
  if (out.rows == 0 || out.cols == 0) {
    return InvalidArgument("output dimensions must be positive");
  }
  if (images[3] == 0) return InvalidArgument("image must have at least one channel");
  if (images[1] == 0 || images[2] == 0) {
    return InvalidArgument("input image must be of non-zero size");
  }
  return ResizeGeometry{images[0], images[1], images[2], out.rows, out.cols, images[3]};
}

absl::StatusOr<ResizeGeometry> PrepareNearestGrad(absl::Span<const int64_t> grads,
                                                  const Tensor* size) {
  if (grads.size() != 4) return InvalidArgument("input must be 4-dimensional", DimsText(grads));
  FORMWORK_ASSIGN_OR_RETURN(const Size in, SizeOf(size));
  if (in.rows == 0 || in.cols == 0) {
    return InvalidArgument("shape_t's elements must be positive");
  }
  return ResizeGeometry{grads[0], in.rows, in.cols, grads[1], grads[2], grads[3]};
}

absl::StatusOr<ResizeGeometry> PrepareBilinearGrad(absl::Span<const int64_t> grads,
                                                   absl::Span<const int64_t> original) {
  if (grads.size() != 4) {
    return InvalidArgument("input_grad must be 4-dimensional", DimsText(grads));
  }
  if (original.size() != 4) {
    return InvalidArgument("original_image must be 4-dimensional", DimsText(original));
  }
  if (grads[1] == 0 || grads[2] == 0) {
    return InvalidArgument("resized dimensions must be positive");
  }
  if (original[1] == 0 || original[2] == 0) {
    return InvalidArgument("original dimensions must be positive");
  }
  return ResizeGeometry{grads[0], original[1], original[2], grads[1], grads[2], grads[3]};
}

absl::StatusOr<SampleAttrs> SampleAttrs::FromAttrs(const AttrMap& attrs) {
  struct Named {
    absl::string_view name;
    SampleKernel kernel;
  };
  constexpr Named kKernels[] = {{"lanczos1", SampleKernel::kLanczos1},
                                {"lanczos3", SampleKernel::kLanczos3},
                                {"lanczos5", SampleKernel::kLanczos5},
                                {"gaussian", SampleKernel::kGaussian},
                                {"box", SampleKernel::kBox},
                                {"triangle", SampleKernel::kTriangle},
                                {"keyscubic", SampleKernel::kKeysCubic},
                                {"mitchellcubic", SampleKernel::kMitchellCubic}};
  FORMWORK_ASSIGN_OR_RETURN(const std::string name, attrs.Get<std::string>("kernel_type"));
  FORMWORK_ASSIGN_OR_RETURN(const bool antialias, attrs.Get<bool>("antialias"));
  for (const Named& known : kKernels) {
    if (absl::EqualsIgnoreCase(name, known.name)) return SampleAttrs{known.kernel, antialias};
  }
  return InvalidArgument("Unrecognized kernel type: ", name);
}

absl::Status CheckSampleScale(const Tensor& scale, const Tensor& translation) {
  for (const Tensor* input : {&scale, &translation}) {
    const absl::string_view what = input == &scale ? "scale" : "translation";
    if (input->rank() != 1) {
      return InvalidArgument(what, " must be 1-dimensional", input->shape().ToString());
    }
    if (input->num_elements() != 2) {
      return InvalidArgument(what, " must have two elements", input->shape().ToString());
    }
  }
  for (int i = 0; i < 2; ++i) {
    if (!(scale.data<float>()[i] > 0)) {
      return InvalidArgument(i == 0 ? "y" : "x", " scale must be greater than zero.");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TransformAttrs> TransformAttrs::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(const std::string interpolation,
                            attrs.Get<std::string>("interpolation"));
  FORMWORK_ASSIGN_OR_RETURN(const std::string fill, attrs.Get<std::string>("fill_mode"));
  TransformAttrs read;
  read.bilinear = interpolation == "BILINEAR";
  if (!read.bilinear && interpolation != "NEAREST") {
    return InvalidArgument("Invalid interpolation ", interpolation,
                           ". Supported types: NEAREST, BILINEAR");
  }
  if (fill == "REFLECT") {
    read.fill_mode = FillMode::kReflect;
  } else if (fill == "WRAP") {
    read.fill_mode = FillMode::kWrap;
  } else if (fill == "NEAREST") {
    read.fill_mode = FillMode::kNearest;
  } else if (fill != "CONSTANT") {
    return InvalidArgument("Invalid mode ", fill,
                           ". Supported types: REFLECT, WRAP, CONSTANT, NEAREST");
  }
  return read;
}

absl::StatusOr<TransformGeometry> PrepareTransform(absl::Span<const int64_t> images,
                                                   absl::Span<const int64_t> transforms,
                                                   const Tensor* output_shape) {
  if (images.size() != 4) return InvalidArgument("Input images must have rank 4");
  const bool fits = transforms.size() == 2 && MayBeEqual(transforms[1], 8) &&
                    (transforms[0] == 1 || MayBeEqual(transforms[0], images[0]));
  if (!fits) return InvalidArgument("Input transform should be num_images x 8 or 1 x 8");
  TransformGeometry s = {images[0], images[1], images[2], -1, -1, images[3]};
  if (output_shape == nullptr) return s;
  if (output_shape->rank() != 1) {
    return InvalidArgument("output shape must be 1-dimensional", output_shape->shape().ToString());
  }
  if (output_shape->num_elements() != 2) {
    return InvalidArgument("output shape must have two elements", output_shape->shape().ToString());
  }
  FORMWORK_ASSIGN_OR_RETURN(const Dims size, IntegersOf(*output_shape, "output_shape"));
  if (size[0] <= 0 || size[1] <= 0) {
    return InvalidArgument("output dimensions must be positive");
  }
  s.out_rows = size[0];
  s.out_cols = size[1];
  return s;
}

absl::Status CheckDrawBoxes(absl::Span<const int64_t> images, absl::Span<const int64_t> boxes,
                            const Shape* colors) {
  if (images.size() != 4) return InvalidArgument("The rank of the images should be 4");
  if (boxes.size() != 3) return InvalidArgument("The rank of the boxes tensor should be 3");
  if (!MayBeEqual(images[0], boxes[0])) {
    return InvalidArgument("The batch sizes should be the same");
  }
  const int64_t depth = images[3];
  if (depth >= 0 && depth != 1 && depth != 3 && depth != 4) {
    return InvalidArgument("Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA)");
  }
  if (!MayBeEqual(boxes[2], 4)) {
    return InvalidArgument("The size of the third dimension of the box must be 4. Received: ",
                           boxes[2]);
  }
  if (colors == nullptr) return absl::OkStatus();
  if (colors->rank() != 2) {
    return InvalidArgument("colors must be a 2-D matrix", colors->ToString());
  }
  if (colors->dim(1) < depth) {
    return InvalidArgument("colors must have equal or more channels than the image provided: ",
                           colors->ToString());
  }
  return absl::OkStatus();
}

namespace {

absl::Status InferSize(InferenceContext& c) {
  const PartialShape images = shapes::OrOfRank(c.input(0), 4);
  FORMWORK_ASSIGN_OR_RETURN(const ResizeGeometry geometry,
                            PrepareResize(images.dims(), c.constant(1)));
  return array_shapes::SetOutput(c, 0, geometry.resized());
}

absl::Status InferOriginal(InferenceContext& c) {
  const PartialShape grads = shapes::OrOfRank(c.input(0), 4);
  const PartialShape original = shapes::OrOfRank(c.input(1), 4);
  FORMWORK_ASSIGN_OR_RETURN(const ResizeGeometry geometry,
                            PrepareBilinearGrad(grads.dims(), original.dims()));
  return array_shapes::SetOutput(c, 0, geometry.original());
}

absl::Status InferDrawBoxes(InferenceContext& c) {
  const PartialShape images = shapes::OrOfRank(c.input(0), 4);
  const PartialShape boxes = shapes::OrOfRank(c.input(1), 3);
  FORMWORK_RETURN_IF_ERROR(CheckDrawBoxes(images.dims(), boxes.dims(), nullptr));
  c.set_output(0, images);
  return absl::OkStatus();
}

absl::Status InferTransform(InferenceContext& c) {
  FORMWORK_RETURN_IF_ERROR(TransformAttrs::FromAttrs(c.attrs()).status());
  const PartialShape images = shapes::OrOfRank(c.input(0), 4);
  const PartialShape transforms = shapes::OrOfRank(c.input(1), 2);
  FORMWORK_ASSIGN_OR_RETURN(const TransformGeometry s,
                            PrepareTransform(images.dims(), transforms.dims(), c.constant(2)));
  return array_shapes::SetOutput(c, 0, s.resized());
}

absl::Status InferResize(InferenceContext& c) {
  FORMWORK_RETURN_IF_ERROR(ResizeAttrs::FromAttrs(c.attrs()).status());
  const PartialShape images = shapes::OrOfRank(c.input(0), 4);
  FORMWORK_ASSIGN_OR_RETURN(const ResizeGeometry geometry,
                            PrepareResize(images.dims(), c.constant(1)));
  return array_shapes::SetOutput(c, 0, geometry.resized());
}

absl::Status InferNearestGradient(InferenceContext& c) {
  FORMWORK_RETURN_IF_ERROR(ResizeAttrs::FromAttrs(c.attrs()).status());
  const PartialShape grads = shapes::OrOfRank(c.input(0), 4);
  FORMWORK_ASSIGN_OR_RETURN(const ResizeGeometry geometry,
                            PrepareNearestGrad(grads.dims(), c.constant(1)));
  return array_shapes::SetOutput(c, 0, geometry.original());
}

absl::Status InferBilinearGradient(InferenceContext& c) {
  FORMWORK_RETURN_IF_ERROR(ResizeAttrs::FromAttrs(c.attrs()).status());
  const PartialShape grads = shapes::OrOfRank(c.input(0), 4);
  const PartialShape original = shapes::OrOfRank(c.input(1), 4);
  FORMWORK_ASSIGN_OR_RETURN(const ResizeGeometry geometry,
                            PrepareBilinearGrad(grads.dims(), original.dims()));
  return array_shapes::SetOutput(c, 0, geometry.original());
}

}  // namespace

void RegisterImageOps(OpRegistry& registry) {
  registry.Add(
      "ResizeBilinear(images: T, size: host int32) -> (resized_images: float); T: {floattype, "
      "int8, uint8, int16, uint16, int32, int64, bfloat16}; align_corners: bool = false; "
      "half_pixel_centers: bool = false",
      {.shape_fn = InferResize, .sized_by_value = true});
  registry.Add(
      "ResizeBilinearGrad(grads: float, original_image: T) -> (output: T); T: floattype; "
      "align_corners: bool = false; half_pixel_centers: bool = false",
      {.shape_fn = InferBilinearGradient});
  registry.Add(
      "ResizeNearestNeighbor(images: T, size: host int32) -> (resized_images: T); T: {floattype, "
      "int8, uint8, int16, uint16, int32, int64}; align_corners: bool = false; half_pixel_centers: "
      "bool = false",
      {.shape_fn = InferResize, .sized_by_value = true});
  registry.Add(
      "ResizeNearestNeighborGrad(grads: T, size: host int32) -> (output: T); T: {floattype, uint8, "
      "int8, int32}; align_corners: bool = false; half_pixel_centers: bool = false",
      {.shape_fn = InferNearestGradient, .sized_by_value = true});
  registry.Add(
      "ResizeArea(images: T, size: int32) -> (resized_images: float); T: {floattype, int8, uint8, "
      "int16, uint16, int32, int64}; align_corners: bool = false",
      {.shape_fn = InferSize, .sized_by_value = true});
  registry.Add(
      "ResizeBicubic(images: T, size: int32) -> (resized_images: float); T: {floattype, int8, "
      "uint8, int16, uint16, int32, int64}; align_corners: bool = false; half_pixel_centers: bool "
      "= false",
      {.shape_fn = InferResize, .sized_by_value = true});
  registry.Add(
      "ResizeBicubicGrad(grads: float, original_image: T) -> (output: T); T: {float, double}; "
      "align_corners: bool = false; half_pixel_centers: bool = false",
      {.shape_fn = InferOriginal});
  registry.Add(
      "ScaleAndTranslate(images: T, size: int32, scale: float, translation: float) -> "
      "(resized_images: float); T: {floattype, int8, uint8, int16, uint16, int32, int64}; "
      "kernel_type: string = \"lanczos3\"; antialias: bool = true",
      {.shape_fn = InferSize, .sized_by_value = true});
  registry.Add(
      "ScaleAndTranslateGrad(grads: T, original_image: T, scale: float, translation: float) -> "
      "(output: T); T: {float}; kernel_type: string = \"lanczos3\"; antialias: bool = true",
      {.shape_fn = InferOriginal});
  registry.Add(
      "ImageProjectiveTransformV2(images: dtype, transforms: float, output_shape: host int32) -> "
      "(transformed_images: dtype); dtype: {floattype, uint8, int32, int64}; interpolation: "
      "string; fill_mode: string = \"CONSTANT\"",
      {.shape_fn = InferTransform, .sized_by_value = true});
  registry.Add(
      "ImageProjectiveTransformV3(images: dtype, transforms: float, output_shape: host int32, "
      "fill_value: host float) -> (transformed_images: dtype); dtype: {floattype, uint8, int32, "
      "int64}; interpolation: string; fill_mode: string = \"CONSTANT\"",
      {.shape_fn = InferTransform, .sized_by_value = true});
  registry.Add(
      "DrawBoundingBoxes(images: T, boxes: float) -> (output: T); T: {float, half} = float",
      {.shape_fn = InferDrawBoxes});
  registry.Add(
      "DrawBoundingBoxesV2(images: T, boxes: float, colors: float) -> (output: T); T: {float, "
      "half} = float",
      {.shape_fn = InferDrawBoxes});
  RegisterCropOps(registry);
  RegisterPatchOps(registry);
  RegisterHistogramOps(registry);
}

}  // namespace formwork
