// Non-maximum suppression: boxes by falling scores, without those that overlap one before them.

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/image/image_cpu.h"
#include "core/kernels/widen.h"
#include "core/ops/nms.h"

namespace formwork {
namespace {

// Half is computed in float: TensorFlow rounds each step.
absl::StatusOr<float> ScalarOf(const Tensor& tensor, absl::string_view what) {
  FORMWORK_RETURN_IF_ERROR(CheckNmsScalar(tensor, what));
  if (tensor.dtype() == DType::kFloat) return tensor.scalar<float>();
  return static_cast<float>(tensor.scalar<half>());
}

// What a box and one before it share, as a part of what they cover.
float Overlap(const float* boxes, int64_t i, int64_t j) {
  struct Box {
    explicit Box(const float* at)
        : top(std::min(at[0], at[2])),
          left(std::min(at[1], at[3])),
          bottom(std::max(at[0], at[2])),
          right(std::max(at[1], at[3])) {}
    float area() const { return (bottom - top) * (right - left); }
    float top, left, bottom, right;
  };
  const Box a(boxes + 4 * i);
  const Box b(boxes + 4 * j);
  if (a.area() <= 0 || b.area() <= 0) return 0;
  const float rows = std::max(std::min(a.bottom, b.bottom) - std::max(a.top, b.top), 0.0f);
  const float cols = std::max(std::min(a.right, b.right) - std::max(a.left, b.left), 0.0f);
  const float shared = rows * cols;
  return shared / (a.area() + b.area() - shared);
}

struct Rule {
  int64_t most = 0;  // Boxes that are selected.
  float overlap = 0;
  float score = std::numeric_limits<float>::lowest();
  float sigma = 0;  // Above 0: overlaps lower the score, and nothing is dropped for them alone.
};

struct Selection {
  std::vector<int32_t> boxes;
  std::vector<float> scores;
};

Selection Select(const float* scores, int64_t n, const Rule& rule,
                 absl::FunctionRef<float(int64_t, int64_t)> overlap) {
  struct Candidate {
    float score;
    int32_t box;
    int32_t seen;  // Selected boxes that have lowered the score.
  };
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score < b.score : a.box > b.box;
  };
  std::vector<Candidate> begin;
  for (int64_t i = 0; i < n; ++i) {
    if (scores[i] > rule.score) begin.push_back({scores[i], static_cast<int32_t>(i), 0});
  }
  std::priority_queue<Candidate, std::vector<Candidate>, decltype(later)> left(later,
                                                                               std::move(begin));
  const bool soft = rule.sigma > 0;
  const float scale = soft ? -0.5f / rule.sigma : 0.0f;
  Selection selected;
  while (static_cast<int64_t>(selected.boxes.size()) < rule.most && !left.empty()) {
    Candidate next = left.top();
    left.pop();
    const float before = next.score;
    bool dropped = false;
    // Boxes of like scores are likely to overlap.
    for (auto j = static_cast<int64_t>(selected.boxes.size()) - 1; j >= next.seen; --j) {
      if (WorkIsCutAt(j, kDearItems)) return selected;
      const float shared = overlap(next.box, selected.boxes[j]);
      if (!soft && shared > rule.overlap) {
        dropped = true;
        break;
      }
      next.score *= soft || shared <= rule.overlap ? std::exp(scale * shared * shared) : 0.0f;
      if (next.score <= rule.score) break;
    }
    if (dropped) continue;
    next.seen = static_cast<int32_t>(selected.boxes.size());
    if (next.score == before) {
      selected.boxes.push_back(next.box);
      selected.scores.push_back(next.score);
    } else if (next.score > rule.score) {
      left.push(next);
    }
  }
  return selected;
}

// Output 0, and after it the scores where there are three outputs, and how many there are.
absl::Status Give(KernelContext& ctx, const Selection& selected, bool padded, int64_t most,
                  DType dtype) {
  const auto n = static_cast<int64_t>(selected.boxes.size());
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({padded ? most : n}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * boxes, ctx.AllocateOutput(0, DType::kInt32, shape));
  auto* to = boxes->mutable_data<int32_t>();
  std::fill(std::copy(selected.boxes.begin(), selected.boxes.end(), to), to + shape.num_elements(),
            0);
  if (ctx.num_outputs() == 3) {
    FORMWORK_ASSIGN_OR_RETURN(Tensor wide, Tensor::Allocate(ctx.allocator(), DType::kFloat, shape));
    auto* scores = wide.mutable_data<float>();
    std::fill(std::copy(selected.scores.begin(), selected.scores.end(), scores),
              scores + shape.num_elements(), 0.0f);
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(1, dtype, shape));
    NarrowTo(dtype, scores, shape.num_elements(), out->mutable_raw());
  }
  if (ctx.num_outputs() > 1) {
    FORMWORK_ASSIGN_OR_RETURN(Tensor * valid,
                              ctx.AllocateOutput(ctx.num_outputs() - 1, DType::kInt32, Shape()));
    valid->mutable_data<int32_t>()[0] = static_cast<int32_t>(n);
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeNms(KernelInit& init) {
  const bool padded = init.attrs().GetOr<bool>("pad_to_max_output_size", false);
  const float given = init.attrs().GetOr<float>("iou_threshold", 0.0f);
  return KernelFn([padded, given](KernelContext& ctx) -> absl::Status {
    const Tensor& boxes = ctx.input(0);
    const Tensor& scores = ctx.input(1);
    FORMWORK_RETURN_IF_ERROR(CheckNmsBoxes(boxes.shape().dims(), scores.shape().dims()));
    FORMWORK_RETURN_IF_ERROR(CheckNmsScalar(ctx.input(2), "max_output_size"));
    Rule rule = {.most = ctx.input(2).scalar<int32_t>(), .overlap = given};
    FORMWORK_RETURN_IF_ERROR(CheckNmsSize(rule.most));
    if (ctx.num_inputs() > 3) {
      FORMWORK_ASSIGN_OR_RETURN(rule.overlap, ScalarOf(ctx.input(3), "iou_threshold"));
      if (!(rule.overlap >= 0 && rule.overlap <= 1)) {
        return InvalidArgument("iou_threshold must be in [0, 1]");
      }
    }
    if (ctx.num_inputs() > 4) {
      FORMWORK_ASSIGN_OR_RETURN(rule.score, ScalarOf(ctx.input(4), "score_threshold"));
    }
    if (ctx.num_inputs() > 5) {
      FORMWORK_ASSIGN_OR_RETURN(rule.sigma, ScalarOf(ctx.input(5), "soft_nms_sigma"));
      if (!(rule.sigma >= 0)) return InvalidArgument("soft_nms_sigma_val must be >= 0");
    }
    FORMWORK_ASSIGN_OR_RETURN(const Tensor wide_boxes, Widened(ctx.allocator(), boxes));
    FORMWORK_ASSIGN_OR_RETURN(const Tensor wide_scores, Widened(ctx.allocator(), scores));
    const float* at = wide_boxes.data<float>();
    const Selection selected = Select(wide_scores.data<float>(), wide_scores.num_elements(), rule,
                                      [at](int64_t i, int64_t j) { return Overlap(at, i, j); });
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    return Give(ctx, selected, padded, rule.most, scores.dtype());
  });
}

absl::StatusOr<KernelFn> MakeNmsWithOverlaps(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor overlaps = ctx.input(0);
    const Tensor scores = ctx.input(1);
    FORMWORK_RETURN_IF_ERROR(CheckNmsOverlaps(overlaps.shape().dims(), scores.shape().dims()));
    FORMWORK_RETURN_IF_ERROR(CheckNmsScalar(ctx.input(2), "max_output_size"));
    Rule rule = {.most = ctx.input(2).scalar<int32_t>()};
    FORMWORK_RETURN_IF_ERROR(CheckNmsSize(rule.most));
    FORMWORK_ASSIGN_OR_RETURN(rule.overlap, ScalarOf(ctx.input(3), "overlap_threshold"));
    FORMWORK_ASSIGN_OR_RETURN(rule.score, ScalarOf(ctx.input(4), "score_threshold"));
    const int64_t n = scores.num_elements();
    const float* at = overlaps.data<float>();
    const Selection selected = Select(scores.data<float>(), n, rule,
                                      [at, n](int64_t i, int64_t j) { return at[i * n + j]; });
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    return Give(ctx, selected, /*padded=*/false, rule.most, DType::kFloat);
  });
}

