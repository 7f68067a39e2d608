// Images as files: JPEG, PNG, GIF, BMP and WebP.

#include <utility>

#include "absl/strings/match.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/image/bmp.h"
#include "core/kernels/image/gif.h"
#include "core/kernels/image/image_cpu.h"
#include "core/kernels/image/jpeg.h"
#include "core/kernels/image/png_codec.h"
#include "core/kernels/image/webp.h"
#include "core/ops/image_files.h"

namespace formwork {
namespace {

using absl::string_view;

enum class FileFormat { kUnknown, kJpeg, kPng, kGif, kBmp, kWebp, kJpegXl };

FileFormat FormatOf(string_view file) {
  if (absl::StartsWith(file, "\xff\xd8\xff")) return FileFormat::kJpeg;
  if (absl::StartsWith(file, "\x89PNG\r\n\x1a\n")) return FileFormat::kPng;
  if (absl::StartsWith(file, "GIF8")) return FileFormat::kGif;
  if (absl::StartsWith(file, "BM")) return FileFormat::kBmp;
  if (absl::StartsWith(file, "RIFF") && file.size() > 12 && file.substr(8, 4) == "WEBP") {
    return FileFormat::kWebp;
  }
  if (absl::StartsWith(file, "\xff\x0a") ||
      absl::StartsWith(file, string_view("\0\0\0\x0cJXL \r\n\x87\n", 12))) {
    return FileFormat::kJpegXl;
  }
  return FileFormat::kUnknown;
}

// What DecodeBmp says of other files.
absl::Status NotBmp(string_view format, string_view op) {
  return InvalidArgument("Trying to decode ", format, " format using DecodeBmp op. Use `decode_",
                         op, "` or `decode_image` instead.");
}

string_view NameOf(ImageOp op) {
  switch (op) {
    case ImageOp::kJpeg:
      return "DecodeJpeg";
    case ImageOp::kCropJpeg:
      return "DecodeAndCropJpeg";
    case ImageOp::kPng:
      return "DecodePng";
    case ImageOp::kGif:
      return "DecodeGif";
    case ImageOp::kBmp:
      return "DecodeBmp";
    case ImageOp::kWebp:
      return "DecodeWebP";
    default:
      return "DecodeImage";
  }
}

absl::Status WrongOp(string_view format, string_view op, ImageOp used) {
  return InvalidArgument("Trying to decode ", format, " format using a wrong op. Use `decode_", op,
                         "` or `decode_image` instead. Op used: ", NameOf(used));
}

// A call of an op that decodes.
class Decoding {
 public:
  Decoding(KernelContext& ctx, const DecodeImageAttrs& attrs, DType dtype)
      : ctx_(ctx), attrs_(attrs), dtype_(dtype) {}

  absl::Status Run() {
    const Tensor& contents = ctx_.input(0);
    if (contents.rank() != 0) {
      return InvalidArgument("`contents` must be scalar but got shape",
                             contents.shape().ToString());
    }
    const string_view file = contents.scalar<std::string>();
    if (file.empty()) return InvalidArgument("Input is empty.");
    const FileFormat format = FormatOf(file);
    if (attrs_.op == ImageOp::kCropJpeg && format != FileFormat::kJpeg) {
      return InvalidArgument(
          "DecodeAndCropJpeg operation can run on JPEG only, but detected another format.");
    }
    switch (format) {
      case FileFormat::kJpeg:
        return Jpeg(file);
      case FileFormat::kPng:
        return Png(file);
      case FileFormat::kGif:
        return Gif(file);
      case FileFormat::kBmp:
        return OfBmp(file);
      case FileFormat::kWebp:
        return OfWebp(file);
      case FileFormat::kJpegXl:
        return Unimplemented("JPEG XL images are not supported.");
      default:
        return InvalidArgument(
            "Unknown image file format. One of JPEG, JPEG XL, PNG, GIF, BMP, WebP required.");
    }
  }

