// Resizing of images, with TensorFlow's arithmetic: positions are computed in float.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/arithmetic.h"
#include "core/kernels/elements.h"
#include "core/kernels/image/image_cpu.h"
#include "core/kernels/isa.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/widen.h"
#include "core/ops/image.h"

namespace formwork {
namespace {

constexpr int64_t kTaskElements = 32 * 1024;

/// Elements of the input for each of the output.
float ScaleOf(int64_t in, int64_t out, bool align_corners) {
  return align_corners && out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1)
                                  : static_cast<float>(in) / static_cast<float>(out);
}

/// Where one output element of an axis lies between two of the input.
struct Between {
  int64_t lower;
  int64_t upper;
  float lerp;
};

/// The elements of one axis that an output element is made of. Computed as they are needed: a table
/// could be larger than the image.
struct BilinearAxis {
  using Place = Between;
  bool half_pixel_centers;
  float scale;
  int64_t in;

  BilinearAxis(const ResizeAttrs& attrs, int64_t in_size, int64_t out_size)
      : half_pixel_centers(attrs.half_pixel_centers),
        scale(ScaleOf(in_size, out_size, attrs.align_corners)),
        in(in_size) {}
  Between At(int64_t i) const {
    const float at = half_pixel_centers ? (static_cast<float>(i) + 0.5f) * scale - 0.5f
                                        : static_cast<float>(i) * scale;
    const float floor = std::floor(at);
    return {std::clamp<int64_t>(static_cast<int64_t>(floor), 0, in - 1),
            std::clamp<int64_t>(static_cast<int64_t>(std::ceil(at)), 0, in - 1), at - floor};
  }
};

/// The element of one axis that an output element copies.
struct NearestAxis {
  using Place = int64_t;
  bool align_corners;
  bool half_pixel_centers;
  float scale;
  int64_t in;

  NearestAxis(const ResizeAttrs& attrs, int64_t in_size, int64_t out_size)
      : align_corners(attrs.align_corners),
        half_pixel_centers(attrs.half_pixel_centers),
        scale(ScaleOf(in_size, out_size, attrs.align_corners)),
        in(in_size) {}
  int64_t At(int64_t i) const {
    const float at =
        half_pixel_centers ? (static_cast<float>(i) + 0.5f) * scale : static_cast<float>(i) * scale;
    const float rounded = align_corners ? std::round(at) : std::floor(at);
    return std::clamp<int64_t>(static_cast<int64_t>(rounded), 0, in - 1);
  }
};

/// A window of an axis' places, kept while rows go by.
template <typename Axis>
class PlaceBlock {
 public:
  static constexpr int64_t kSize = 1024;
  explicit PlaceBlock(const Axis& axis) : axis_(axis) {}
  /// The places [begin, end), at most kSize.
  const typename Axis::Place* Get(int64_t begin, int64_t end) {
    if (begin != begin_) {
      for (int64_t i = begin; i < end; ++i) places_[i - begin] = axis_.At(i);
      begin_ = begin;
    }
    return places_;
  }

