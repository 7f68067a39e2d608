#include "core/ops/image_files.h"

#include "core/base/status.h"
#include "core/ops/array_shapes.h"
#include "core/ops/dims.h"
#include "core/ops/read_attrs.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

absl::StatusOr<JpegReading> ReadJpegAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(
      JpegReading read,
      ReadAttrs<JpegReading>(attrs, "ratio", &JpegReading::ratio, "fancy_upscaling",
                             &JpegReading::fancy_upscaling, "try_recover_truncated",
                             &JpegReading::try_recover_truncated, "acceptable_fraction",
                             &JpegReading::acceptable_fraction));
  if (read.ratio != 1 && read.ratio != 2 && read.ratio != 4 && read.ratio != 8) {
    return InvalidArgument("ratio must be 1, 2, 4, or 8, got ", read.ratio);
  }
  FORMWORK_ASSIGN_OR_RETURN(const std::string dct, attrs.Get<std::string>("dct_method"));
  if (!dct.empty() && dct != "INTEGER_FAST" && dct != "INTEGER_ACCURATE") {
    return InvalidArgument("dct_method must be one of {'', 'INTEGER_FAST', 'INTEGER_ACCURATE'}");
  }
  read.accurate_dct = dct == "INTEGER_ACCURATE";
  return read;
}

ImageOp OpOf(absl::string_view name) {
  if (name == "DecodeJpeg") return ImageOp::kJpeg;
  if (name == "DecodeAndCropJpeg") return ImageOp::kCropJpeg;
  if (name == "DecodePng") return ImageOp::kPng;
  if (name == "DecodeGif") return ImageOp::kGif;
  if (name == "DecodeBmp") return ImageOp::kBmp;
  if (name == "DecodeWebP") return ImageOp::kWebp;
  return ImageOp::kAny;
}

}  // namespace

absl::StatusOr<DecodeImageAttrs> DecodeImageAttrs::FromAttrs(absl::string_view op,
                                                             const AttrMap& attrs) {
  DecodeImageAttrs read;
  read.op = OpOf(op);
  if (read.op == ImageOp::kGif) {
    read.jpeg.channels = 3;
    return read;
  }
  if (read.op == ImageOp::kJpeg || read.op == ImageOp::kCropJpeg) {
    FORMWORK_ASSIGN_OR_RETURN(read.jpeg, ReadJpegAttrs(attrs));
  }
  FORMWORK_ASSIGN_OR_RETURN(read.jpeg.channels, attrs.Get<int64_t>("channels"));
  const int64_t channels = read.jpeg.channels;
  if (channels != 0 && channels != 1 && channels != 3 && channels != 4) {
    return InvalidArgument("`channels` must be 0, 1, 3 or 4 but got ", channels);
  }
  if (read.op == ImageOp::kAny) {
    FORMWORK_ASSIGN_OR_RETURN(read.expand_animations, attrs.Get<bool>("expand_animations"));
  }
  return read;
}

absl::StatusOr<JpegWriting> JpegWriting::FromAttrs(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(
      JpegWriting read,
      ReadAttrs<JpegWriting>(
          attrs, "quality", &JpegWriting::quality, "progressive", &JpegWriting::progressive,
          "optimize_size", &JpegWriting::optimize_size, "chroma_downsampling",
          &JpegWriting::chroma_downsampling, "x_density", &JpegWriting::x_density, "y_density",
          &JpegWriting::y_density, "xmp_metadata", &JpegWriting::xmp_metadata));
  FORMWORK_ASSIGN_OR_RETURN(const std::string format, attrs.Get<std::string>("format"));
  read.colors = format.empty()          ? JpegColors::kByChannels
                : format == "grayscale" ? JpegColors::kGrayscale
                                        : JpegColors::kRgb;
  FORMWORK_ASSIGN_OR_RETURN(const std::string unit, attrs.Get<std::string>("density_unit"));
  read.per_inch = unit == "in";
  FORMWORK_RETURN_IF_ERROR(CheckJpegQuality(read.quality));
  return read;
}

absl::StatusOr<CropWindow> CropWindowFrom(const Tensor& crop_window) {
  if (crop_window.rank() != 1) {
    return InvalidArgument("crop_window must be 1-D, got shape ", crop_window.shape().ToString());
  }
  if (crop_window.num_elements() != 4) {
    return InvalidArgument("crop_size must have four elements ", crop_window.shape().ToString());
  }
  const int32_t* at = crop_window.data<int32_t>();
  return CropWindow{at[0], at[1], at[2], at[3]};
}

absl::Status CheckJpegImage(absl::Span<const int64_t> image, JpegColors colors) {
  if (image.size() != 3) return InvalidArgument("image must be 3-dimensional", DimsText(image));
  const int64_t channels = image[2];
  if (colors == JpegColors::kByChannels && channels != 1 && channels != 3) {
    return InvalidArgument("image must have 1 or 3 channels, got ", DimsText(image));
  }
  if (colors == JpegColors::kGrayscale && channels != 1) {
    return InvalidArgument("format grayscale expects 1 channels, got ", DimsText(image));
  }
  if (colors == JpegColors::kRgb && channels != 3) {
    return InvalidArgument("format rgb expects 3 channels, got ", DimsText(image));
  }
  return absl::OkStatus();
}

absl::Status CheckJpegQuality(int64_t quality) {
  if (quality >= 0 && quality <= 100) return absl::OkStatus();
  return InvalidArgument("quality must be in [0,100], got ", quality);
}

