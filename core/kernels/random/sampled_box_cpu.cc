// SampleDistortedBoundingBox: a box within an image, drawn until it covers enough of what is given.

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/random/random_cpu.h"
#include "core/kernels/random/sequence_position.h"
#include "core/kernels/random/unit_numbers.h"
#include "core/ops/random.h"
#include "core/ops/sampled_box.h"

namespace formwork {
namespace {

struct Box {
  int64_t left = 0, top = 0, right = 0, bottom = 0;

  float area() const { return static_cast<float>((right - left) * (bottom - top)); }
  Box Intersect(const Box& other) const {
    const Box both{std::max(left, other.left), std::max(top, other.top),
                   std::min(right, other.right), std::min(bottom, other.bottom)};
    return both.left > both.right || both.top > both.bottom ? Box() : both;
  }
};

// To the nearest whole number; what is very large is as large as an image can be.
int64_t Nearest(float x) {
  constexpr float kMost = 2147483520.0f;
  return x < kMost ? static_cast<int64_t>(std::lrintf(x)) : std::numeric_limits<int32_t>::max();
}

// Whether one object at least is covered by so large a part of it.
bool CoversEnough(const Box& crop, float least, const std::vector<Box>& objects) {
  if (crop.area() < 1) return false;
  return std::any_of(objects.begin(), objects.end(), [&](const Box& object) {
    return object.area() >= 1 && crop.Intersect(object).area() / object.area() >= least;
  });
}

// A box whose height is drawn, and then where it is: of an aspect ratio and areas within limits.
// Floats are rounded where TensorFlow rounds them, so that the numbers that are drawn mean the
// same.
class CropSource {
 public:
  CropSource(const SampledBoxAttrs& attrs, int64_t width, int64_t height, const Philox& philox)
      : attrs_(attrs), width_(width), height_(height), numbers_(philox) {}

  // Nothing where the limits cannot be kept.
  std::optional<Box> Draw() {
    const std::vector<float>& ratios = attrs_.aspect_ratio_range;
    const float aspect = UnitFloat(numbers_.Next()) * (ratios[1] - ratios[0]) + ratios[0];
    const float least = attrs_.area_range[0], most = attrs_.area_range[1];
    if (aspect <= 0 || width_ <= 0 || height_ <= 0 || least > most) return std::nullopt;
    const float min_area = least * static_cast<float>(width_) * static_cast<float>(height_);
    const float max_area = most * static_cast<float>(width_) * static_cast<float>(height_);
    const int64_t tallest = TallestFor(aspect, max_area);
    int64_t height = std::min(Nearest(std::sqrt(min_area / aspect)), tallest);
    if (height < tallest) height += Below(tallest - height + 1);
    int64_t width = WidthOf(height, aspect);
    // Rounding may have put the area beyond a limit.
    float area = static_cast<float>(width * height);
    if (area < min_area) {
      width = WidthOf(++height, aspect);
      area = static_cast<float>(width * height);
    }
    if (area > max_area) {
      width = WidthOf(--height, aspect);
      area = static_cast<float>(width * height);
    }
    if (area < min_area || area > max_area || width > width_ || height > height_ || width <= 0 ||
        height <= 0) {
      return std::nullopt;
    }
    const int64_t top = height < height_ ? Below(height_ - height) : 0;
    const int64_t left = width < width_ ? Below(width_ - width) : 0;
    return Box{left, top, left + width, top + height};
  }

 private:
  static int64_t WidthOf(int64_t height, float aspect) {
    return Nearest(static_cast<float>(height) * aspect);
  }
  int64_t TallestFor(float aspect, float max_area) const {
    int64_t tallest = Nearest(std::sqrt(max_area / aspect));
    if (WidthOf(tallest, aspect) > width_) {
      constexpr float kLess = 0.0000001f;
      const double fits = (static_cast<double>(width_) + 0.5 - static_cast<double>(kLess)) /
                          static_cast<double>(aspect);
      tallest = static_cast<int64_t>(
          std::min(fits, static_cast<double>(std::numeric_limits<int32_t>::max())));
      if (WidthOf(tallest, aspect) > width_) --tallest;
    }
    return std::min(tallest, height_);
  }
  int64_t Below(int64_t n) { return numbers_.Next() % static_cast<uint32_t>(n); }