 private:
  const Axis& axis_;
  int64_t begin_ = -1;
  typename Axis::Place places_[kSize];
};

// Of a row's blocks of places; one row may be all there is.
constexpr int64_t kBlocksBetweenLooks = 64;

int64_t RowGrain(const ResizeGeometry& s) {
  return std::max<int64_t>(1, kTaskElements / (s.out_cols * s.channels));
}

/// One output row, columns [begin, end).
template <typename T>
struct BilinearRow {
  FORMWORK_ISA_INLINE static void Run(int64_t channels, Between row, const Between* cols,
                                      int64_t count, const T* top, const T* bottom, float* to) {
    for (int64_t w = 0; w < count; ++w, to += channels) {
      const Between col = cols[w];
      const T* top_left = top + col.lower * channels;
      const T* top_right = top + col.upper * channels;
      const T* bottom_left = bottom + col.lower * channels;
      const T* bottom_right = bottom + col.upper * channels;
      for (int64_t c = 0; c < channels; ++c) {
        const float tl = static_cast<float>(top_left[c]);
        const float tr = static_cast<float>(top_right[c]);
        const float bl = static_cast<float>(bottom_left[c]);
        const float br = static_cast<float>(bottom_right[c]);
        const float above = tl + (tr - tl) * col.lerp;
        const float below = bl + (br - bl) * col.lerp;
        to[c] = above + (below - above) * row.lerp;
      }
    }
  }
};

template <typename T>
void Bilinear(const ResizeAttrs& attrs, const ResizeGeometry& s, const T* images, float* out) {
  const BilinearAxis rows(attrs, s.in_rows, s.out_rows);
  const BilinearAxis cols(attrs, s.in_cols, s.out_cols);
  ParallelFor(s.batch * s.out_rows, RowGrain(s), [&](int64_t begin, int64_t end) {
    PlaceBlock<BilinearAxis> block(cols);
    for (int64_t w = 0; w < s.out_cols; w += block.kSize) {
      if (WorkIsCutAt(w / block.kSize, kBlocksBetweenLooks)) return;
      const int64_t last = std::min(w + block.kSize, s.out_cols);
      const Between* places = block.Get(w, last);
      for (int64_t r = begin; r < end; ++r) {
        const Between row = rows.At(r % s.out_rows);
        const int64_t image_row = r / s.out_rows * s.in_rows;
        ForHostIsa<BilinearRow<T>>(s.channels, row, places, last - w,
                                   images + (image_row + row.lower) * s.in_cols * s.channels,
                                   images + (image_row + row.upper) * s.in_cols * s.channels,
                                   out + (r * s.out_cols + w) * s.channels);
      }
    }
  });
}

absl::StatusOr<KernelFn> MakeBilinear(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ResizeAttrs attrs, ResizeAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& images = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const ResizeGeometry sizes,
                              PrepareResize(images.shape().dims(), &ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(sizes.resized()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kFloat, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    switch (images.dtype()) {
      FORMWORK_REAL_CASES(Bilinear(attrs, sizes, images.data<T>(), out->mutable_data<float>());
                          return absl::OkStatus())
      default:
        return Unimplemented("ResizeBilinear: dtype ", DTypeName(images.dtype()),
                             " is not supported");
    }
    return absl::OkStatus();
  });
}

template <typename T>
void AddShares(const Between& row, const Between& col, int64_t channels, const float* from, T* top,
               T* bottom) {
  const float left = 1.0f - col.lerp;
  const float above = 1.0f - row.lerp;
  for (int64_t c = 0; c < channels; ++c) {
    const float g = from[c];
    top[col.lower * channels + c] += static_cast<T>(g * above * left);
    top[col.upper * channels + c] += static_cast<T>(g * above * col.lerp);
    bottom[col.lower * channels + c] += static_cast<T>(g * row.lerp * left);
    bottom[col.upper * channels + c] += static_cast<T>(g * row.lerp * col.lerp);
  }
}

/// Each gradient is shared out among the four elements that it was made of. T: float, double.
template <typename T>
void BilinearGradient(const ResizeAttrs& attrs, const ResizeGeometry& s, const float* grads,
                      T* out) {
  // Here "in" is the original image and "out" the resized one.
  const BilinearAxis rows(attrs, s.in_rows, s.out_rows);
  const BilinearAxis cols(attrs, s.in_cols, s.out_cols);
  const int64_t image = s.in_rows * s.in_cols * s.channels;
  ParallelFor(s.batch, std::max<int64_t>(1, RowGrain(s) / s.out_rows),
              [&](int64_t begin, int64_t end) {
                PlaceBlock<BilinearAxis> block(cols);
                const int64_t rows_between_looks = RowGrain(s);
                for (int64_t n = begin; n < end; ++n) {
                  T* to = out + n * image;
                  ForBlocks(image, kCheapItems,
                            [to](int64_t b, int64_t e) { std::fill(to + b, to + e, T(0)); });
                  const float* from = grads + n * s.out_rows * s.out_cols * s.channels;
                  for (int64_t h = 0; h < s.out_rows; ++h) {
                    if ((h + 1) % rows_between_looks == 0 && WorkIsCut()) return;
                    const Between row = rows.At(h);
                    T* top = to + row.lower * s.in_cols * s.channels;
                    T* bottom = to + row.upper * s.in_cols * s.channels;
                    for (int64_t w = 0; w < s.out_cols; w += block.kSize) {
                      if (WorkIsCutAt(w / block.kSize, kBlocksBetweenLooks)) return;
                      const int64_t last = std::min(w + block.kSize, s.out_cols);
                      const Between* places = block.Get(w, last);
                      for (int64_t i = 0; i < last - w; ++i, from += s.channels) {
                        AddShares(row, places[i], s.channels, from, top, bottom);
                      }
                    }
                  }
                }
              });
}

absl::StatusOr<KernelFn> MakeBilinearGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ResizeAttrs attrs, ResizeAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& grads = ctx.input(0);
    const Tensor& original = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(const ResizeGeometry sizes,
                              PrepareBilinearGrad(grads.shape().dims(), original.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(sizes.original()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, original.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    switch (original.dtype()) {
      case DType::kFloat:
        BilinearGradient(attrs, sizes, grads.data<float>(), out->mutable_data<float>());
        return absl::OkStatus();
      case DType::kDouble:
        BilinearGradient(attrs, sizes, grads.data<float>(), out->mutable_data<double>());
        return absl::OkStatus();
      case DType::kHalf:
      case DType::kBfloat16: {
        // Summed in float, rounded once.
        FORMWORK_ASSIGN_OR_RETURN(Tensor wide,
                                  Tensor::Allocate(ctx.allocator(), DType::kFloat, shape));
        BilinearGradient(attrs, sizes, grads.data<float>(), wide.mutable_data<float>());
        NarrowTo(original.dtype(), wide.data<float>(), wide.num_elements(), out->mutable_raw());
        return absl::OkStatus();
      }
      default:
        return Unimplemented("ResizeBilinearGrad: dtype ", DTypeName(original.dtype()),
                             " is not supported");
    }
  });
}

absl::StatusOr<KernelFn> MakeNearest(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ResizeAttrs attrs, ResizeAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& images = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const ResizeGeometry s,
                              PrepareResize(images.shape().dims(), &ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(s.resized()));
    if (!IsPlainData(images.dtype())) {
      return Unimplemented("ResizeNearestNeighbor: dtype ", DTypeName(images.dtype()),
                           " is not supported");
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, images.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    const NearestAxis rows(attrs, s.in_rows, s.out_rows);
    const NearestAxis cols(attrs, s.in_cols, s.out_cols);
    const int64_t pixel = s.channels * static_cast<int64_t>(DTypeSize(images.dtype()));
    const char* from = static_cast<const char*>(images.raw());
    char* to = static_cast<char*>(out->mutable_raw());
    ParallelFor(s.batch * s.out_rows, RowGrain(s), [&](int64_t begin, int64_t end) {
      PlaceBlock<NearestAxis> block(cols);
      for (int64_t w = 0; w < s.out_cols; w += block.kSize) {
        if (WorkIsCutAt(w / block.kSize, kBlocksBetweenLooks)) return;
        const int64_t last = std::min(w + block.kSize, s.out_cols);
        const int64_t* places = block.Get(w, last);
        for (int64_t r = begin; r < end; ++r) {
          const int64_t in_row = r / s.out_rows * s.in_rows + rows.At(r % s.out_rows);
          for (int64_t i = w; i < last; ++i) {
            std::memcpy(to + (r * s.out_cols + i) * pixel,
                        from + (in_row * s.in_cols + places[i - w]) * pixel,
                        static_cast<size_t>(pixel));
          }
        }
      }
    });
    return absl::OkStatus();
  });
}

