#include "core/kernels/nn/softmax_loops.h"

#include <algorithm>
#include <limits>

#include "core/base/parallel.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elementwise/elementwise_math.h"
#include "core/kernels/isa.h"

namespace formwork {
namespace {

constexpr int kLanes = 16;            // Side by side: one alone waits for each operation.
constexpr int64_t kTask = 16 * 1024;  // Elements worth a task: each costs an exponential.

// A row is worked on in parts of so many elements, with a look at the StopFlag between two:
//   for (int64_t b = 0; b < n && !CutBefore(b); b += kPart) ... [b, std::min(b + kPart, n))
constexpr int64_t kPart = int64_t{1} << 20;
inline bool CutBefore(int64_t begin) { return begin > 0 && WorkIsCut(); }

template <typename R>
FORMWORK_ISA_INLINE R PartMax(const R* x, int64_t n) {
  R max = -std::numeric_limits<R>::infinity();
  int64_t i = 0;
  if (n >= 2 * kLanes) {
    R lanes[kLanes];
    for (int l = 0; l < kLanes; ++l) lanes[l] = x[l];
    for (i = kLanes; i + kLanes <= n; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
    }
    for (int l = 0; l < kLanes; ++l) max = lanes[l] > max ? lanes[l] : max;
  }
  for (; i < n; ++i) max = x[i] > max ? x[i] : max;
  return max;
}

template <typename R>
FORMWORK_ISA_INLINE R RowMax(const R* x, int64_t n) {
  R max = -std::numeric_limits<R>::infinity();
  for (int64_t b = 0; b < n && !CutBefore(b); b += kPart) {
    const R part = PartMax(x + b, std::min(kPart, n - b));
    max = part > max ? part : max;
  }
  return max;
}

template <typename R>
FORMWORK_ISA_INLINE R PartSum(const R* x, int64_t n) {
  R sum = 0;
  int64_t i = 0;
  if (n >= 2 * kLanes) {
    R lanes[kLanes] = {};
    for (; i + kLanes <= n; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) lanes[l] += x[i + l];
    }
    for (int l = 0; l < kLanes; ++l) sum += lanes[l];
  }
  for (; i < n; ++i) sum += x[i];
  return sum;
}

// out = exp(x - max x); the sum of it, and the maximum. A NaN, or an infinity that is the maximum,
// makes the sum NaN.
template <typename R>
FORMWORK_ISA_INLINE R Exponentials(const R* x, int64_t n, R* out, R* max) {
  *max = RowMax(x, n);
  const R shift = *max;
  R sum = 0;
  for (int64_t b = 0; b < n && !CutBefore(b); b += kPart) {
    const int64_t end = std::min(b + kPart, n);
    for (int64_t i = b; i < end; ++i) out[i] = math::Exp(x[i] - shift);
    sum += PartSum(out + b, end - b);
  }
  return sum;
}

template <typename R>
FORMWORK_ISA_INLINE void Scale(R* x, int64_t n, R scale) {
  for (int64_t b = 0; b < n && !CutBefore(b); b += kPart) {
    const int64_t end = std::min(b + kPart, n);
    for (int64_t i = b; i < end; ++i) x[i] *= scale;
  }
}

template <typename R>
struct Softmax {
  FORMWORK_ISA_INLINE static void Run(int64_t rows, int64_t n, const R* x, R* out) {
    for (int64_t r = 0; r < rows; ++r) {
      R max;
      R* to = out + r * n;
      Scale(to, n, 1 / Exponentials(x + r * n, n, to, &max));
    }
  }
};

struct PartOfSoftmax {
  FORMWORK_ISA_INLINE static void Masked(const SoftmaxPart& p, int64_t r, float* __restrict x) {
    if (p.shown != nullptr) {
      const bool* shown = p.shown + r * p.mask_row;
      for (int64_t i = 0; i < p.n; ++i) {
        x[i] = shown[i * p.mask_column] ? x[i] * p.scale : p.hidden;
      }
    } else if (p.mask != nullptr && p.mask_column != 0) {
      const float* mask = p.mask + r * p.mask_row;
      for (int64_t i = 0; i < p.n; ++i) x[i] = x[i] * p.scale + mask[i];
    } else {
      const float add = p.mask == nullptr ? 0 : p.mask[r * p.mask_row];
      for (int64_t i = 0; i < p.n; ++i) x[i] = x[i] * p.scale + add;
    }
  }
  FORMWORK_ISA_INLINE static void Run(const SoftmaxPart* part) {
    const SoftmaxPart& p = *part;
    for (int64_t r = 0; r < p.rows; ++r) {
      float* __restrict x = p.x + r * p.n;
      Masked(p, r, x);
      const float here = PartMax(x, p.n);
      const bool first = p.by == nullptr;
      const float before = first ? here : p.largest[r];
      const float largest = here > before ? here : before;
      // Where all is hidden so far, what is seen later must not meet -inf less itself.
      const float shift = largest == -std::numeric_limits<float>::infinity() ? 0 : largest;
      for (int64_t i = 0; i < p.n; ++i) x[i] = math::Exp(x[i] - shift);
      const float sum = PartSum(x, p.n);
      p.largest[r] = largest;
      if (first) {
        p.sum[r] = sum;
      } else {
        p.by[r] = math::Exp(before - shift);
        p.sum[r] = p.sum[r] * p.by[r] + sum;
      }
    }
  }
};

template <typename R>
struct LogSoftmax {
  FORMWORK_ISA_INLINE static void Run(int64_t rows, int64_t n, const R* x, R* out) {
    constexpr int64_t kBlock = 256;
    R scratch[kBlock];
    for (int64_t r = 0; r < rows; ++r) {
      const R* from = x + r * n;
      R* to = out + r * n;
      const R max = RowMax(from, n);
      R sum = 0;
      for (int64_t b = 0; b < n; b += kBlock) {
        if (b % kPart == 0 && CutBefore(b)) break;
        const int64_t width = std::min(kBlock, n - b);
        for (int64_t i = 0; i < width; ++i) scratch[i] = math::Exp(from[b + i] - max);
        sum += PartSum(scratch, width);
      }
      const R log_sum = math::Log(sum);
      for (int64_t b = 0; b < n && !CutBefore(b); b += kPart) {
        const int64_t end = std::min(b + kPart, n);
        for (int64_t i = b; i < end; ++i) to[i] = from[i] - max - log_sum;
      }
    }
  }
};

template <typename R>
struct SparseCrossEntropy {
  FORMWORK_ISA_INLINE static void Run(int64_t rows, int64_t n, const R* x, const int64_t* labels,
                                      R* loss, R* backprop) {
    for (int64_t r = 0; r < rows; ++r) {
      R max;
      R* to = backprop + r * n;
      const R label_logit = x[r * n + labels[r]];  // Read before backprop overwrites it.
      const R sum = Exponentials(x + r * n, n, to, &max);
      Scale(to, n, 1 / sum);
      to[labels[r]] -= 1;
      loss[r] = math::Log(sum) - (label_logit - max);
    }
  }
};

template <typename R>
struct CrossEntropy {
  FORMWORK_ISA_INLINE static void Run(int64_t begin, int64_t end, int64_t n,
                                      const BroadcastRows<R>* x, const BroadcastRows<R>* labels,
                                      R* loss, R* backprop) {
    for (int64_t r = begin; r < end; ++r) {
      R* to = backprop + r * n;
      const R* logits = x->data + r * x->row_stride;
      const R* wanted = labels->data + r * labels->row_stride;
      for (int64_t b = 0; b < n && !CutBefore(b); b += kPart) {
        const int64_t end = std::min(b + kPart, n);
        if (x->stride == 1) {
          for (int64_t i = b; i < end; ++i) to[i] = logits[i];
        } else {
          for (int64_t i = b; i < end; ++i) to[i] = logits[0];
        }
      }
      const R max = RowMax(to, n);
      R sum = 0;
      R dot = 0;  // Of the labels and the shifted logits.
      R total = 0;
      for (int64_t b = 0; b < n && !CutBefore(b); b += kPart) {
        const int64_t end = std::min(b + kPart, n);
        for (int64_t i = b; i < end; ++i) {
          const R label = wanted[i * labels->stride];
          to[i] -= max;
          dot += label * to[i];
          total += label;
        }
        for (int64_t i = b; i < end; ++i) to[i] = math::Exp(to[i]);
        sum += PartSum(to + b, end - b);
      }
      const R scale = 1 / sum;
      for (int64_t b = 0; b < n && !CutBefore(b); b += kPart) {
        const int64_t end = std::min(b + kPart, n);
        for (int64_t i = b; i < end; ++i) to[i] = to[i] * scale - wanted[i * labels->stride];
      }
      loss[r] = n == 0 ? R(0) : total * math::Log(sum) - dot;
    }
  }
};

int64_t Grain(int64_t n) { return std::max<int64_t>(kTask / std::max<int64_t>(n, 1), 1); }

}  // namespace

