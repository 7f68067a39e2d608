// Colours: hue, saturation and value, and contrast, by TensorFlow's formulas.

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/image/color_rules.h"
#include "core/kernels/image/image_cpu.h"
#include "core/ops/image_color.h"

namespace formwork {
namespace {

constexpr int64_t kTaskPixels = 4096;

using color::Color;

// to = change(from) for each pixel. T is computed in as Wide.
template <typename T, typename Wide, typename Change>
void EachPixel(int64_t pixels, const T* from, T* to, const Change& change) {
  ParallelFor(pixels, kTaskPixels, [&](int64_t begin, int64_t end) {
    for (int64_t i = 3 * begin; i < 3 * end; i += 3) {
      const Color<Wide> changed =
          change(Color<Wide>{static_cast<Wide>(from[i]), static_cast<Wide>(from[i + 1]),
                             static_cast<Wide>(from[i + 2])});
      to[i] = T(changed.a);
      to[i + 1] = T(changed.b);
      to[i + 2] = T(changed.c);
    }
  });
}

template <typename T>
void Convert(bool to_hsv, int64_t pixels, const T* from, T* to) {
  using Wide = std::conditional_t<math::kIsSmallFloat<T>, float, T>;
  EachPixel<T, Wide>(pixels, from, to, [to_hsv](const Color<Wide>& pixel) {
    return to_hsv ? color::ToHsv::Of(pixel, 0) : color::ToRgb::Of(pixel, 0);
  });
}

template <bool kToHsv>
absl::StatusOr<KernelFn> MakeConvert(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor images = ctx.input(0);
    FORMWORK_RETURN_IF_ERROR(CheckColors(images.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out,
                              ctx.ForwardOrAllocate({0}, 0, images.dtype(), images.shape()));
    const int64_t pixels = images.num_elements() / 3;
    switch (images.dtype()) {
      case DType::kFloat:
        Convert(kToHsv, pixels, images.data<float>(), out->mutable_data<float>());
        break;
      case DType::kDouble:
        Convert(kToHsv, pixels, images.data<double>(), out->mutable_data<double>());
        break;
      case DType::kHalf:
        Convert(kToHsv, pixels, images.data<half>(), out->mutable_data<half>());
        break;
      default:
        Convert(kToHsv, pixels, images.data<bfloat16>(), out->mutable_data<bfloat16>());
    }
    return absl::OkStatus();
  });
}

absl::Status CheckFloat(const KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  if (dtype == DType::kFloat) return absl::OkStatus();
  return Unimplemented(init.op().name, ": dtype ", DTypeName(dtype),
                       " is not supported on the CPU");
}

template <bool kHue>
absl::StatusOr<KernelFn> MakeAdjustColor(KernelInit& init) {
  FORMWORK_RETURN_IF_ERROR(CheckFloat(init));
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor images = ctx.input(0);
    FORMWORK_RETURN_IF_ERROR(CheckAdjusting(images.shape().dims(), /*of_three_channels=*/true,
                                            kHue ? "delta" : "scale", &ctx.input(1)));
    const float by = ctx.input(1).scalar<float>();
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out,
                              ctx.ForwardOrAllocate({0}, 0, DType::kFloat, images.shape()));
    EachPixel<float, float>(images.num_elements() / 3, images.data<float>(),
                            out->mutable_data<float>(), [by](const Color<float>& rgb) {
                              return kHue ? color::TurnHue::Of(rgb, by)
                                          : color::Saturate::Of(rgb, by);
                            });
    return absl::OkStatus();
  });
}

// One image: to = (from - mean) * factor + mean, of each channel.
void Contrast(int64_t pixels, int64_t channels, float factor, const float* from, float* to) {
  std::vector<double> means(static_cast<size_t>(channels), 0.0);
  ForBlocks(pixels, std::max<int64_t>(1, kTaskPixels / channels), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t c = 0; c < channels; ++c) means[c] += from[i * channels + c];
    }
  });
  for (double& mean : means) mean /= static_cast<double>(pixels);
  ForBlocks(pixels, std::max<int64_t>(1, kTaskPixels / channels), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t c = 0; c < channels; ++c) {
        const auto mean = static_cast<float>(means[c]);
        to[i * channels + c] = (from[i * channels + c] - mean) * factor + mean;
      }
    }
  });
}

absl::StatusOr<KernelFn> MakeAdjustContrast(KernelInit& init) {
  FORMWORK_RETURN_IF_ERROR(CheckFloat(init));
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor images = ctx.input(0);
    const absl::Span<const int64_t> dims = images.shape().dims();
    FORMWORK_RETURN_IF_ERROR(
        CheckAdjusting(dims, /*of_three_channels=*/false, "contrast_factor", &ctx.input(1)));
    const float factor = ctx.input(1).scalar<float>();
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out,
                              ctx.ForwardOrAllocate({0}, 0, DType::kFloat, images.shape()));
    if (images.num_elements() == 0) return absl::OkStatus();
    const int64_t channels = dims.back();
    const int64_t pixels = dims[dims.size() - 3] * dims[dims.size() - 2];
    const int64_t image = pixels * channels;
    const float* from = images.data<float>();
    auto* to = out->mutable_data<float>();
    ParallelFor(images.num_elements() / image, std::max<int64_t>(1, kTaskPixels / image),
                [&](int64_t begin, int64_t end) {
                  for (int64_t n = begin; n < end; ++n) {
                    Contrast(pixels, channels, factor, from + n * image, to + n * image);
                  }
                });
    return absl::OkStatus();
  });
}

}  // namespace

void AddImageColorCpuKernels(KernelRegistry& registry) {
  registry.Add("RGBToHSV", MakeConvert<true>);
  registry.Add("HSVToRGB", MakeConvert<false>);
  registry.Add("AdjustHue", MakeAdjustColor<true>);
  registry.Add("AdjustSaturation", MakeAdjustColor<false>);
  registry.Add("AdjustContrastv2", MakeAdjustContrast);
}

}  // namespace formwork