 private:
  absl::Status Jpeg(string_view file) {
    if (attrs_.jpeg.channels == 4) return InvalidArgument("JPEG does not support 4 channels");
    if (attrs_.op == ImageOp::kBmp) return NotBmp("JPEG", "jpeg");
    if (attrs_.op == ImageOp::kWebp) return WrongOp("JPEG", "jpeg", attrs_.op);
    CropWindow crop;
    const bool cropped = attrs_.op == ImageOp::kCropJpeg;
    if (cropped) {
      FORMWORK_ASSIGN_OR_RETURN(crop, CropWindowFrom(ctx_.input(1)));
    }
    JpegDecoder decoder(file);
    const bool opened = decoder.Open(attrs_.jpeg, cropped ? &crop : nullptr);
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    if (!opened) return JpegDecodingFailed();
    return ByBytes(Image(decoder.rows(), decoder.cols(), decoder.channels()),
                   [&](uint8_t* to) { return decoder.Read(ctx_.allocator(), to); });
  }

  absl::Status Png(string_view file) {
    constexpr int64_t kMostPixels = int64_t{1} << 29;  // As TensorFlow.
    PngDecoder decoder(file);
    const bool wide = dtype_ != DType::kUint8;
    if (!decoder.Open(attrs_.jpeg.channels, wide)) {
      return InvalidArgument("Invalid PNG. Failed to initialize decoder.");
    }
    if (attrs_.op == ImageOp::kBmp) return NotBmp("PNG", "png");
    if (attrs_.op == ImageOp::kWebp) return WrongOp("PNG", "png", attrs_.op);
    if (decoder.rows() * decoder.cols() >= kMostPixels) {
      return InvalidArgument("PNG size too large for int: ", decoder.cols(), " by ",
                             decoder.rows());
    }
    FORMWORK_ASSIGN_OR_RETURN(
        const Shape shape, Shape::Make(Image(decoder.rows(), decoder.cols(), decoder.channels())));
    const DType read = wide ? DType::kUint16 : DType::kUint8;
    FORMWORK_ASSIGN_OR_RETURN(Tensor image, Tensor::Allocate(ctx_.allocator(), read, shape));
    const bool whole = decoder.Read(image.mutable_raw());
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    if (!whole) return InvalidArgument("Invalid PNG data, size ", file.size());
    if (dtype_ != DType::kFloat) {
      ctx_.SetOutput(0, std::move(image));
      return absl::OkStatus();
    }
    return Scale(image.data<uint16_t>(), shape, 65535.0f);
  }

  absl::Status Gif(string_view file) {
    if (attrs_.op == ImageOp::kBmp) return NotBmp("GIF", "gif");
    if (attrs_.op == ImageOp::kWebp) return InvalidArgument("Bad op type DecodeWebP");
    FORMWORK_ASSIGN_OR_RETURN(const GifSizes sizes, MeasureGif(file));
    const int64_t channels = attrs_.jpeg.channels;
    if (channels != 0 && channels != 3) {
      return InvalidArgument("channels must be 0 or 3 for GIF, got ", channels);
    }
    const bool animated =
        attrs_.op == ImageOp::kGif || (attrs_.op == ImageOp::kAny && attrs_.expand_animations);
    if (!animated && attrs_.op != ImageOp::kAny && sizes.frames > 1) {
      return InvalidArgument("Got ", sizes.frames,
                             " frames, but animated gifs can only be decoded by tf.io.decode_gif "
                             "or tf.io.decode_image");
    }
    const int64_t frames = animated ? sizes.frames : 1;
    Dims dims = {sizes.rows, sizes.cols, 3};
    if (animated) dims.insert(dims.begin(), frames);
    return ByBytes(dims, [&](uint8_t* to) { return DecodeGif(file, sizes, frames, to); });
  }

  absl::Status OfBmp(string_view file) {
    if (attrs_.jpeg.channels == 1) {
      return InvalidArgument("`channels` must be 0, 3 or 4 for BMP, but got 1");
    }
    if (attrs_.op != ImageOp::kBmp && attrs_.op != ImageOp::kAny) {
      return WrongOp("BMP", "bmp", attrs_.op);
    }
    FORMWORK_ASSIGN_OR_RETURN(const Bmp bmp, Bmp::Open(file));
    const int64_t channels = attrs_.jpeg.channels > 0 ? attrs_.jpeg.channels : bmp.channels;
    return ByBytes(Image(bmp.rows, bmp.cols, channels), [&](uint8_t* to) {
      bmp.Read(channels, to);
      return absl::OkStatus();
    });
  }

