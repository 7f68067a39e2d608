// Images resampled along rows and columns by weights: areas, cubic kernels, ScaleAndTranslate. An
// axis' weights are a table, and one loop serves all of them; their gradients spread by the same.

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/image/image_cpu.h"
#include "core/ops/image.h"

namespace formwork {
namespace {

// Of each place of the output's axis: `width` places of the input's, and their weights.
struct Taps {
  int64_t width = 0;
  std::vector<int32_t> places;
  std::vector<float> weights;

  void Add(int64_t place, int64_t limit, float weight) {
    places.push_back(static_cast<int32_t>(std::clamp<int64_t>(place, 0, limit - 1)));
    weights.push_back(weight);
  }
  // Places of weight 0, until there are `width` for each of the first n.
  void FillUp(int64_t n) {
    places.resize(static_cast<size_t>(n * width));
    weights.resize(static_cast<size_t>(n * width));
  }
};

absl::Status CheckAxis(int64_t in, int64_t out) {
  if (in <= std::numeric_limits<int32_t>::max() && out <= std::numeric_limits<int32_t>::max()) {
    return absl::OkStatus();
  }
  return InvalidArgument("image is too large: ", in, " to ", out);
}

// --- ResizeArea ---------------------------------------------------------------------------------

float ScaleOf(int64_t in, int64_t out, bool align_corners) {
  return align_corners && out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1)
                                  : static_cast<float>(in) / static_cast<float>(out);
}

// A place of the output covers `scale` places of the input, the outer ones in part.
Taps AreaTaps(int64_t in, int64_t out, bool align_corners) {
  const float scale = ScaleOf(in, out, align_corners);
  Taps taps;
  taps.width = static_cast<int64_t>(std::ceil(scale)) + 2;
  for (int64_t i = 0; i < out; ++i) {
    if (WorkIsCutAt(i, kDearItems)) break;
    if (scale == 0) {  // Corners of one place.
      taps.Add(0, in, 1);
      taps.FillUp(i + 1);
      continue;
    }
    const float begin = static_cast<float>(i) * scale;
    const float end = static_cast<float>(i + 1) * scale;
    const int64_t first = static_cast<int64_t>(std::floor(begin));
    const int64_t last =
        std::min<int64_t>(static_cast<int64_t>(std::ceil(end)), first + taps.width);
    for (int64_t k = first; k < last; ++k) {
      const float at = static_cast<float>(k);
      const float covered =
          at < begin ? (at + 1 > end ? scale : at + 1 - begin) : (at + 1 > end ? end - at : 1.0f);
      taps.Add(k, in, covered / scale);
    }
    taps.FillUp(i + 1);
  }
  return taps;
}

// --- ResizeBicubic ------------------------------------------------------------------------------

constexpr int64_t kCubicSteps = 1024;  // Weights are those of the nearest of so many positions.

// The cubic kernel of parameter `a`, at a distance of at most 1, and between 1 and 2.
float CubicNear(float x, float a) { return ((a + 2) * x - (a + 3)) * x * x + 1; }
float CubicFar(float x, float a) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; }

Taps CubicTaps(const ResizeAttrs& attrs, int64_t in, int64_t out) {
  const float scale = ScaleOf(in, out, attrs.align_corners);
  // Keys' kernel, or the sharper one of old.
  const float a = attrs.half_pixel_centers ? -0.5f : -0.75f;
  Taps taps;
  taps.width = 4;
  for (int64_t i = 0; i < out; ++i) {
    if (WorkIsCutAt(i, kDearItems)) break;
    const float at = attrs.half_pixel_centers ? (static_cast<float>(i) + 0.5f) * scale - 0.5f
                                              : static_cast<float>(i) * scale;
    const int64_t place = static_cast<int64_t>(std::floor(at));
    const float delta = at - static_cast<float>(place);
    const float step = static_cast<float>(std::lrint(delta * kCubicSteps));
    const float behind = step / kCubicSteps;
    const float ahead = (kCubicSteps - step) / kCubicSteps;
    float weights[] = {CubicFar(behind + 1, a), CubicNear(behind, a), CubicNear(ahead, a),
                       CubicFar(ahead + 1, a)};
    if (attrs.half_pixel_centers) {
      // What lies outside of the image has no weight, and the others share it.
      float sum = 0;
      for (int k = 0; k < 4; ++k) {
        if (place + k - 1 < 0 || place + k - 1 >= in) weights[k] = 0;
        sum += weights[k];
      }
      if (std::abs(sum) >= 1000 * std::numeric_limits<float>::min()) {
        for (float& weight : weights) weight /= sum;
      }
    }
    for (int k = 0; k < 4; ++k) taps.Add(place + k - 1, in, weights[k]);
  }
  return taps;
}

