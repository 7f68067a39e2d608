#pragma once

// Images as files, on every device: attrs of the ops that read and write them. Errors are
// kInvalidArgument in TensorFlow's words.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// How a JPEG is decoded. The defaults are those of the ops that have no such attrs.
struct JpegReading {
  int64_t channels = 0;  ///< 0: the file's.
  int64_t ratio = 1;     ///< By how much the image is made smaller: 1, 2, 4 or 8.
  bool fancy_upscaling = true;
  bool try_recover_truncated = false;
  float acceptable_fraction = 1.0f;  ///< Rows that must be there, as a part of all.
  bool accurate_dct = false;
};

enum class ImageOp : uint8_t { kJpeg, kCropJpeg, kPng, kGif, kBmp, kWebp, kAny };

struct DecodeImageAttrs {
  ImageOp op = ImageOp::kAny;
  JpegReading jpeg;  ///< `jpeg.channels` is of every format.
  bool expand_animations = true;

  /// `op`: the name in TensorFlow's registry.
  static absl::StatusOr<DecodeImageAttrs> FromAttrs(absl::string_view op, const AttrMap& attrs);
};

enum class JpegColors : uint8_t { kByChannels, kGrayscale, kRgb };

struct JpegWriting {
  JpegColors colors = JpegColors::kByChannels;
  int64_t quality = 95;
  bool progressive = false;
  bool optimize_size = false;
  bool chroma_downsampling = true;
  bool per_inch = true;  ///< The densities; else for each centimetre.
  int64_t x_density = 300;
  int64_t y_density = 300;
  std::string xmp_metadata;

  static absl::StatusOr<JpegWriting> FromAttrs(const AttrMap& attrs);
};

/// The part of an image that is wanted, in pixels of what is decoded.
struct CropWindow {
  int64_t row = 0;
  int64_t col = 0;
  int64_t rows = 0;
  int64_t cols = 0;
};

absl::StatusOr<CropWindow> CropWindowFrom(const Tensor& crop_window);
/// Whether an image is [rows, columns, 1 or 3 channels], as `colors` wants it.
absl::Status CheckJpegImage(absl::Span<const int64_t> image, JpegColors colors);
absl::Status CheckJpegQuality(int64_t quality);
/// [..., rows, columns, 1 to 4 channels].
absl::Status CheckPngImages(absl::Span<const int64_t> images);
/// From -1, which leaves it to the library, to 9.
absl::Status CheckPngCompression(int64_t compression);

}  // namespace formwork
