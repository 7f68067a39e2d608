// Crops of images, resized, and their gradients, with TensorFlow's arithmetic: positions are
// computed in float.

#include <algorithm>
#include <cmath>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/image/image_cpu.h"
#include "core/kernels/widen.h"
#include "core/ops/crop.h"

namespace formwork {
namespace {

constexpr int64_t kTaskElements = 16 * 1024;

/// Where the places of one axis of a crop lie in the image.
struct CropAxis {
  float first;     // What is a part of the image is given from 0 to 1 ...
  float last;      // ... and may lie outside of it, or backwards.
  int64_t size;    // Of the image.
  int64_t places;  // Of the crop.

  float extent() const { return static_cast<float>(size - 1); }
  float At(int64_t i) const {
    if (places == 1) {
      return static_cast<float>(0.5 * static_cast<double>(first + last) *
                                static_cast<double>(size - 1));
    }
    const float step = (last - first) * extent() / static_cast<float>(places - 1);
    return first * extent() + static_cast<float>(i) * step;
  }
  bool Has(float at) const { return at >= 0 && at <= extent(); }
  // Of places inside. Rounding of large sizes may lead out of the image.
  int64_t Below(float at) const { return Inside(std::floor(at)); }
  int64_t Above(float at) const { return Inside(std::ceil(at)); }
  int64_t Nearest(float at) const { return Inside(std::round(at)); }
  int64_t Inside(float at) const { return std::min(static_cast<int64_t>(at), size - 1); }
};

struct Boxes {
  const float* corners;  // Of each: top, left, bottom, right.
  const int32_t* image;

  CropAxis Rows(const CropGeometry& s, int64_t box) const {
    return {corners[4 * box], corners[4 * box + 2], s.rows, s.crop_rows};
  }
  CropAxis Cols(const CropGeometry& s, int64_t box) const {
    return {corners[4 * box + 1], corners[4 * box + 3], s.cols, s.crop_cols};
  }
};

/// The values of boxes, of as many as the geometry says. TensorFlow's gradients have no answer for
/// those that are not finite; here they are refused as its CropAndResize does.
absl::StatusOr<Boxes> ReadBoxes(const CropGeometry& s, const Tensor& corners, const Tensor& image) {
  const Boxes boxes = {corners.data<float>(), image.data<int32_t>()};
  bool finite = true;
  bool known = true;
  ForBlocks(s.boxes, kCheapItems, [&](int64_t begin, int64_t end) {
    for (int64_t i = 4 * begin; i < 4 * end; ++i) finite &= std::isfinite(boxes.corners[i]);
    for (int64_t i = begin; i < end; ++i) {
      known &= boxes.image[i] >= 0 && boxes.image[i] < s.batch;
    }
  });
  // What has not been looked at is no index.
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  if (!known) return absl::OutOfRangeError("box_index has values outside [0, batch_size)");
  if (!finite) return InvalidArgument("Boxes contains at least one element that is not finite");
  return boxes;
}

/// Pixels between two looks at the stop flag, and rows that are worth a task.
int64_t PixelsBetweenLooks(const CropGeometry& s) {
  return std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, s.channels));
}
int64_t RowGrain(const CropGeometry& s) {
  return std::max<int64_t>(1, PixelsBetweenLooks(s) / s.crop_cols);
}

/// Four pixels, and how far from the first one to the others a place lies.
template <typename T>
struct Corners {
  T* top_left;
  T* top_right;
  T* bottom_left;
  T* bottom_right;
  float down;
  float right;

  Corners(const CropGeometry& s, T* image, const CropAxis& rows, float row, const CropAxis& cols,
          float col)
      : down(row - std::floor(row)), right(col - std::floor(col)) {
    T* top = image + rows.Below(row) * s.cols * s.channels;
    T* bottom = image + rows.Above(row) * s.cols * s.channels;
    const int64_t left_at = cols.Below(col) * s.channels;
    const int64_t right_at = cols.Above(col) * s.channels;
    top_left = top + left_at;
    top_right = top + right_at;
    bottom_left = bottom + left_at;
    bottom_right = bottom + right_at;
  }
};

