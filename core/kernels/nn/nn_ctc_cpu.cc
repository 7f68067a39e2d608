// CTCLoss, CTCGreedyDecoder, and what the other decoder has in common with that.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/nn/nn_cpu.h"
#include "core/kernels/nn/nn_ctc.h"
#include "core/ops/ctc.h"

namespace formwork {
namespace {

using Labels = std::vector<int32_t>;

// The labels of each of the batch, from a sparse matrix whose indices are in order.
absl::StatusOr<std::vector<Labels>> LabelsOf(const Tensor& indices, const Tensor& values,
                                             int64_t batch) {
  std::vector<Labels> labels(static_cast<size_t>(batch));
  const int64_t rank = indices.dim(1);
  const int64_t* at = indices.data<int64_t>();
  for (int64_t i = 0; i < values.num_elements(); ++i, at += rank) {
    if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
    const absl::Span<const int64_t> index(at, static_cast<size_t>(rank));
    const bool negative = std::any_of(index.begin(), index.end(), [](int64_t v) { return v < 0; });
    if (negative || index[0] >= batch) {
      return InvalidArgument("label SparseTensor is not valid: indices[", i, "] = [",
                             absl::StrJoin(index, ","), "] is out of bounds: batch_size is ",
                             batch);
    }
    const absl::Span<const int64_t> before(at - rank, i == 0 ? 0 : static_cast<size_t>(rank));
    if (i > 0 && before >= index) {
      return InvalidArgument("label SparseTensor is not valid: indices[", i, "] = [",
                             absl::StrJoin(index, ","), "] is ",
                             before == index ? "repeated" : "out of order");
    }
    labels[static_cast<size_t>(index[0])].push_back(values.data<int32_t>()[i]);
  }
  return labels;
}

// `labels` with blanks (the last class) around each, up to the first that is blank itself.
absl::StatusOr<Labels> WithBlanks(const Labels& labels, int64_t b, int64_t classes,
                                  const CtcLossAttrs& attrs) {
  const auto blank = static_cast<int32_t>(classes - 1);
  if (labels.empty()) return InvalidArgument("Labels length is zero in batch ", b);
  Labels with = {blank};
  bool ended = false;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (WorkIsCutAt(static_cast<int64_t>(i))) return WorkStatus();
    if (labels[i] < 0) {
      return InvalidArgument("All labels must be nonnegative integers, batch: ", b,
                             " label: ", labels[i]);
    }
    if (labels[i] >= blank) {
      ended = true;
      continue;
    }
    if (ended) {
      return InvalidArgument(
          "Saw a non-null label (index >= num_classes - 1) following a null label, batch: ", b,
          " num_classes: ", classes, " label: ", labels[i]);
    }
    if (attrs.collapse_repeated && i > 0 && labels[i] == labels[i - 1]) continue;
    with.push_back(labels[i]);
    with.push_back(blank);
  }
  return with;
}

// How likely paths through the labels are, by their first t + 1 steps (forward: step t included)
// or by those after t. The last step's rows of `log_y`, [steps, classes], are not read backward.
template <typename T>
class Paths {
 public:
  Paths(const Labels& labels, int64_t steps, int64_t classes, const T* log_y, bool merge)
      : labels_(labels),
        count_(static_cast<int64_t>(labels.size())),
        steps_(steps),
        classes_(classes),
        log_y_(log_y),
        merge_(merge) {}

  // `to` is [steps, labels].
  void Forward(T* to) const {
    for (int64_t t = 0; t < steps_ && !WorkIsCut(); ++t) {
      T* const now = to + t * count_;
      const T* const before = now - count_;
      for (int64_t u = 0; u < count_; ++u) {
        T sum = kNever<T>;
        if (t == 0) {
          if (u <= 1) sum = T(0);
        } else {
          if (Stays(u)) sum = before[u];
          if (u > 0) sum = LogOfSum(sum, before[u - 1]);
          if (u > 1 && Skips(u - 2)) sum = LogOfSum(sum, before[u - 2]);
        }
        now[u] = sum + log_y_[t * classes_ + labels_[u]];
      }
    }
  }

  void Backward(T* to) const {
    for (int64_t t = steps_ - 1; t >= 0 && !WorkIsCut(); --t) {
      T* const now = to + t * count_;
      const T* const after = now + count_;
      const auto next = [&](int64_t u) {
        return after[u] + log_y_[(t + 1) * classes_ + labels_[u]];
      };
      for (int64_t u = 0; u < count_; ++u) {
        T sum = kNever<T>;
        if (t == steps_ - 1) {
          if (u >= count_ - 2) sum = T(0);
        } else {
          if (Stays(u)) sum = next(u);
          if (u + 1 < count_) sum = LogOfSum(sum, next(u + 1));
          if (u + 2 < count_ && Skips(u)) sum = LogOfSum(sum, next(u + 2));
        }
        now[u] = sum;
      }
    }
  }