/// Gradients are added, in T, to the element that they were copied from.
template <typename T>
void NearestGradient(const ResizeAttrs& attrs, const ResizeGeometry& s, const T* grads, T* out) {
  // Here "in" is the original image and "out" the resized one.
  const NearestAxis rows(attrs, s.in_rows, s.out_rows);
  const NearestAxis cols(attrs, s.in_cols, s.out_cols);
  const int64_t image = s.in_rows * s.in_cols * s.channels;
  ParallelFor(s.batch, 1, [&](int64_t begin, int64_t end) {
    PlaceBlock<NearestAxis> block(cols);
    const int64_t rows_between_looks = RowGrain(s);
    for (int64_t n = begin; n < end; ++n) {
      T* to = out + n * image;
      ForBlocks(image, kCheapItems,
                [to](int64_t b, int64_t e) { std::fill(to + b, to + e, T(0)); });
      const T* from = grads + n * s.out_rows * s.out_cols * s.channels;
      for (int64_t h = 0; h < s.out_rows; ++h) {
        if ((h + 1) % rows_between_looks == 0 && WorkIsCut()) return;
        T* row = to + rows.At(h) * s.in_cols * s.channels;
        for (int64_t w = 0; w < s.out_cols; w += block.kSize) {
          if (WorkIsCutAt(w / block.kSize, kBlocksBetweenLooks)) return;
          const int64_t last = std::min(w + block.kSize, s.out_cols);
          const int64_t* places = block.Get(w, last);
          for (int64_t i = 0; i < last - w; ++i, from += s.channels) {
            T* at = row + places[i] * s.channels;
            for (int64_t c = 0; c < s.channels; ++c) at[c] = math::Add(at[c], from[c]);
          }
        }
      }
    }
  });
}