template <typename T>
void CropPixel(const CropGeometry& s, const Corners<const T>& at, float* to) {
  for (int64_t c = 0; c < s.channels; ++c) {
    const auto tl = static_cast<float>(at.top_left[c]);
    const auto tr = static_cast<float>(at.top_right[c]);
    const auto bl = static_cast<float>(at.bottom_left[c]);
    const auto br = static_cast<float>(at.bottom_right[c]);
    const float above = tl + (tr - tl) * at.right;
    const float below = bl + (br - bl) * at.right;
    to[c] = above + (below - above) * at.down;
  }
}

template <typename T>
void Crop(const CropGeometry& s, bool nearest, float outside, const T* images, const Boxes& boxes,
          float* out) {
  const int64_t between_looks = PixelsBetweenLooks(s);
  ParallelFor(s.boxes * s.crop_rows, RowGrain(s), [&](int64_t begin, int64_t end) {
    float* to = out + begin * s.crop_cols * s.channels;
    for (int64_t r = begin; r < end; ++r) {
      const int64_t box = r / s.crop_rows;
      const CropAxis rows = boxes.Rows(s, box);
      const CropAxis cols = boxes.Cols(s, box);
      const T* image = images + boxes.image[box] * s.rows * s.cols * s.channels;
      const float row = rows.At(r % s.crop_rows);
      for (int64_t x = 0; x < s.crop_cols; ++x, to += s.channels) {
        if (WorkIsCutAt(x, between_looks)) return;
        const float col = cols.At(x);
        if (!rows.Has(row) || !cols.Has(col)) {
          std::fill_n(to, s.channels, outside);
        } else if (nearest) {
          const T* from = image + (rows.Nearest(row) * s.cols + cols.Nearest(col)) * s.channels;
          for (int64_t c = 0; c < s.channels; ++c) to[c] = static_cast<float>(from[c]);
        } else {
          CropPixel(s, Corners<const T>(s, image, rows, row, cols, col), to);
        }
      }
    }
  });
}

absl::StatusOr<KernelFn> MakeCrop(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const CropAttrs attrs, CropAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const float outside, init.attrs().Get<float>("extrapolation_value"));
  return KernelFn([attrs, outside](KernelContext& ctx) -> absl::Status {
    const Tensor images = ctx.input(0);
    const Tensor corners = ctx.input(1);
    const Tensor image = ctx.input(2);
    FORMWORK_ASSIGN_OR_RETURN(const CropGeometry s,
                              PrepareCrop(images.shape().dims(), corners.shape().dims(),
                                          image.shape().dims(), &ctx.input(3)));
    FORMWORK_ASSIGN_OR_RETURN(const Boxes boxes, ReadBoxes(s, corners, image));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(s.crops()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kFloat, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    switch (images.dtype()) {
      FORMWORK_REAL_CASES(
          Crop(s, attrs.nearest, outside, images.data<T>(), boxes, out->mutable_data<float>());
          return absl::OkStatus())
      default:
        return Unimplemented("CropAndResize: dtype ", DTypeName(images.dtype()),
                             " is not supported");
    }
  });
}

/// The boxes of each image, in order: `first` of an image, `next` of a box; -1: there is no more.
struct BoxLists {
  Tensor first;
  Tensor next;

  static absl::StatusOr<BoxLists> Make(Allocator& allocator, const CropGeometry& s,
                                       const Boxes& boxes) {
    BoxLists lists;
    FORMWORK_ASSIGN_OR_RETURN(const Shape images, Shape::Make({s.batch}));
    FORMWORK_ASSIGN_OR_RETURN(const Shape count, Shape::Make({s.boxes}));
    FORMWORK_ASSIGN_OR_RETURN(lists.first, Tensor::Allocate(allocator, DType::kInt64, images));
    FORMWORK_ASSIGN_OR_RETURN(lists.next, Tensor::Allocate(allocator, DType::kInt64, count));
    auto* first = lists.first.mutable_data<int64_t>();
    auto* next = lists.next.mutable_data<int64_t>();
    ForBlocks(s.batch, kCheapItems, [first](int64_t begin, int64_t end) {
      std::fill(first + begin, first + end, int64_t{-1});
    });
    ForBlocks(s.boxes, kCheapItems, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t box = s.boxes - 1 - i;
        next[box] = first[boxes.image[box]];
        first[boxes.image[box]] = box;
      }
    });
    // What has not been written is no index.
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    return lists;
  }
};