absl::Status CheckPngImages(absl::Span<const int64_t> images) {
  if (images.size() < 3) {
    return InvalidArgument("images must be at least rank 3", DimsText(images));
  }
  const int64_t channels = images.back();
  if (channels < 1 || channels > 4) {
    return InvalidArgument("image must have 1, 2, 3, or 4 channels, got ", channels);
  }
  return absl::OkStatus();
}

absl::Status CheckPngCompression(int64_t compression) {
  if (compression >= -1 && compression <= 9) return absl::OkStatus();
  return InvalidArgument("compression should be in [-1,9], got ", compression);
}

namespace {

absl::Status DecodeShape(InferenceContext& c) {
  const int64_t channels = c.attrs().GetOr<int64_t>("channels", 0);
  return array_shapes::SetOutput(c, 0, {-1, -1, channels > 0 ? channels : -1});
}

absl::Status CropJpegShape(InferenceContext& c) {
  FORMWORK_RETURN_IF_ERROR(DecodeShape(c));
  if (c.constant(1) == nullptr) return absl::OkStatus();
  FORMWORK_ASSIGN_OR_RETURN(const CropWindow window, CropWindowFrom(*c.constant(1)));
  if (window.rows < 0 || window.cols < 0) return absl::OkStatus();
  return array_shapes::SetOutput(c, 0, {window.rows, window.cols, c.outputs()[0].dim(2)});
}

absl::Status DecodeGifShape(InferenceContext& c) {
  return array_shapes::SetOutput(c, 0, {-1, -1, -1, 3});
}

absl::Status DecodeWebpShape(InferenceContext& c) {
  const int64_t channels = c.attrs().GetOr<int64_t>("channels", 0);
  return array_shapes::SetOutput(c, 0, {-1, -1, -1, channels > 0 ? channels : -1});
}

absl::Status DecodeImageShape(InferenceContext& c) {
  FORMWORK_ASSIGN_OR_RETURN(const bool animations, c.attrs().Get<bool>("expand_animations"));
  return animations ? absl::OkStatus() : DecodeShape(c);
}

absl::Status EncodePngShape(InferenceContext& c) {
  if (!c.input(0).known_rank() || c.input(0).rank() < 3) return absl::OkStatus();
  const Dims images(c.input(0).dims().begin(), c.input(0).dims().end());
  return array_shapes::SetOutput(c, 0, Dims(images.begin(), images.end() - 3));
}

absl::Status ThreeSizes(InferenceContext& c) { return array_shapes::SetOutput(c, 0, {3}); }

}  // namespace

void RegisterImageFileOps(OpRegistry& registry) {
  registry.Add(
      "DecodeJpeg(contents: string) -> (image: uint8); channels: int = 0; ratio: int = 1; "
      "fancy_upscaling: bool = true; try_recover_truncated: bool = false; acceptable_fraction: "
      "float = 1.0; dct_method: string = \"\"",
      {.shape_fn = DecodeShape, .sized_by_value = true});
  registry.Add(
      "DecodeAndCropJpeg(contents: string, crop_window: int32) -> (image: uint8); channels: int = "
      "0; ratio: int = 1; fancy_upscaling: bool = true; try_recover_truncated: bool = false; "
      "acceptable_fraction: float = 1.0; dct_method: string = \"\"",
      {.shape_fn = CropJpegShape, .sized_by_value = true});
  registry.Add(
      "DecodePng(contents: string) -> (image: dtype); channels: int = 0; dtype: {uint8, uint16} = "
      "uint8",
      {.shape_fn = DecodeShape, .sized_by_value = true});
  registry.Add("DecodeGif(contents: string) -> (image: uint8)",
               {.shape_fn = DecodeGifShape, .sized_by_value = true});
  registry.Add("DecodeBmp(contents: string) -> (image: uint8); channels: int = 0",
               {.shape_fn = DecodeShape, .sized_by_value = true});
  registry.Add(
      "DecodeWebP(contents: string) -> (image: dtype); channels: int = 0; dtype: {uint8} = uint8",
      {.shape_fn = DecodeWebpShape, .sized_by_value = true});
  registry.Add(
      "DecodeImage(contents: string) -> (image: dtype); channels: int = 0; dtype: {uint8, uint16, "
      "float} = uint8; expand_animations: bool = true",
      {.shape_fn = DecodeImageShape, .sized_by_value = true});
  registry.Add(
      "ExtractJpegShape(contents: string) -> (image_shape: output_type); output_type: {int32, "
      "int64} = int32",
      {.shape_fn = ThreeSizes});
  registry.Add(
      "EncodeJpeg(image: uint8) -> (contents: string); format: {\"\", \"grayscale\", \"rgb\"} = "
      "\"\"; quality: int = 95; progressive: bool = false; optimize_size: bool = false; "
      "chroma_downsampling: bool = true; density_unit: {\"in\", \"cm\"} = \"in\"; x_density: int = "
      "300; y_density: int = 300; xmp_metadata: string = \"\"",
      {.shape_fn = shapes::Scalar});
  registry.Add("EncodeJpegVariableQuality(images: uint8, quality: int32) -> (contents: string)",
               {.shape_fn = shapes::Scalar});
  registry.Add(
      "EncodePng(image: T) -> (contents: string); compression: int = -1; T: {uint8, uint16} = "
      "uint8",
      {.shape_fn = EncodePngShape});
}

}  // namespace formwork
