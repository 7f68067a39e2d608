// ImageSummary: images as TensorBoard reads them.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/elements.h"
#include "core/kernels/image/image_cpu.h"
#include "core/kernels/image/png_codec.h"
#include "core/kernels/wire_format.h"
#include "core/ops/debug.h"

namespace formwork {
namespace {

// Fields of Summary, of its values, and of their images.
constexpr uint32_t kValue = 1, kTag = 1, kImage = 4;
constexpr uint32_t kHeight = 1, kWidth = 2, kColorspace = 3, kEncoded = 4;

// What elements are compared and rounded as.
template <typename T>
using Number = std::conditional_t<std::is_same_v<T, double>, double, float>;

// What is no byte is the nearest one.
template <typename T>
uint8_t ByteOf(T value) {
  const auto x = static_cast<Number<T>>(value);
  return x > 0 ? static_cast<uint8_t>(std::min<Number<T>>(x, 255)) : 0;
}

template <typename T>
bool IsFinite(const T* pixel, int64_t channels) {
  return std::all_of(pixel, pixel + channels,
                     [](T x) { return std::isfinite(static_cast<Number<T>>(x)); });
}

// Numbers to bytes: from 0 to the largest one, or, where some are negative, to both sides of 128.
template <typename T>
void ToBytes(const T* image, int64_t pixels, int64_t channels, const std::vector<uint8_t>& bad,
             uint8_t* to) {
  float least = std::numeric_limits<float>::infinity(), largest = -least;
  ForBlocks(pixels, kCheapItems, [&](int64_t begin, int64_t end) {
    for (const T* at = image + begin * channels; begin < end; ++begin, at += channels) {
      if (!IsFinite(at, channels)) continue;
      for (int64_t c = 0; c < channels; ++c) {
        least = std::min(least, static_cast<float>(at[c]));
        largest = std::max(largest, static_cast<float>(at[c]));
      }
    }
  });
  const bool negative = least < 0;
  const float range = negative ? std::max(std::abs(least), std::abs(largest)) : largest;
  constexpr float kZero = 1e-6f;
  const auto scale = static_cast<T>(range < kZero ? 0.0f : (negative ? 127.0f : 255.0f) / range);
  const auto offset = static_cast<T>(negative ? 128.0f : 0.0f);
  ForBlocks(pixels, kCheapItems, [&](int64_t begin, int64_t end) {
    for (; begin < end; ++begin) {
      const T* const from = image + begin * channels;
      uint8_t* const pixel = to + begin * channels;
      if (IsFinite(from, channels)) {
        for (int64_t c = 0; c < channels; ++c)
          pixel[c] = ByteOf(math::Add(math::Mul(from[c], scale), offset));
      } else {
        std::copy_n(bad.begin(), channels, pixel);
      }
    }
  });
}

std::string ImageMessage(absl::Span<const int64_t> dims, const std::string& png) {
  std::string image;
  const std::pair<uint32_t, int64_t> sizes[] = {
      {kHeight, dims[1]}, {kWidth, dims[2]}, {kColorspace, dims[3]}};
  for (const auto& [field, size] : sizes) {
    AppendVarint(field << 3 | kVarint, image);
    AppendVarint(static_cast<uint64_t>(size), image);
  }
  AppendBytes(kEncoded, png, image);
  return image;
}

absl::Status Summarize(KernelContext& ctx, const ImageSummaryAttrs& attrs) {
  const Tensor tag = ctx.input(0), images = ctx.input(1);
  const absl::Span<const int64_t> dims = images.shape().dims();
  FORMWORK_RETURN_IF_ERROR(CheckImageSummary(tag.shape().dims(), dims));
  const int64_t rows = dims[1], cols = dims[2], channels = dims[3];
  const bool bytes = images.dtype() == DType::kUint8;
  if (!bytes && static_cast<int64_t>(attrs.bad_color.size()) < channels) {
    return InvalidArgument("expected depth <= bad_color.size, got depth = ", channels,
                           ", bad_color.size = ", attrs.bad_color.size());
  }
  Tensor scratch;
  if (!bytes) {
    FORMWORK_ASSIGN_OR_RETURN(
        scratch, Tensor::Allocate(ctx.allocator(), DType::kUint8, Shape({rows, cols, channels})));
  }
  std::string summary;
  for (int64_t i = 0; i < std::min(attrs.max_images, dims[0]); ++i) {
    const int64_t at = i * rows * cols * channels;
    const uint8_t* image = scratch.has_value() ? scratch.data<uint8_t>() : nullptr;
    switch (images.dtype()) {
      FORMWORK_CASE(float, ToBytes(images.data<T>() + at, rows * cols, channels, attrs.bad_color,
                                   scratch.mutable_data<uint8_t>());
                    break)
      FORMWORK_CASE(double, ToBytes(images.data<T>() + at, rows * cols, channels, attrs.bad_color,
                                    scratch.mutable_data<uint8_t>());
                    break)
      FORMWORK_CASE(half, ToBytes(images.data<T>() + at, rows * cols, channels, attrs.bad_color,
                                  scratch.mutable_data<uint8_t>());
                    break)
      default:
        image = images.data<uint8_t>() + at;
    }
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    constexpr int64_t kDefaultCompression = -1;
    FORMWORK_ASSIGN_OR_RETURN(const std::string png,
                              EncodePng(kDefaultCompression, /*wide=*/false, rows, cols, channels,
                                        image, ctx.allocator()));
    // Numbered by how many are asked for, not by how many there are.
    const std::string number = attrs.max_images > 1 ? absl::StrCat("/", i) : "";
    std::string value;
    AppendBytes(kTag, absl::StrCat(tag.scalar<std::string>(), "/image", number), value);
    AppendBytes(kImage, ImageMessage(dims, png), value);
    AppendBytes(kValue, value, summary);
  }
  ctx.SetOutput(0, Tensor::StringScalar(std::move(summary)));
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeSummarize(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ImageSummaryAttrs attrs,
                            ImageSummaryAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) { return Summarize(ctx, attrs); });
}

}  // namespace

void AddImageSummaryCpuKernel(KernelRegistry& registry) {
  registry.Add("ImageSummary", MakeSummarize);
}

}  // namespace formwork