template <typename T>
void SharePixel(const CropGeometry& s, const Corners<T>& to, const float* grads) {
  for (int64_t c = 0; c < s.channels; ++c) {
    const float above = (1 - to.down) * grads[c];
    const float below = to.down * grads[c];
    to.top_left[c] += static_cast<T>((1 - to.right) * above);
    to.top_right[c] += static_cast<T>(to.right * above);
    to.bottom_left[c] += static_cast<T>((1 - to.right) * below);
    to.bottom_right[c] += static_cast<T>(to.right * below);
  }
}

/// Adds the gradients of a box' crop to those of its image. T: float, double.
template <typename T>
void AddBox(const CropGeometry& s, bool nearest, const float* grads, const CropAxis& rows,
            const CropAxis& cols, T* image) {
  const int64_t between_looks = PixelsBetweenLooks(s);
  for (int64_t p = 0; p < s.crop_rows * s.crop_cols; ++p, grads += s.channels) {
    if (WorkIsCutAt(p, between_looks)) return;
    const float row = rows.At(p / s.crop_cols);
    const float col = cols.At(p % s.crop_cols);
    if (!rows.Has(row) || !cols.Has(col)) continue;
    if (nearest) {
      T* to = image + (rows.Nearest(row) * s.cols + cols.Nearest(col)) * s.channels;
      for (int64_t c = 0; c < s.channels; ++c) to[c] += static_cast<T>(grads[c]);
    } else {
      SharePixel(s, Corners<T>(s, image, rows, row, cols, col), grads);
    }
  }
}

/// Side by side by images, so that sums do not depend on the number of threads.
template <typename T>
void GradImage(const CropGeometry& s, bool nearest, const float* grads, const Boxes& boxes,
               const BoxLists& lists, T* out) {
  const int64_t image_size = s.rows * s.cols * s.channels;
  const int64_t work = image_size + s.boxes / s.batch * s.crop_rows * s.crop_cols * s.channels;
  const int64_t* first = lists.first.data<int64_t>();
  const int64_t* next = lists.next.data<int64_t>();
  ParallelFor(s.batch, std::max<int64_t>(1, kTaskElements / work), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      T* image = out + n * image_size;
      ForBlocks(image_size, kCheapItems,
                [image](int64_t b, int64_t e) { std::fill(image + b, image + e, T(0)); });
      int64_t seen = 0;
      for (int64_t box = first[n]; box >= 0; box = next[box], ++seen) {
        if (WorkIsCutAt(seen, kDearItems)) return;
        AddBox(s, nearest, grads + box * s.crop_rows * s.crop_cols * s.channels, boxes.Rows(s, box),
               boxes.Cols(s, box), image);
      }
    }
  });
}

absl::StatusOr<KernelFn> MakeGradImage(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const CropAttrs attrs, CropAttrs::FromAttrs(init.attrs()));
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([attrs, dtype](KernelContext& ctx) -> absl::Status {
    const Tensor grads = ctx.input(0);
    const Tensor corners = ctx.input(1);
    const Tensor image = ctx.input(2);
    FORMWORK_ASSIGN_OR_RETURN(const CropGeometry s,
                              PrepareCropGradImage(grads.shape().dims(), corners.shape().dims(),
                                                   image.shape().dims(), &ctx.input(3)));
    FORMWORK_ASSIGN_OR_RETURN(const Boxes boxes, ReadBoxes(s, corners, image));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(s.images()));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, dtype, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    FORMWORK_ASSIGN_OR_RETURN(const BoxLists lists, BoxLists::Make(ctx.allocator(), s, boxes));
    const auto add = [&](auto* to) {
      GradImage(s, attrs.nearest, grads.data<float>(), boxes, lists, to);
    };
    switch (dtype) {
      case DType::kFloat:
        add(out->mutable_data<float>());
        return absl::OkStatus();
      case DType::kDouble:
        add(out->mutable_data<double>());
        return absl::OkStatus();
      case DType::kHalf: {
        // Summed in float, rounded once: TensorFlow rounds each sum.
        FORMWORK_ASSIGN_OR_RETURN(Tensor wide,
                                  Tensor::Allocate(ctx.allocator(), DType::kFloat, shape));
        add(wide.mutable_data<float>());
        NarrowTo(dtype, wide.data<float>(), wide.num_elements(), out->mutable_raw());
        return absl::OkStatus();
      }
      default:
        return Unimplemented("CropAndResizeGradImage: dtype ", DTypeName(dtype),
                             " is not supported");
    }
  });
}