 private:
  bool IsBlank(int64_t u) const { return u % 2 == 0; }
  // Whether a step at u may follow one.
  bool Stays(int64_t u) const { return merge_ || IsBlank(u); }
  // Whether a path may go from u to u + 2 and leave the blank out.
  bool Skips(int64_t u) const { return !IsBlank(u) && !(merge_ && labels_[u] == labels_[u + 2]); }

  const Labels& labels_;
  int64_t count_, steps_, classes_;
  const T* log_y_;
  bool merge_;
};

// One of the batch: `steps` rows of `classes` inputs, `stride` apart, to its loss and gradient.
template <typename T>
absl::Status LossOf(KernelContext& ctx, const T* inputs, int64_t stride, int64_t steps,
                    int64_t classes, const Labels& labels, bool merge, T* loss, T* gradient) {
  const auto count = static_cast<int64_t>(labels.size());
  FORMWORK_ASSIGN_OR_RETURN(const Shape of_classes, Shape::Make({steps, classes}));
  FORMWORK_ASSIGN_OR_RETURN(const Shape of_labels, Shape::Make({steps, count}));
  const auto allocate = [&](const Shape& shape) {
    return Tensor::Allocate(ctx.allocator(), DTypeOf<T>::value, shape);
  };
  FORMWORK_ASSIGN_OR_RETURN(Tensor log_y, allocate(of_classes));
  FORMWORK_ASSIGN_OR_RETURN(Tensor forward, allocate(of_labels));
  FORMWORK_ASSIGN_OR_RETURN(Tensor backward, allocate(of_labels));
  for (int64_t t = 0; t < steps; ++t) {
    if (WorkIsCut()) return WorkStatus();
    const T* const row = inputs + t * stride;
    const T largest = *std::max_element(row, row + classes);
    T sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(row[c] - largest);
    T* const to = log_y.mutable_data<T>() + t * classes;
    for (int64_t c = 0; c < classes; ++c) {
      gradient[t * stride + c] = std::exp(row[c] - largest) / sum;
      to[c] = std::log(gradient[t * stride + c]);
    }
  }
  const Paths<T> paths(labels, steps, classes, log_y.data<T>(), merge);
  paths.Forward(forward.mutable_data<T>());
  paths.Backward(backward.mutable_data<T>());
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  const T* const a = forward.data<T>();
  const T* const b = backward.data<T>();
  T likely = kNever<T>;
  for (int64_t u = 0; u < count; ++u) likely = LogOfSum(likely, a[u] + b[u]);
  *loss = -likely;
  // Where no path goes the gradient is left as that of the softmax alone.
  if (likely == kNever<T>) return absl::OkStatus();
  for (int64_t t = 0; t < steps; ++t) {
    if (WorkIsCut()) return WorkStatus();
    for (int64_t u = 0; u < count; ++u) {
      gradient[t * stride + labels[u]] -= std::exp(a[t * count + u] + b[t * count + u] - likely);
    }
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status Loss(KernelContext& ctx, const CtcLossAttrs& attrs) {
  const Tensor& inputs = ctx.input(0);
  const Tensor& lengths = ctx.input(3);
  absl::StatusOr<CtcGeometry> geometry = PrepareCtc(inputs.shape().dims(), lengths.shape().dims());
  // The decoders call this another kind of failure.
  if (!geometry.ok()) return InvalidArgument(geometry.status().message());
  FORMWORK_RETURN_IF_ERROR(
      CheckCtcLabels(ctx.input(1).shape().dims(), ctx.input(2).shape().dims()));
  const int64_t steps = geometry->steps, batch = geometry->batch, classes = geometry->classes;
  if (batch == 0) return InvalidArgument("batch_size must not be 0");
  if (steps == 0) return InvalidArgument("Max time or first dimension of input cannot be 0.");
  if (classes == 0) return InvalidArgument("inputs must have at least one class");
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<Labels> labels,
                            LabelsOf(ctx.input(1), ctx.input(2), batch));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * loss, ctx.AllocateOutput(0, DTypeOf<T>::value, Shape{batch}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * gradient,
                            ctx.AllocateOutput(1, DTypeOf<T>::value, inputs.shape()));
  ZeroElements(*loss);
  ZeroElements(*gradient);
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = lengths.data<int32_t>()[b];
    if (length < 0) return InvalidArgument("seq_len(", b, ") < 0");
    if (length > steps) return InvalidArgument("sequence_length(", b, ") <= ", steps);
  }
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = lengths.data<int32_t>()[b];
    FORMWORK_ASSIGN_OR_RETURN(const Labels with,
                              WithBlanks(labels[static_cast<size_t>(b)], b, classes, attrs));
    const auto required = static_cast<int64_t>(with.size() / 2);
    if (required > length) {
      if (attrs.ignore_longer_outputs) continue;
      return InvalidArgument("Not enough time for target transition sequence (required: ", required,
                             ", available: ", length, ") in batch ", b);
    }
    if (length == 0) continue;
    FORMWORK_RETURN_IF_ERROR(LossOf<T>(ctx, inputs.data<T>() + b * classes, batch * classes, length,
                                       classes, with, attrs.merge_repeated,
                                       loss->mutable_data<T>() + b,
                                       gradient->mutable_data<T>() + b * classes));
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeLoss(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const CtcLossAttrs attrs, CtcLossAttrs::FromAttrs(init.attrs()));
  if (init.input_dtypes()[0] == DType::kDouble) {
    return KernelFn([attrs](KernelContext& ctx) { return Loss<double>(ctx, attrs); });
  }
  return KernelFn([attrs](KernelContext& ctx) { return Loss<float>(ctx, attrs); });
}

template <typename T>
absl::Status Greedy(KernelContext& ctx, bool merge, int64_t blank) {
  FORMWORK_ASSIGN_OR_RETURN(const CtcGeometry geometry, CheckCtcDecoder(ctx));
  const Tensor& inputs = ctx.input(0);
  const int64_t batch = geometry.batch, classes = geometry.classes;
  if (blank < -classes || blank >= classes) {
    return InvalidArgument("blank_index expected to be between ", -classes, " and ", classes - 1,
                           " but was ", blank);
  }
  if (blank < 0) blank += classes;
  FORMWORK_ASSIGN_OR_RETURN(Tensor * scores,
                            ctx.AllocateOutput(3, DTypeOf<T>::value, Shape{batch, 1}));
  CtcSequences decoded(static_cast<size_t>(batch));
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = ctx.input(1).data<int32_t>()[b];
    T score = 0;
    int64_t before = -1;
    for (int64_t t = 0; t < length; ++t) {
      if (WorkIsCutAt(t, kDearItems)) return WorkStatus();
      const T* const row = inputs.data<T>() + (t * batch + b) * classes;
      const int64_t best = std::max_element(row, row + classes) - row;
      score -= row[best];
      if (best != blank && !(merge && best == before)) decoded[b].push_back(best);
      before = best;
    }
    scores->mutable_data<T>()[b] = score;
  }
  return WriteCtcSequences(ctx, decoded, 0, 1, 2);
}