  absl::Status OfWebp(string_view file) {
    // TensorFlow gives four dimensions where these ops say three, and three where DecodeWebP says
    // four.
    if (attrs_.op == ImageOp::kJpeg || attrs_.op == ImageOp::kPng || attrs_.op == ImageOp::kBmp) {
      return WrongOp("WebP", "webp", attrs_.op);
    }
    const int64_t channels = attrs_.jpeg.channels;
    if (channels == 1) return InvalidArgument("WebP only supports 3 or 4 channels");
    if (dtype_ != DType::kUint8) return InvalidArgument("WebP only supports uint8 for dtype");
    FORMWORK_ASSIGN_OR_RETURN(const Webp webp, Webp::Open(file));
    if (channels != 0 && channels != webp.channels) {
      return InvalidArgument("Number of channels requested does not match input");
    }
    const bool expanded = attrs_.expand_animations;
    const auto dims_of = [&](int64_t frames, int64_t made) {
      return expanded ? Dims{frames, webp.rows, webp.cols, made} : Dims{webp.rows, webp.cols, made};
    };
    if (!webp.animated) {
      FORMWORK_ASSIGN_OR_RETURN(const Tensor reserved, webp.Reserve(ctx_.allocator()));
      return ByBytes(dims_of(1, webp.channels), [&](uint8_t* to) { return webp.Read(to); });
    }
    if (channels == 3) return InvalidArgument("WebP Animation must be 4 channel RGBA");
    FORMWORK_ASSIGN_OR_RETURN(WebpAnimation animation, WebpAnimation::Open(webp, ctx_.allocator()));
    const int64_t frames = expanded ? animation.frames() : 1;
    return ByBytes(dims_of(frames, 4), [&](uint8_t* to) { return animation.Read(frames, to); });
  }

  // The dimensions of an image that is not animated.
  Dims Image(int64_t rows, int64_t cols, int64_t channels) const {
    if (attrs_.op == ImageOp::kGif) return {1, rows, cols, channels};
    return {rows, cols, channels};
  }

  // The output from bytes that `fill` writes.
  template <typename Fill>
  absl::Status ByBytes(const Dims& dims, const Fill& fill) {
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    if (dtype_ == DType::kUint8) {
      FORMWORK_ASSIGN_OR_RETURN(Tensor * image, ctx_.AllocateOutput(0, dtype_, shape));
      return fill(image->mutable_data<uint8_t>());
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor image,
                              Tensor::Allocate(ctx_.allocator(), DType::kUint8, shape));
    FORMWORK_RETURN_IF_ERROR(fill(image.mutable_data<uint8_t>()));
    const uint8_t* from = image.data<uint8_t>();
    if (dtype_ == DType::kFloat) return Scale(from, shape, 255.0f);
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx_.AllocateOutput(0, dtype_, shape));
    auto* to = out->mutable_data<uint16_t>();
    ParallelFor(shape.num_elements(), MoveGrain<uint16_t>(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = static_cast<uint16_t>(from[i] << 8);
    });
    return absl::OkStatus();
  }

  // The output in [0, 1].
  template <typename T>
  absl::Status Scale(const T* from, const Shape& shape, float most) {
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx_.AllocateOutput(0, DType::kFloat, shape));
    auto* to = out->mutable_data<float>();
    const float scale = 1.0f / most;
    ParallelFor(shape.num_elements(), MoveGrain<float>(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = static_cast<float>(from[i]) * scale;
    });
    return absl::OkStatus();
  }

  KernelContext& ctx_;
  const DecodeImageAttrs& attrs_;
  const DType dtype_;
};

absl::StatusOr<KernelFn> MakeDecode(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DecodeImageAttrs attrs,
                            DecodeImageAttrs::FromAttrs(init.op().name, init.attrs()));
  return KernelFn([attrs, dtype = init.output_dtypes()[0]](KernelContext& ctx) {
    return Decoding(ctx, attrs, dtype).Run();
  });
}