/// Adds what a place's gradients say of the two ends of its axis.
void AddEnds(const CropAxis& axis, int64_t place, float slope, float* first, float* last) {
  if (axis.places == 1) {
    const auto half =
        static_cast<float>(0.5 * static_cast<double>(slope) * static_cast<double>(axis.size - 1));
    *first += half;
    *last += half;
    return;
  }
  const float share =
      static_cast<float>(place) * (axis.extent() / static_cast<float>(axis.places - 1));
  *first += slope * (axis.extent() - share);
  *last += slope * share;
}

template <typename T>
void GradBoxes(const CropGeometry& s, const float* grads, const T* images, const Boxes& boxes,
               float* out) {
  const int64_t between_looks = PixelsBetweenLooks(s);
  const int64_t pixels = s.crop_rows * s.crop_cols;
  ParallelFor(s.boxes, std::max<int64_t>(1, between_looks / pixels),
              [&](int64_t begin, int64_t end) {
                for (int64_t box = begin; box < end; ++box) {
                  const CropAxis rows = boxes.Rows(s, box);
                  const CropAxis cols = boxes.Cols(s, box);
                  const T* image = images + boxes.image[box] * s.rows * s.cols * s.channels;
                  const float* from = grads + box * pixels * s.channels;
                  float* to = out + 4 * box;
                  std::fill_n(to, 4, 0.0f);
                  for (int64_t p = 0; p < pixels; ++p, from += s.channels) {
                    if (WorkIsCutAt(p, between_looks)) return;
                    const int64_t y = p / s.crop_cols;
                    const int64_t x = p % s.crop_cols;
                    const float row = rows.At(y);
                    const float col = cols.At(x);
                    if (!rows.Has(row) || !cols.Has(col)) continue;
                    const Corners<const T> at(s, image, rows, row, cols, col);
                    for (int64_t c = 0; c < s.channels; ++c) {
                      const auto tl = static_cast<float>(at.top_left[c]);
                      const auto tr = static_cast<float>(at.top_right[c]);
                      const auto bl = static_cast<float>(at.bottom_left[c]);
                      const auto br = static_cast<float>(at.bottom_right[c]);
                      const float down = (1 - at.right) * (bl - tl) + at.right * (br - tr);
                      const float right = (1 - at.down) * (tr - tl) + at.down * (br - bl);
                      AddEnds(rows, y, down * from[c], &to[0], &to[2]);
                      AddEnds(cols, x, right * from[c], &to[1], &to[3]);
                    }
                  }
                }
              });
}

absl::StatusOr<KernelFn> MakeGradBoxes(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor grads = ctx.input(0);
    const Tensor images = ctx.input(1);
    const Tensor corners = ctx.input(2);
    const Tensor image = ctx.input(3);
    FORMWORK_ASSIGN_OR_RETURN(const CropGeometry s,
                              PrepareCropGradBoxes(grads.shape().dims(), images.shape().dims(),
                                                   corners.shape().dims(), image.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Boxes boxes, ReadBoxes(s, corners, image));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({s.boxes, 4}));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kFloat, shape));
    if (grads.num_elements() == 0) {
      // Crops without channels may have any number of places.
      ZeroElements(*out);
      return absl::OkStatus();
    }
    switch (images.dtype()) {
      FORMWORK_REAL_CASES(
          GradBoxes(s, grads.data<float>(), images.data<T>(), boxes, out->mutable_data<float>());
          return absl::OkStatus())
      default:
        return Unimplemented("CropAndResizeGradBoxes: dtype ", DTypeName(images.dtype()),
                             " is not supported");
    }
  });
}

}  // namespace

void AddCropCpuKernels(KernelRegistry& registry) {
  registry.Add("CropAndResize", MakeCrop);
  registry.Add("CropAndResizeGradImage", MakeGradImage);
  registry.Add("CropAndResizeGradBoxes", MakeGradBoxes);
}

}  // namespace formwork