  const SampledBoxAttrs& attrs_;
  const int64_t width_, height_;
  PhiloxSequence numbers_;
};

absl::StatusOr<std::vector<Box>> ObjectsFrom(const Tensor& boxes, int64_t width, int64_t height) {
  std::vector<Box> objects;
  const float* const at = boxes.data<float>();
  const auto scaled = [](float part, int64_t size) {
    return static_cast<int64_t>(part * static_cast<float>(size));
  };
  for (int64_t i = 0; i < boxes.num_elements(); i += 4) {
    if (WorkIsCutAt(i / 4)) return WorkStatus();
    for (int64_t k = i; k < i + 4; ++k) {
      if (at[k] >= 0 && at[k] <= 1) continue;
      return InvalidArgument("All bounding box coordinates must be in [0.0, 1.0]: ", at[k]);
    }
    objects.push_back({scaled(at[i + 1], width), scaled(at[i], height), scaled(at[i + 3], width),
                       scaled(at[i + 2], height)});
  }
  return objects;
}

template <typename T>
absl::Status Sample(KernelContext& ctx, const SampledBoxAttrs& attrs, float min_object_covered,
                    const Philox& philox) {
  const Tensor image_size = ctx.input(0);
  const auto height = static_cast<int64_t>(image_size.data<T>()[0]);
  const auto width = static_cast<int64_t>(image_size.data<T>()[1]);
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (height < 0 || height >= kMost) {
    return InvalidArgument("image height cannot be >= int32 max");
  }
  if (width < 0 || width >= kMost) return InvalidArgument("image width cannot be >= int32 max");
  FORMWORK_ASSIGN_OR_RETURN(std::vector<Box> objects, ObjectsFrom(ctx.input(1), width, height));
  const Box whole{0, 0, width, height};
  if (objects.empty()) {
    if (!attrs.use_image_if_no_bounding_boxes) {
      return InvalidArgument(
          "No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes if "
          "you wish to not provide any bounding boxes.");
    }
    objects.push_back(whole);
  }
  CropSource source(attrs, width, height, philox);
  std::optional<Box> crop;
  for (int64_t i = 0; i < attrs.max_attempts; ++i) {
    if (WorkIsCutAt(i, 64)) return WorkStatus();
    crop = source.Draw();
    if (crop && CoversEnough(*crop, min_object_covered, objects)) break;
    crop.reset();
  }
  const Box box = crop.value_or(whole);

  FORMWORK_ASSIGN_OR_RETURN(Tensor* const begin,
                            ctx.AllocateOutput(0, DTypeOf<T>::value, Shape({3})));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const size,
                            ctx.AllocateOutput(1, DTypeOf<T>::value, Shape({3})));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const parts,
                            ctx.AllocateOutput(2, DType::kFloat, Shape({1, 1, 4})));
  T* const first = begin->mutable_data<T>();
  first[0] = static_cast<T>(box.top);
  first[1] = static_cast<T>(box.left);
  first[2] = T(0);
  T* const count = size->mutable_data<T>();
  count[0] = static_cast<T>(box.bottom - box.top);
  count[1] = static_cast<T>(box.right - box.left);
  count[2] = static_cast<T>(-1);  // All channels.
  float* const part = parts->mutable_data<float>();
  part[0] = static_cast<float>(box.top) / static_cast<float>(height);
  part[1] = static_cast<float>(box.left) / static_cast<float>(width);
  part[2] = static_cast<float>(box.bottom) / static_cast<float>(height);
  part[3] = static_cast<float>(box.right) / static_cast<float>(width);
  return absl::OkStatus();
}

absl::Status SampleBox(KernelContext& ctx, const SampledBoxAttrs& attrs, float min_object_covered,
                       const Philox& philox) {
  FORMWORK_RETURN_IF_ERROR(CheckSampledBoxInputs(ctx.input(0).shape(), ctx.input(1).shape()));
  if (ctx.num_inputs() > 2) {
    const Tensor& least = ctx.input(2);
    if (least.rank() != 0) {
      return InvalidArgument("min_object_covered must be 0-D, got shape ",
                             least.shape().ToString());
    }
    min_object_covered = least.scalar<float>();
  }
  FORMWORK_RETURN_IF_ERROR(CheckMinObjectCovered(min_object_covered));
  switch (ctx.input(0).dtype()) {
    FORMWORK_CASE(uint8_t, return Sample<T>(ctx, attrs, min_object_covered, philox))
    FORMWORK_CASE(int8_t, return Sample<T>(ctx, attrs, min_object_covered, philox))
    FORMWORK_CASE(int16_t, return Sample<T>(ctx, attrs, min_object_covered, philox))
    FORMWORK_CASE(int32_t, return Sample<T>(ctx, attrs, min_object_covered, philox))
    default:
      return Sample<int64_t>(ctx, attrs, min_object_covered, philox);
  }
}

absl::StatusOr<KernelFn> MakeSampleBox(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SampledBoxAttrs attrs, SampledBoxAttrs::FromAttrs(init.attrs()));
  const float least = init.attrs().GetOr<float>("min_object_covered", 0);
  FORMWORK_RETURN_IF_ERROR(CheckMinObjectCovered(least));
  FORMWORK_ASSIGN_OR_RETURN(const SequencePosition position, SequencePosition::Of(init));
  return KernelFn([attrs, least, position](KernelContext& ctx) {
    // Four numbers for each attempt.
    const auto groups = static_cast<uint64_t>(attrs.max_attempts);
    return SampleBox(ctx, attrs, least, position.Reserve(ctx, groups));
  });
}

absl::StatusOr<KernelFn> MakeStatelessSampleBox(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SampledBoxAttrs attrs, SampledBoxAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const Philox philox, PhiloxOfSeed(ctx.input(3)));
    return SampleBox(ctx, attrs, 0, philox);
  });
}

}  // namespace

void AddSampledBoxCpuKernels(KernelRegistry& registry) {
  registry.Add("SampleDistortedBoundingBox", MakeSampleBox);
  registry.Add("SampleDistortedBoundingBoxV2", MakeSampleBox);
  registry.Add("StatelessSampleDistortedBoundingBox", MakeStatelessSampleBox);
}

}  // namespace formwork