absl::StatusOr<KernelFn> MakeNearestGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ResizeAttrs attrs, ResizeAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& grads = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const ResizeGeometry s,
                              PrepareNearestGrad(grads.shape().dims(), &ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(s.original()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, grads.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    if (grads.num_elements() == 0) {
      ZeroElements(*out);
      return absl::OkStatus();
    }
    switch (grads.dtype()) {
      FORMWORK_FLOAT_CASES(NearestGradient(attrs, s, grads.data<T>(), out->mutable_data<T>());
                           return absl::OkStatus())
      FORMWORK_CASE(int8_t, NearestGradient(attrs, s, grads.data<T>(), out->mutable_data<T>());
                    return absl::OkStatus())
      FORMWORK_CASE(uint8_t, NearestGradient(attrs, s, grads.data<T>(), out->mutable_data<T>());
                    return absl::OkStatus())
      FORMWORK_CASE(int32_t, NearestGradient(attrs, s, grads.data<T>(), out->mutable_data<T>());
                    return absl::OkStatus())
      default:
        return Unimplemented("ResizeNearestNeighborGrad: dtype ", DTypeName(grads.dtype()),
                             " is not supported");
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterImageCpuKernels(KernelRegistry& registry) {
  registry.Add("ResizeBilinear", MakeBilinear);
  registry.Add("ResizeBilinearGrad", MakeBilinearGrad);
  registry.Add("ResizeNearestNeighbor", MakeNearest);
  registry.Add("ResizeNearestNeighborGrad", MakeNearestGrad);
  AddResampleCpuKernels(registry);
  AddImageTransformCpuKernels(registry);
  AddImageFileCpuKernels(registry);
  AddImageColorCpuKernels(registry);
  AddCropCpuKernels(registry);
  AddPatchCpuKernels(registry);
  AddImageSummaryCpuKernel(registry);
  AddGlimpseCpuKernels(registry);
  AddHistogramCpuKernels(registry);
  AddNmsCpuKernels(registry);
  AddDrawBoxesCpuKernels(registry);
}

}  // namespace formwork
