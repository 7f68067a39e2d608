// Projective transforms of images: each pixel of the output is looked up where it came from.

#include <algorithm>
#include <cmath>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/image/image_cpu.h"
#include "core/ops/image.h"

namespace formwork {
namespace {

// As an integer, for counting whole periods; what is far out of range counts as the farthest.
float Periods(float x) { return std::trunc(std::clamp(x, -1e18f, 1e18f)); }

// Where in [0, size - 1] a coordinate outside of it lies.
float MapInside(FillMode mode, float at, int64_t length) {
  const float size = static_cast<float>(length);
  const float last = size - 1;
  switch (mode) {
    case FillMode::kConstant:
      return at;
    case FillMode::kNearest:
      break;
    case FillMode::kReflect:
      if (length <= 1) return 0;
      if (at < 0) {
        const float both = 2 * size;
        if (at < both) at = both * Periods(-at / both) + at;
        at = at < -size ? at + both : -at - 1;
      } else if (at > last) {
        const float both = 2 * size;
        at -= both * Periods(at / both);
        if (at >= size) at = both - at - 1;
      }
      break;
    case FillMode::kWrap:
      if (length <= 1) return 0;
      if (at < 0) {
        at += size * (Periods(-at / last) + 1);
      } else if (at > last) {
        at -= size * Periods(at / last);
      }
      break;
  }
  return at > 0 ? std::min(at, last) : 0;  // NaN is 0, too.
}

template <typename T>
struct Image {
  const T* pixels;
  int64_t rows;
  int64_t cols;
  int64_t channels;
  T fill;

  // The channels of a pixel; null outside.
  const T* At(float row, float col) const {
    if (!(row >= 0 && row < static_cast<float>(rows) && col >= 0 &&
          col < static_cast<float>(cols))) {
      return nullptr;
    }
    return pixels + (static_cast<int64_t>(row) * cols + static_cast<int64_t>(col)) * channels;
  }
  float Value(const T* pixel, int64_t c) const {
    return static_cast<float>(pixel == nullptr ? fill : pixel[c]);
  }
};

template <typename T>
void LookUp(const Image<T>& image, bool bilinear, float row, float col, T* to) {
  if (!bilinear) {
    const T* pixel = image.At(std::round(row), std::round(col));
    for (int64_t c = 0; c < image.channels; ++c) to[c] = pixel == nullptr ? image.fill : pixel[c];
    return;
  }
  const float top = std::floor(row);
  const float left = std::floor(col);
  const T* corners[] = {image.At(top, left), image.At(top, left + 1), image.At(top + 1, left),
                        image.At(top + 1, left + 1)};
  for (int64_t c = 0; c < image.channels; ++c) {
    const float above =
        (left + 1 - col) * image.Value(corners[0], c) + (col - left) * image.Value(corners[1], c);
    const float below =
        (left + 1 - col) * image.Value(corners[2], c) + (col - left) * image.Value(corners[3], c);
    to[c] = T((top + 1 - row) * above + (row - top) * below);
  }
}

template <typename T>
void Transform(const TransformAttrs& attrs, const TransformGeometry& s, const T* images,
               const float* transforms, bool one, T fill, T* out) {
  const int64_t line = s.out_cols * s.channels;
  ParallelFor(s.batch * s.out_rows, std::max<int64_t>(1, 8 * 1024 / std::max<int64_t>(line, 1)),
              [&](int64_t begin, int64_t end) {
                for (int64_t r = begin; r < end; ++r) {
                  if (WorkIsCut()) return;
                  const int64_t n = r / s.out_rows;
                  const Image<T> image = {images + n * s.in_rows * s.in_cols * s.channels,
                                          s.in_rows, s.in_cols, s.channels, fill};
                  const float* by = transforms + (one ? 0 : n * 8);
                  const float y = static_cast<float>(r % s.out_rows);
                  T* to = out + r * line;
                  for (int64_t w = 0; w < s.out_cols; ++w, to += s.channels) {
                    if (WorkIsCutAt(w)) return;
                    const float x = static_cast<float>(w);
                    const float projection = by[6] * x + by[7] * y + 1;
                    if (projection == 0) {
                      std::fill_n(to, s.channels, fill);
                      continue;
                    }
                    const float col = (by[0] * x + by[1] * y + by[2]) / projection;
                    const float row = (by[3] * x + by[4] * y + by[5]) / projection;
                    LookUp(image, attrs.bilinear, MapInside(attrs.fill_mode, row, s.in_rows),
                           MapInside(attrs.fill_mode, col, s.in_cols), to);
                  }
                }
              });
}

absl::StatusOr<KernelFn> MakeTransform(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const TransformAttrs attrs, TransformAttrs::FromAttrs(init.attrs()));
  const bool filled = init.input_dtypes().size() > 3;
  return KernelFn([attrs, filled](KernelContext& ctx) -> absl::Status {
    const Tensor images = ctx.input(0);
    const Tensor transforms = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(
        const TransformGeometry s,
        PrepareTransform(images.shape().dims(), transforms.shape().dims(), &ctx.input(2)));
    float fill = 0;
    if (filled) {
      if (ctx.input(3).rank() != 0) return InvalidArgument("fill_value must be a scalar");
      fill = ctx.input(3).scalar<float>();
    }
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape,
                              Shape::Make({s.batch, s.out_rows, s.out_cols, s.channels}));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, images.dtype(), shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    const auto run = [&](auto zero) {
      using T = decltype(zero);
      Transform<T>(attrs, s, images.data<T>(), transforms.data<float>(), transforms.dim(0) == 1,
                   T(fill), out->mutable_data<T>());
      return absl::OkStatus();
    };
    switch (images.dtype()) {
      FORMWORK_FLOAT_CASES(return run(T()))
      FORMWORK_CASE(uint8_t, return run(T()))
      FORMWORK_CASE(int32_t, return run(T()))
      FORMWORK_CASE(int64_t, return run(T()))
      default:
        return Unimplemented("ImageProjectiveTransform: dtype ", DTypeName(images.dtype()),
                             " is not supported");
    }
  });
}

}  // namespace

void AddImageTransformCpuKernels(KernelRegistry& registry) {
  registry.Add("ImageProjectiveTransformV2", MakeTransform);
  registry.Add("ImageProjectiveTransformV3", MakeTransform);
}

}  // namespace formwork