// --- ScaleAndTranslate --------------------------------------------------------------------------

float Lanczos(float x, float radius) {
  constexpr float kPi = 3.14159265359f;
  if (x > radius) return 0;
  if (x <= 1e-3f) return 1;
  return radius * std::sin(kPi * x) * std::sin(kPi * x / radius) / (kPi * kPi * x * x);
}

float RadiusOf(SampleKernel kernel) {
  switch (kernel) {
    case SampleKernel::kLanczos1:
    case SampleKernel::kBox:
    case SampleKernel::kTriangle:
      return 1;
    case SampleKernel::kLanczos3:
      return 3;
    case SampleKernel::kLanczos5:
      return 5;
    case SampleKernel::kGaussian:
      return 1.5f;
    default:
      return 2;
  }
}

float WeightAt(SampleKernel kernel, float x) {
  switch (kernel) {
    case SampleKernel::kLanczos1:
    case SampleKernel::kLanczos3:
    case SampleKernel::kLanczos5:
      return Lanczos(x, RadiusOf(kernel));
    case SampleKernel::kGaussian: {
      const float sigma = RadiusOf(kernel) / 3;
      return x >= RadiusOf(kernel) ? 0 : std::exp(-x * x / (2 * sigma * sigma));
    }
    case SampleKernel::kBox:
      return x < 0.5f ? 1 : (x == 0.5f ? 0.5f : 0);
    case SampleKernel::kTriangle:
      return x < 1 ? 1 - x : 0;
    case SampleKernel::kKeysCubic:
      if (x >= 2) return 0;
      return x >= 1 ? CubicFar(x, -0.5f) : CubicNear(x, -0.5f);
    case SampleKernel::kMitchellCubic:
      if (x >= 2) return 0;
      if (x >= 1) return ((-7.0f / 18 * x + 2) * x - 10.0f / 3) * x + 16.0f / 9;
      return (7.0f / 6 * x - 2) * x * x + 8.0f / 9;
  }
  return 0;
}

Taps SampleTaps(const SampleAttrs& attrs, int64_t in, int64_t out, float scale, float translate) {
  const float inverse = 1.0f / scale;
  const float shift = -inverse * translate;
  // A kernel is as wide as what it stands for, so that no place of the input is passed over.
  const float stretch = attrs.antialias ? std::max(inverse, 1.0f) : 1.0f;
  const float radius = RadiusOf(attrs.kernel) * stretch;
  Taps taps;
  taps.width = std::min<int64_t>(
      in, radius >= static_cast<float>(in) ? in : 2 * static_cast<int64_t>(std::ceil(radius)) + 1);
  for (int64_t i = 0; i < out; ++i) {
    if (WorkIsCutAt(i, kDearItems)) break;
    const float at = (static_cast<float>(i) + 0.5f) * inverse + shift;
    if (at >= 0 && at <= static_cast<float>(in)) {
      const auto place = [in](float x) {
        return static_cast<int64_t>(std::clamp(x, 0.0f, static_cast<float>(in - 1)));
      };
      const int64_t first = place(std::ceil(at - radius - 0.5f));
      const int64_t last = std::min(place(std::floor(at + radius - 0.5f)), first + taps.width - 1);
      const size_t begin = taps.weights.size();
      float sum = 0;
      for (int64_t k = first; k <= last; ++k) {
        const float weight =
            WeightAt(attrs.kernel, std::abs((static_cast<float>(k) + 0.5f - at) / stretch));
        sum += weight;
        taps.Add(k, in, weight);
      }
      const bool counts = std::abs(sum) >= 1000 * std::numeric_limits<float>::min();
      for (size_t k = begin; k < taps.weights.size(); ++k) {
        taps.weights[k] = counts ? taps.weights[k] / sum : 0;
      }
    }
    taps.FillUp(i + 1);
  }
  return taps;
}

// --- The loops ----------------------------------------------------------------------------------

