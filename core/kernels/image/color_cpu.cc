// Colours: hue, saturation and value, and contrast, by TensorFlow's formulas.

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/image/image_cpu.h"
#include "core/ops/image_color.h"

namespace formwork {
namespace {

constexpr int64_t kTaskPixels = 4096;

template <typename T>
struct Color {
  T a, b, c;  // Red, green and blue; or hue, saturation and value.
};

template <typename T>
Color<T> ToHsv(const Color<T>& rgb) {
  const T value = std::max(std::max(rgb.a, rgb.b), rgb.c);
  const T range = value - std::min(std::min(rgb.a, rgb.b), rgb.c);
  const T saturation = value > 0 ? range / value : T(0);
  const T norm = T(1) / range * (T(1) / T(6));
  T hue = 0;
  if (range > 0) {
    hue = rgb.a == value   ? norm * (rgb.b - rgb.c)
          : rgb.b == value ? norm * (rgb.c - rgb.a) + T(2) / T(6)
                           : norm * (rgb.a - rgb.b) + T(4) / T(6);
    if (hue < 0) hue += T(1);
  }
  return {hue, saturation, value};
}

template <typename T>
T UnitOf(T x) {
  return std::min(std::max(x, T(0)), T(1));
}

template <typename T>
Color<T> ToRgb(const Color<T>& hsv) {
  const T sixths = hsv.a * T(6);
  const T rest = T(1) - hsv.b;
  return {(rest + hsv.b * UnitOf(std::abs(sixths - T(3)) - T(1))) * hsv.c,
          (rest + hsv.b * UnitOf(T(2) - std::abs(sixths - T(2)))) * hsv.c,
          (rest + hsv.b * UnitOf(T(2) - std::abs(sixths - T(4)))) * hsv.c};
}

// The colour in that sixth of the circle of hues whose largest, middle and smallest part these are.
Color<float> InSixth(int sixth, float most, float middle, float least) {
  switch (sixth) {
    case 0:
      return {most, middle, least};
    case 1:
      return {middle, most, least};
    case 2:
      return {least, most, middle};
    case 3:
      return {least, middle, most};
    case 4:
      return {middle, least, most};
    default:
      return {most, least, middle};
  }
}

// The largest and the smallest of three, and where on the circle of six sixths the colour is.
Color<float> TurnHue(const Color<float>& rgb, float by) {
  const auto [r, g, b] = rgb;
  const float most = std::max(std::max(r, g), b);
  const float least = std::min(std::min(r, g), b);
  float hue = 0;
  if (most != least) {
    int sixth;
    float middle;
    if (r < g) {
      sixth = b < r ? 1 : b > g ? 3 : 2;
      middle = b < r ? r : b > g ? g : b;
    } else {
      sixth = b < g ? 0 : b > r ? 4 : 5;
      middle = b < g ? g : b > r ? r : b;
    }
    const float part = (middle - least) / (most - least);
    hue = static_cast<float>(sixth) + (sixth % 2 == 0 ? part : 1 - part);
  }
  hue += by * 6;
  // One turn after the other, as long as that is quick.
  if (std::abs(hue) > 600) hue = std::fmod(hue, 6.0f);
  while (hue < 0) hue += 6;
  while (hue >= 6) hue -= 6;
  const int sixth = hue >= 0 ? static_cast<int>(hue) : 5;  // Of NaN the last.
  float part = hue - static_cast<float>(sixth);
  if (sixth % 2 != 0) part = 1 - part;
  const float middle = least + part * (most - least);
  return InSixth(sixth, most, middle, least);
}

Color<float> Saturate(const Color<float>& rgb, float scale) {
  Color<float> hsv = ToHsv(rgb);
  hsv.b = UnitOf(hsv.b * scale);
  const float chroma = hsv.b * hsv.c;
  const float least = hsv.c - chroma;
  const float sixths = hsv.a * 6;
  if (!(sixths >= 0 && sixths < 6)) return {least, least, least};
  const int sixth = static_cast<int>(sixths);
  const float within = sixths - static_cast<float>(sixth / 2 * 2);
  const float middle = chroma * (1 - std::abs(within - 1)) + least;
  const float most = chroma + least;
  return InSixth(sixth, most, middle, least);
}

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
  EachPixel<T, Wide>(pixels, from, to, [to_hsv](const Color<Wide>& color) {
    return to_hsv ? ToHsv(color) : ToRgb(color);
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
    EachPixel<float, float>(
        images.num_elements() / 3, images.data<float>(), out->mutable_data<float>(),
        [by](const Color<float>& rgb) { return kHue ? TurnHue(rgb, by) : Saturate(rgb, by); });
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