absl::StatusOr<KernelFn> MakeGreedy(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool merge, init.attrs().Get<bool>("merge_repeated"));
  FORMWORK_ASSIGN_OR_RETURN(const int64_t blank, init.attrs().Get<int64_t>("blank_index"));
  if (init.input_dtypes()[0] == DType::kDouble) {
    return KernelFn([=](KernelContext& ctx) { return Greedy<double>(ctx, merge, blank); });
  }
  return KernelFn([=](KernelContext& ctx) { return Greedy<float>(ctx, merge, blank); });
}

}  // namespace

absl::StatusOr<CtcGeometry> CheckCtcDecoder(const KernelContext& ctx) {
  const Tensor& inputs = ctx.input(0);
  const Tensor& lengths = ctx.input(1);
  FORMWORK_ASSIGN_OR_RETURN(const CtcGeometry geometry,
                            PrepareCtc(inputs.shape().dims(), lengths.shape().dims()));
  if (inputs.num_elements() == 0) return InvalidArgument("inputs must not be empty");
  for (int64_t b = 0; b < geometry.batch; ++b) {
    if (lengths.data<int32_t>()[b] > geometry.steps) {
      return FailedPrecondition("sequence_length(", b, ") <= ", geometry.steps);
    }
  }
  return geometry;
}

absl::Status WriteCtcSequences(KernelContext& ctx, const CtcSequences& decoded, int indices,
                               int values, int shape) {
  int64_t total = 0, longest = 0;
  for (const std::vector<int64_t>& sequence : decoded) {
    const auto n = static_cast<int64_t>(sequence.size());
    total += n;
    longest = std::max(longest, n);
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const to_indices,
                            ctx.AllocateOutput(indices, DType::kInt64, Shape{total, 2}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const to_values,
                            ctx.AllocateOutput(values, DType::kInt64, Shape{total}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const to_shape,
                            ctx.AllocateOutput(shape, DType::kInt64, Shape{2}));
  auto* index = to_indices->mutable_data<int64_t>();
  auto* value = to_values->mutable_data<int64_t>();
  for (size_t b = 0; b < decoded.size(); ++b) {
    for (size_t i = 0; i < decoded[b].size(); ++i) {
      *index++ = static_cast<int64_t>(b);
      *index++ = static_cast<int64_t>(i);
      *value++ = decoded[b][i];
    }
  }
  to_shape->mutable_data<int64_t>()[0] = static_cast<int64_t>(decoded.size());
  to_shape->mutable_data<int64_t>()[1] = longest;
  return absl::OkStatus();
}

void RegisterCtcKernels(KernelRegistry& registry) {
  registry.Add("CTCLoss", MakeLoss);
  registry.Add("CTCGreedyDecoder", MakeGreedy);
  AddCtcBeamSearchKernel(registry);
}

}  // namespace formwork