struct AxisTaps {
  Taps rows;
  Taps cols;
};

template <typename T>
void Resample(const ResizeGeometry& s, const AxisTaps& taps, const T* images, float* out) {
  const int64_t line = s.in_cols * s.channels;
  const int64_t work = line * taps.rows.width + s.out_cols * s.channels * taps.cols.width;
  ParallelFor(s.batch * s.out_rows, std::max<int64_t>(1, 32 * 1024 / std::max<int64_t>(work, 1)),
              [&](int64_t begin, int64_t end) {
                std::vector<float> mixed(static_cast<size_t>(line));
                for (int64_t r = begin; r < end; ++r) {
                  if (WorkIsCut()) return;
                  const T* image = images + r / s.out_rows * s.in_rows * line;
                  const size_t row = static_cast<size_t>(r % s.out_rows * taps.rows.width);
                  std::fill(mixed.begin(), mixed.end(), 0.0f);
                  for (size_t k = row; k < row + static_cast<size_t>(taps.rows.width); ++k) {
                    const float weight = taps.rows.weights[k];
                    if (weight == 0) continue;
                    const T* from = image + taps.rows.places[k] * line;
                    for (int64_t i = 0; i < line; ++i) {
                      mixed[static_cast<size_t>(i)] += weight * static_cast<float>(from[i]);
                    }
                  }
                  float* to = out + r * s.out_cols * s.channels;
                  for (int64_t w = 0; w < s.out_cols; ++w, to += s.channels) {
                    if (WorkIsCutAt(w)) return;
                    std::fill_n(to, s.channels, 0.0f);
                    for (int64_t k = w * taps.cols.width; k < (w + 1) * taps.cols.width; ++k) {
                      const float weight = taps.cols.weights[static_cast<size_t>(k)];
                      const float* from =
                          mixed.data() + taps.cols.places[static_cast<size_t>(k)] * s.channels;
                      if (weight == 0) continue;
                      for (int64_t c = 0; c < s.channels; ++c) to[c] += weight * from[c];
                    }
                  }
                }
              });
}

// The reverse: what each place of the input gave to the output, in `out`, which is all zero.
template <typename T>
void SpreadBack(const ResizeGeometry& s, const AxisTaps& taps, const float* grads, T* out) {
  const int64_t line = s.in_cols * s.channels;
  ParallelFor(s.batch, 1, [&](int64_t begin, int64_t end) {
    std::vector<T> mixed(static_cast<size_t>(line));
    for (int64_t r = begin * s.out_rows; r < end * s.out_rows; ++r) {
      if (WorkIsCut()) return;
      std::fill(mixed.begin(), mixed.end(), T(0));
      const float* from = grads + r * s.out_cols * s.channels;
      for (int64_t w = 0; w < s.out_cols; ++w, from += s.channels) {
        if (WorkIsCutAt(w)) return;
        for (int64_t k = w * taps.cols.width; k < (w + 1) * taps.cols.width; ++k) {
          const T weight = taps.cols.weights[static_cast<size_t>(k)];
          T* to = mixed.data() + taps.cols.places[static_cast<size_t>(k)] * s.channels;
          for (int64_t c = 0; c < s.channels; ++c) to[c] += weight * static_cast<T>(from[c]);
        }
      }
      T* image = out + r / s.out_rows * s.in_rows * line;
      const size_t row = static_cast<size_t>(r % s.out_rows * taps.rows.width);
      for (size_t k = row; k < row + static_cast<size_t>(taps.rows.width); ++k) {
        const T weight = taps.rows.weights[k];
        T* to = image + taps.rows.places[k] * line;
        for (int64_t i = 0; i < line; ++i) to[i] += weight * mixed[static_cast<size_t>(i)];
      }
    }
  });
}

