#include "core/kernels/nn/layer_norm_loops.h"

#include <algorithm>
#include <cmath>

#include "core/base/parallel.h"
#include "core/base/stop_flag.h"
#include "core/kernels/isa.h"

namespace formwork {
namespace {

constexpr int kLanes = 16;            // Side by side: one alone waits for each addition.
constexpr int64_t kPart = 2048;       // Elements that are summed in float, as reductions do.
constexpr int64_t kTask = 32 * 1024;  // Elements worth a task.

// Of x - shift, or of its square.
template <bool kSquares>
FORMWORK_ISA_INLINE double Sum(const float* x, int64_t n, float shift) {
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kPart) {
    if (begin % (kPart << 9) == kPart && WorkIsCut()) break;
    const int64_t end = std::min(begin + kPart, n);
    float lanes[kLanes] = {};
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) {
        const float d = x[i + l] - shift;
        lanes[l] += kSquares ? d * d : d;
      }
    }
    float sum = 0;
    for (int l = 0; l < kLanes; ++l) sum += lanes[l];
    for (; i < end; ++i) {
      const float d = x[i] - shift;
      sum += kSquares ? d * d : d;
    }
    total += sum;
  }
  return total;
}

struct Rows {
  FORMWORK_ISA_INLINE static void Run(int64_t rows, int64_t n, const float* x, const float* scale,
                                      const float* offset, float epsilon, float* y) {
    for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
      const auto count = static_cast<double>(n);
      const auto mean = static_cast<float>(Sum<false>(x, n, 0.0f) / count);
      const auto variance = static_cast<float>(Sum<true>(x, n, mean) / count);
      const float inverse = 1.0f / std::sqrt(variance + epsilon);
      for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * (inverse * scale[i]) + offset[i];
    }
  }
};

}  // namespace

void LayerNormRows(int64_t rows, int64_t n, const float* x, const float* scale, const float* offset,
                   float epsilon, float* y) {
  ParallelFor(
      rows, std::max<int64_t>(1, kTask / std::max<int64_t>(n, 1)), [&](int64_t begin, int64_t end) {
        ForHostIsa<Rows>(end - begin, n, x + begin * n, scale, offset, epsilon, y + begin * n);
      });
}

}  // namespace formwork