template <typename R>
void SoftmaxRows(int64_t rows, int64_t n, const R* x, R* out) {
  ParallelFor(rows, Grain(n), [&](int64_t begin, int64_t end) {
    ForHostIsa<Softmax<R>>(end - begin, n, x + begin * n, out + begin * n);
  });
}

template <typename R>
void LogSoftmaxRows(int64_t rows, int64_t n, const R* x, R* out) {
  ParallelFor(rows, Grain(n), [&](int64_t begin, int64_t end) {
    ForHostIsa<LogSoftmax<R>>(end - begin, n, x + begin * n, out + begin * n);
  });
}

template <typename R>
void SparseCrossEntropyRows(int64_t rows, int64_t n, const R* x, const int64_t* labels, R* loss,
                            R* backprop) {
  ParallelFor(rows, Grain(n), [&](int64_t begin, int64_t end) {
    ForHostIsa<SparseCrossEntropy<R>>(end - begin, n, x + begin * n, labels + begin, loss + begin,
                                      backprop + begin * n);
  });
}

template <typename R>
void CrossEntropyRows(int64_t rows, int64_t n, BroadcastRows<R> x, BroadcastRows<R> labels, R* loss,
                      R* backprop) {
  ParallelFor(rows, Grain(n), [&](int64_t begin, int64_t end) {
    ForHostIsa<CrossEntropy<R>>(begin, end, n, &x, &labels, loss, backprop);
  });
}

void RunSoftmaxPart(const SoftmaxPart& part) { ForHostIsa<PartOfSoftmax>(&part); }

#define FORMWORK_SOFTMAX_FOR(R)                                                             \
  template void SoftmaxRows(int64_t, int64_t, const R*, R*);                                \
  template void LogSoftmaxRows(int64_t, int64_t, const R*, R*);                             \
  template void SparseCrossEntropyRows(int64_t, int64_t, const R*, const int64_t*, R*, R*); \
  template void CrossEntropyRows(int64_t, int64_t, BroadcastRows<R>, BroadcastRows<R>, R*, R*)
FORMWORK_SOFTMAX_FOR(float);
FORMWORK_SOFTMAX_FOR(double);
#undef FORMWORK_SOFTMAX_FOR

}  // namespace formwork