absl::Status OutputResampled(KernelContext& ctx, const ResizeGeometry& s, const AxisTaps& taps) {
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  const Tensor images = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(s.resized()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kFloat, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  switch (images.dtype()) {
    FORMWORK_REAL_CASES(Resample(s, taps, images.data<T>(), out->mutable_data<float>());
                        return absl::OkStatus())
    default:
      return Unimplemented("dtype ", DTypeName(images.dtype()), " is not supported");
  }
}

absl::Status OutputGradient(KernelContext& ctx, DType dtype, const ResizeGeometry& s,
                            const AxisTaps& taps) {
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  const Tensor grads = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(s.original()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(ctx.allocator(), dtype, shape));
  ZeroElements(out);
  if (dtype == DType::kDouble) {
    SpreadBack(s, taps, grads.data<float>(), out.mutable_data<double>());
  } else {
    SpreadBack(s, taps, grads.data<float>(), out.mutable_data<float>());
  }
  ctx.SetOutput(0, std::move(out));
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeArea(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool align_corners, init.attrs().Get<bool>("align_corners"));
  return KernelFn([align_corners](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResizeGeometry s,
                              PrepareResize(ctx.input(0).shape().dims(), &ctx.input(1)));
    FORMWORK_RETURN_IF_ERROR(CheckAxis(s.in_rows, s.out_rows));
    FORMWORK_RETURN_IF_ERROR(CheckAxis(s.in_cols, s.out_cols));
    const AxisTaps taps = {AreaTaps(s.in_rows, s.out_rows, align_corners),
                           AreaTaps(s.in_cols, s.out_cols, align_corners)};
    return OutputResampled(ctx, s, taps);
  });
}

absl::StatusOr<AxisTaps> BothCubic(const ResizeAttrs& attrs, const ResizeGeometry& s) {
  FORMWORK_RETURN_IF_ERROR(CheckAxis(s.in_rows, s.out_rows));
  FORMWORK_RETURN_IF_ERROR(CheckAxis(s.in_cols, s.out_cols));
  return AxisTaps{CubicTaps(attrs, s.in_rows, s.out_rows), CubicTaps(attrs, s.in_cols, s.out_cols)};
}

absl::StatusOr<KernelFn> MakeBicubic(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ResizeAttrs attrs, ResizeAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResizeGeometry s,
                              PrepareResize(ctx.input(0).shape().dims(), &ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(const AxisTaps taps, BothCubic(attrs, s));
    return OutputResampled(ctx, s, taps);
  });
}

absl::StatusOr<KernelFn> MakeBicubicGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ResizeAttrs attrs, ResizeAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([attrs, dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const ResizeGeometry s,
        PrepareBilinearGrad(ctx.input(0).shape().dims(), ctx.input(1).shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const AxisTaps taps, BothCubic(attrs, s));
    return OutputGradient(ctx, dtype, s, taps);
  });
}

absl::StatusOr<AxisTaps> BothSampled(const SampleAttrs& attrs, const ResizeGeometry& s,
                                     const Tensor& scale, const Tensor& translation) {
  FORMWORK_RETURN_IF_ERROR(CheckAxis(s.in_rows, s.out_rows));
  FORMWORK_RETURN_IF_ERROR(CheckAxis(s.in_cols, s.out_cols));
  FORMWORK_RETURN_IF_ERROR(CheckSampleScale(scale, translation));
  const float* by = scale.data<float>();
  const float* from = translation.data<float>();
  return AxisTaps{SampleTaps(attrs, s.in_rows, s.out_rows, by[0], from[0]),
                  SampleTaps(attrs, s.in_cols, s.out_cols, by[1], from[1])};
}

absl::StatusOr<KernelFn> MakeSample(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SampleAttrs attrs, SampleAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResizeGeometry s,
                              PrepareResize(ctx.input(0).shape().dims(), &ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(const AxisTaps taps,
                              BothSampled(attrs, s, ctx.input(2), ctx.input(3)));
    return OutputResampled(ctx, s, taps);
  });
}

absl::StatusOr<KernelFn> MakeSampleGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SampleAttrs attrs, SampleAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(
        const ResizeGeometry s,
        PrepareBilinearGrad(ctx.input(0).shape().dims(), ctx.input(1).shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const AxisTaps taps,
                              BothSampled(attrs, s, ctx.input(2), ctx.input(3)));
    return OutputGradient(ctx, DType::kFloat, s, taps);
  });
}

}  // namespace

void AddResampleCpuKernels(KernelRegistry& registry) {
  registry.Add("ResizeArea", MakeArea);
  registry.Add("ResizeBicubic", MakeBicubic);
  registry.Add("ResizeBicubicGrad", MakeBicubicGrad);
  registry.Add("ScaleAndTranslate", MakeSample);
  registry.Add("ScaleAndTranslateGrad", MakeSampleGrad);
}

}  // namespace formwork