// What is selected of each class of one image, the best of all first.
struct Detection {
  float score;
  int32_t box;
  int32_t class_index;
};

// `boxes` are [n, columns, 4], `scores` [n, classes]. Fewer where it is stopped.
std::vector<Detection> DetectionsOf(const float* boxes, int64_t columns, const float* scores,
                                    int64_t n, int64_t classes, const Rule& rule) {
  std::vector<Detection> all;
  std::vector<float> of_class(static_cast<size_t>(n));
  std::vector<float> box(static_cast<size_t>(n) * 4);
  for (int64_t c = 0; c < classes && !WorkIsCut(); ++c) {
    for (int64_t i = 0; i < n; ++i) {
      of_class[i] = scores[i * classes + c];
      std::copy_n(boxes + (i * columns + (columns == 1 ? 0 : c)) * 4, 4, box.data() + 4 * i);
    }
    const Selection selected = Select(
        of_class.data(), n, rule, [&](int64_t i, int64_t j) { return Overlap(box.data(), i, j); });
    for (size_t i = 0; i < selected.boxes.size(); ++i) {
      all.push_back({selected.scores[i], selected.boxes[i], static_cast<int32_t>(c)});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Detection& a, const Detection& b) { return a.score > b.score; });
  return all;
}

absl::StatusOr<KernelFn> MakeCombinedNms(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool pad, init.attrs().Get<bool>("pad_per_class"));
  FORMWORK_ASSIGN_OR_RETURN(const bool clip, init.attrs().Get<bool>("clip_boxes"));
  return KernelFn([pad, clip](KernelContext& ctx) -> absl::Status {
    const Tensor& boxes = ctx.input(0);
    const Tensor& scores = ctx.input(1);
    FORMWORK_RETURN_IF_ERROR(CheckNmsScalar(ctx.input(2), "max_size_per_class"));
    FORMWORK_RETURN_IF_ERROR(CheckNmsScalar(ctx.input(3), "max_total_size"));
    Rule rule = {.most = ctx.input(2).scalar<int32_t>()};
    FORMWORK_ASSIGN_OR_RETURN(rule.overlap, ScalarOf(ctx.input(4), "iou_threshold"));
    FORMWORK_ASSIGN_OR_RETURN(rule.score, ScalarOf(ctx.input(5), "score_threshold"));
    FORMWORK_RETURN_IF_ERROR(CheckCombinedNms(boxes.shape().dims(), scores.shape().dims()));
    const int64_t batch = scores.dim(0), n = scores.dim(1), classes = scores.dim(2);
    FORMWORK_ASSIGN_OR_RETURN(
        const int64_t size,
        CombinedNmsSize(rule.most, ctx.input(3).scalar<int32_t>(), classes, pad));
    if (!(rule.overlap >= 0 && rule.overlap <= 1)) {
      return InvalidArgument("iou_threshold must be in [0, 1]");
    }
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({batch, size}));
    FORMWORK_ASSIGN_OR_RETURN(const Shape box_shape, Shape::Make({batch, size, 4}));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * to_boxes, ctx.AllocateOutput(0, DType::kFloat, box_shape));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * to_scores, ctx.AllocateOutput(1, DType::kFloat, shape));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * to_classes, ctx.AllocateOutput(2, DType::kFloat, shape));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * valid, ctx.AllocateOutput(3, DType::kInt32, Shape{batch}));
    for (Tensor* tensor : {to_boxes, to_scores, to_classes}) ZeroElements(*tensor);
    const int64_t columns = boxes.dim(2);
    for (int64_t b = 0; b < batch; ++b) {
      const float* from = boxes.data<float>() + b * n * columns * 4;
      const std::vector<Detection> found =
          DetectionsOf(from, columns, scores.data<float>() + b * n * classes, n, classes, rule);
      FORMWORK_RETURN_IF_ERROR(WorkStatus());
      const int64_t count = std::min(size, static_cast<int64_t>(found.size()));
      valid->mutable_data<int32_t>()[b] = static_cast<int32_t>(count);
      for (int64_t i = 0; i < count; ++i) {
        const Detection& one = found[static_cast<size_t>(i)];
        const float* box = from + (one.box * columns + (columns == 1 ? 0 : one.class_index)) * 4;
        float* to = to_boxes->mutable_data<float>() + (b * size + i) * 4;
        for (int k = 0; k < 4; ++k) to[k] = clip ? std::clamp(box[k], 0.0f, 1.0f) : box[k];
        to_scores->mutable_data<float>()[b * size + i] = one.score;
        to_classes->mutable_data<float>()[b * size + i] = static_cast<float>(one.class_index);
      }
    }
    return absl::OkStatus();
  });
}

}  // namespace

void AddNmsCpuKernels(KernelRegistry& registry) {
  for (const char* op : {"NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3",
                         "NonMaxSuppressionV4", "NonMaxSuppressionV5"}) {
    registry.Add(op, MakeNms);
  }
  registry.Add("CombinedNonMaxSuppression", MakeCombinedNms);
  registry.Add("NonMaxSuppressionWithOverlaps", MakeNmsWithOverlaps);
}

}  // namespace formwork
