// DrawBoundingBoxes: the outlines of boxes over images.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/image/image_cpu.h"
#include "core/ops/image.h"

namespace formwork {
namespace {

// Where boxes have no colors of their own: red, green, blue and alpha.
constexpr std::array<std::array<float, 4>, 10> kColors = {{{1, 1, 0, 1},
                                                           {0, 0, 1, 1},
                                                           {1, 0, 0, 1},
                                                           {0, 1, 0, 1},
                                                           {0.5, 0, 0.5, 1},
                                                           {0.5, 0.5, 0, 1},
                                                           {0.5, 0, 0, 1},
                                                           {0, 0, 0.5, 1},
                                                           {0, 1, 1, 1},
                                                           {1, 0, 1, 1}}};

// One color after the other, of `depth` channels each.
template <typename T>
std::vector<T> ColorsOf(const Tensor* given, int64_t depth) {
  std::vector<T> colors;
  if (given != nullptr && given->num_elements() > 0) {
    for (int64_t i = 0; i < given->dim(0); ++i) {
      const float* const color = given->data<float>() + i * given->dim(1);
      for (int64_t c = 0; c < depth; ++c) colors.push_back(static_cast<T>(color[c]));
    }
    return colors;
  }
  for (const std::array<float, 4>& color : kColors) {
    for (int64_t c = 0; c < depth; ++c) colors.push_back(static_cast<T>(depth == 1 ? 1 : color[c]));
  }
  return colors;
}

// The pixel at a part of an image's height or width; what is no number, or far off, is before all.
int64_t PixelAt(float part, int64_t size) {
  const float at = part * static_cast<float>(size - 1);
  constexpr float kFar = 9.2e18f;
  return at > -kFar && at < kFar ? static_cast<int64_t>(at) : std::numeric_limits<int64_t>::min();
}

template <typename T>
class Canvas {
 public:
  Canvas(T* image, int64_t rows, int64_t cols, int64_t depth)
      : image_(image), rows_(rows), cols_(cols), depth_(depth) {}

  // What of the outline is within the image. A box that is inverted, or outside of it, has none.
  void Draw(const float* box, const T* color) {
    const int64_t top = PixelAt(box[0], rows_), bottom = PixelAt(box[2], rows_);
    const int64_t left = PixelAt(box[1], cols_), right = PixelAt(box[3], cols_);
    if (top > bottom || left > right) return;
    if (top >= rows_ || bottom < 0 || left >= cols_ || right < 0) return;
    const int64_t first_row = std::max<int64_t>(top, 0), last_row = std::min(bottom, rows_ - 1);
    const int64_t first_col = std::max<int64_t>(left, 0), last_col = std::min(right, cols_ - 1);
    for (const int64_t row : {top, bottom}) {
      if (row < 0 || row >= rows_) continue;
      for (int64_t col = first_col; col <= last_col; ++col) Set(row, col, color);
    }
    for (const int64_t col : {left, right}) {
      if (col < 0 || col >= cols_) continue;
      for (int64_t row = first_row; row <= last_row; ++row) Set(row, col, color);
    }
  }

 private:
  void Set(int64_t row, int64_t col, const T* color) {
    std::copy(color, color + depth_, image_ + (row * cols_ + col) * depth_);
  }

  T* image_;
  int64_t rows_, cols_, depth_;
};

template <typename T>
absl::Status DrawBoxes(KernelContext& ctx) {
  const Tensor* const colors = ctx.num_inputs() > 2 ? &ctx.input(2) : nullptr;
  FORMWORK_RETURN_IF_ERROR(CheckDrawBoxes(ctx.input(0).shape().dims(), ctx.input(1).shape().dims(),
                                          colors == nullptr ? nullptr : &colors->shape()));
  const Tensor boxes = ctx.input(1);
  const Shape shape = ctx.input(0).shape();
  const std::vector<T> palette = ColorsOf<T>(colors, shape.dim(3));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const output, ctx.AllocateOutput(0, DTypeOf<T>::value, shape));
  CopyElements(ctx.input(0).data<T>(), shape.num_elements(), output->mutable_data<T>());
  if (shape.num_elements() == 0) return absl::OkStatus();
  const int64_t depth = shape.dim(3), count = boxes.dim(1);
  const auto num_colors = static_cast<int64_t>(palette.size()) / depth;
  const int64_t pixels = shape.dim(1) + shape.dim(2);
  for (int64_t b = 0; b < shape.dim(0); ++b) {
    Canvas<T> canvas(output->mutable_data<T>() + b * shape.dim(1) * shape.dim(2) * depth,
                     shape.dim(1), shape.dim(2), depth);
    for (int64_t i = 0; i < count; ++i) {
      if ((pixels > 1000 || i % 64 == 0) && WorkIsCut()) return WorkStatus();
      canvas.Draw(boxes.data<float>() + (b * count + i) * 4,
                  palette.data() + i % num_colors * depth);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeDrawBoxes(KernelInit& init) {
  return init.input_dtypes()[0] == DType::kHalf ? KernelFn(DrawBoxes<half>)
                                                : KernelFn(DrawBoxes<float>);
}

}  // namespace

void AddDrawBoxesCpuKernels(KernelRegistry& registry) {
  registry.Add("DrawBoundingBoxes", MakeDrawBoxes);
  registry.Add("DrawBoundingBoxesV2", MakeDrawBoxes);
}

}  // namespace formwork