absl::StatusOr<KernelFn> MakeExtractJpegShape(KernelInit& init) {
  return KernelFn([dtype = init.output_dtypes()[0]](KernelContext& ctx) -> absl::Status {
    const Tensor& contents = ctx.input(0);
    if (contents.rank() != 0) {
      return InvalidArgument("contents must be scalar, got shape ", contents.shape().ToString());
    }
    const std::string& file = contents.scalar<std::string>();
    JpegDecoder decoder(file);
    const bool opened = decoder.OpenForSizes();
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    if (!opened) return InvalidArgument("Invalid JPEG data, size ", file.size());
    const int64_t sizes[] = {decoder.rows(), decoder.cols(), decoder.channels()};
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, dtype, Shape({3})));
    for (int i = 0; i < 3; ++i) {
      if (dtype == DType::kInt32) {
        out->mutable_data<int32_t>()[i] = static_cast<int32_t>(sizes[i]);
      } else {
        out->mutable_data<int64_t>()[i] = sizes[i];
      }
    }
    return absl::OkStatus();
  });
}

absl::Status RunEncodeJpeg(KernelContext& ctx, const JpegWriting& how) {
  const Tensor& image = ctx.input(0);
  FORMWORK_RETURN_IF_ERROR(CheckJpegImage(image.shape().dims(), how.colors));
  FORMWORK_ASSIGN_OR_RETURN(
      std::string file, EncodeJpeg(how, image.shape().dim(0), image.shape().dim(1),
                                   image.shape().dim(2), image.data<uint8_t>(), ctx.allocator()));
  ctx.SetOutput(0, Tensor::StringScalar(std::move(file)));
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeEncodeJpeg(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const JpegWriting how, JpegWriting::FromAttrs(init.attrs()));
  return KernelFn([how](KernelContext& ctx) { return RunEncodeJpeg(ctx, how); });
}

absl::StatusOr<KernelFn> MakeEncodeJpegVariableQuality(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& quality = ctx.input(1);
    if (quality.rank() != 0) {
      return InvalidArgument("quality must be scalar: ", quality.shape().ToString());
    }
    JpegWriting how;
    how.quality = quality.scalar<int32_t>();
    FORMWORK_RETURN_IF_ERROR(CheckJpegImage(ctx.input(0).shape().dims(), how.colors));
    FORMWORK_RETURN_IF_ERROR(CheckJpegQuality(how.quality));
    return RunEncodeJpeg(ctx, how);
  });
}

absl::StatusOr<KernelFn> MakeEncodePng(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const int64_t compression, init.attrs().Get<int64_t>("compression"));
  FORMWORK_RETURN_IF_ERROR(CheckPngCompression(compression));
  return KernelFn([compression](KernelContext& ctx) -> absl::Status {
    const Tensor images = ctx.input(0);
    const absl::Span<const int64_t> dims = images.shape().dims();
    FORMWORK_RETURN_IF_ERROR(CheckPngImages(dims));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims.subspan(0, dims.size() - 3)));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * files, ctx.AllocateOutput(0, DType::kString, shape));
    const int64_t rows = dims[dims.size() - 3];
    const int64_t cols = dims[dims.size() - 2];
    const int64_t channels = dims[dims.size() - 1];
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      const void* image = ElementAt(images.dtype(), images.raw(), i * rows * cols * channels);
      FORMWORK_ASSIGN_OR_RETURN(files->mutable_data<std::string>()[i],
                                EncodePng(compression, images.dtype() == DType::kUint16, rows, cols,
                                          channels, image, ctx.allocator()));
    }
    return absl::OkStatus();
  });
}

}  // namespace

void AddImageFileCpuKernels(KernelRegistry& registry) {
  for (const ImageOp op : {ImageOp::kJpeg, ImageOp::kCropJpeg, ImageOp::kPng, ImageOp::kGif,
                           ImageOp::kBmp, ImageOp::kWebp, ImageOp::kAny}) {
    registry.Add(NameOf(op), MakeDecode);
  }
  registry.Add("ExtractJpegShape", MakeExtractJpegShape);
  registry.Add("EncodeJpeg", MakeEncodeJpeg);
  registry.Add("EncodeJpegVariableQuality", MakeEncodeJpegVariableQuality);
  registry.Add("EncodePng", MakeEncodePng);
}

}  // namespace formwork
