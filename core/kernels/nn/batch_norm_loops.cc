#include "core/kernels/nn/batch_norm_loops.h"

#include <algorithm>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/stop_flag.h"
#include "core/kernels/isa.h"
#include "core/tensor/small_float.h"

namespace formwork {
namespace {

constexpr int64_t kTaskElements = 128 * 1024;
constexpr int64_t kLanes = 32;  // Sums side by side, held in registers.
constexpr int64_t kFewLanes = 8;
// After so many float additions a sum goes on in double, so that large batches lose nothing.
constexpr int64_t kFloatRun = 64;

enum class Pass { kSum, kSquares, kProducts };

template <Pass kPass>
FORMWORK_ISA_INLINE void Accumulate(float x, float dy, float mean, float* first, float* second) {
  if constexpr (kPass == Pass::kSum) {
    *first += x;
  } else if constexpr (kPass == Pass::kSquares) {
    *first += (x - mean) * (x - mean);
  } else {
    *first += dy;
    *second += dy * (x - mean);
  }
}

/// Channels last: rows [begin, end) added to first and second.
template <typename T, Pass kPass>
struct RowSums {
  FORMWORK_ISA_INLINE static void Run(int64_t channels, const T* x, const T* dy, const float* mean,
                                      int64_t begin, int64_t end, double* first, double* second) {
    for (int64_t r0 = begin; r0 < end; r0 += kFloatRun) {
      const int64_t rows = std::min(kFloatRun, end - r0);
      const T* from = x + r0 * channels;
      const T* gradient = kPass == Pass::kProducts ? dy + r0 * channels : from;
      int64_t c = 0;
      for (; c + kLanes <= channels; c += kLanes) {
        Add<kLanes>(channels, rows, from, gradient, mean, c, first, second);
      }
      for (; c + kFewLanes <= channels; c += kFewLanes) {
        Add<kFewLanes>(channels, rows, from, gradient, mean, c, first, second);
      }
      for (; c < channels; ++c) Add<1>(channels, rows, from, gradient, mean, c, first, second);
    }
  }

  /// kCount channels from c0 on.
  template <int64_t kCount>
  FORMWORK_ISA_INLINE static void Add(int64_t channels, int64_t rows, const T* x, const T* dy,
                                      const float* mean, int64_t c0, double* first,
                                      double* second) {
    float a[kCount] = {};
    float b[kCount] = {};
    float m[kCount] = {};
    if constexpr (kPass != Pass::kSum) {
      for (int64_t c = 0; c < kCount; ++c) m[c] = mean[c0 + c];
    }
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = x + r * channels + c0;
      const T* gradient = dy + r * channels + c0;
      for (int64_t c = 0; c < kCount; ++c) {
        Accumulate<kPass>(static_cast<float>(row[c]), static_cast<float>(gradient[c]), m[c], &a[c],
                          &b[c]);
      }
    }
    for (int64_t c = 0; c < kCount; ++c) first[c0 + c] += static_cast<double>(a[c]);
    if constexpr (kPass == Pass::kProducts) {
      for (int64_t c = 0; c < kCount; ++c) second[c0 + c] += static_cast<double>(b[c]);
    }
  }
};

/// Channels first: channels [begin, end), each over all of its elements.
template <typename T, Pass kPass>
struct PlaneSums {
  FORMWORK_ISA_INLINE static void Run(const ChannelLayout* layout, const T* x, const T* dy,
                                      const float* mean, int64_t begin, int64_t end, double* first,
                                      double* second) {
    const int64_t inner = layout->inner;
    int64_t since_look = 0;
    for (int64_t c = begin; c < end; ++c) {
      const float m = kPass == Pass::kSum ? 0.0f : mean[c];
      double total_a = 0;
      double total_b = 0;
      for (int64_t n = 0; n < layout->outer; ++n) {
        const T* plane = x + (n * layout->channels + c) * inner;
        const T* gradient =
            kPass == Pass::kProducts ? dy + (n * layout->channels + c) * inner : plane;
        for (int64_t i0 = 0; i0 < inner; i0 += kLanes * kFloatRun) {
          since_look += std::min(kLanes * kFloatRun, inner - i0);
          if (since_look > int64_t{1} << 20) {
            if (WorkIsCut()) return;
            since_look = 0;
          }
          const int64_t i1 = i0 + kLanes * kFloatRun < inner ? i0 + kLanes * kFloatRun : inner;
          float a[kLanes] = {};
          float b[kLanes] = {};
          int64_t i = i0;
          for (; i + kLanes <= i1; i += kLanes) {
            for (int64_t k = 0; k < kLanes; ++k) {
              Accumulate<kPass>(static_cast<float>(plane[i + k]),
                                static_cast<float>(gradient[i + k]), m, &a[k], &b[k]);
            }
          }
          for (int64_t k = 0; i < i1; ++i, ++k) {
            Accumulate<kPass>(static_cast<float>(plane[i]), static_cast<float>(gradient[i]), m,
                              &a[k], &b[k]);
          }
          for (int64_t k = 0; k < kLanes; ++k) {
            total_a += static_cast<double>(a[k]);
            total_b += static_cast<double>(b[k]);
          }
        }
      }
      first[c] = total_a;
      if constexpr (kPass == Pass::kProducts) second[c] = total_b;
    }
  }
};

template <typename T, Pass kPass>
void Sums(const ChannelLayout& layout, const T* x, const T* dy, const float* mean, double* first,
          double* second) {
  const int64_t channels = layout.channels;
  if (layout.inner != 1) {
    const int64_t grain =
        std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, layout.per_channel()));
    ParallelFor(channels, grain, [&](int64_t begin, int64_t end) {
      ForHostIsa<PlaneSums<T, kPass>>(&layout, x, dy, mean, begin, end, first, second);
    });
    return;
  }
  const int64_t rows = layout.outer;
  const int64_t parts = std::clamp<int64_t>(rows * channels / kTaskElements, 1, ParallelThreads());
  constexpr int64_t kSums = kPass == Pass::kProducts ? 2 : 1;
  // The channels of every part side by side; a part is a handful of them at most.
  std::vector<double> sums(static_cast<size_t>(parts * kSums * channels), 0.0);
  // Whole runs: where a sum is cut decides its last bits.
  const int64_t rows_between_looks =
      kFloatRun * (1 + (int64_t{1} << 20) / (kFloatRun * std::max<int64_t>(channels, 1)));
  ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      double* mine = sums.data() + part * kSums * channels;
      const int64_t first_row = rows * part / parts;
      ForBlocks(rows * (part + 1) / parts - first_row, rows_between_looks,
                [&](int64_t b, int64_t e) {
                  ForHostIsa<RowSums<T, kPass>>(channels, x, dy, mean, first_row + b, first_row + e,
                                                mine, mine + (kSums - 1) * channels);
                });
    }
  });
  for (int64_t c = 0; c < channels; ++c) {
    double a = 0;
    double b = 0;
    for (int64_t part = 0; part < parts; ++part) {
      a += sums[static_cast<size_t>(part * kSums * channels + c)];
      b += sums[static_cast<size_t>((part * kSums + kSums - 1) * channels + c)];
    }
    first[c] = a;
    if constexpr (kPass == Pass::kProducts) second[c] = b;
  }
}

template <typename T>
struct ScaleRows {
  FORMWORK_ISA_INLINE static void Run(int64_t channels, const T* x, const float* mean,
                                      const float* factor, const float* offset, T* y, int64_t begin,
                                      int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* from = x + r * channels;
      T* to = y + r * channels;
      for (int64_t c = 0; c < channels; ++c) {
        to[c] = T((static_cast<float>(from[c]) - mean[c]) * factor[c] + offset[c]);
      }
    }
  }
};

template <typename T>
struct ScalePlanes {
  FORMWORK_ISA_INLINE static void Run(const ChannelLayout* layout, const T* x, const float* mean,
                                      const float* factor, const float* offset, T* y, int64_t begin,
                                      int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t c = p % layout->channels;
      const float m = mean[c];
      const float f = factor[c];
      const float o = offset[c];
      const T* from = x + p * layout->inner;
      T* to = y + p * layout->inner;
      for (int64_t i = 0; i < layout->inner; ++i) {
        to[i] = T((static_cast<float>(from[i]) - m) * f + o);
      }
    }
  }
};

template <typename T>
struct GradientRows {
  FORMWORK_ISA_INLINE static void Run(int64_t channels, const T* dy, const T* x, const float* mean,
                                      const float* shift, const float* slope, const float* factor,
                                      T* dx, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* g = dy + r * channels;
      const T* from = x + r * channels;
      T* to = dx + r * channels;
      for (int64_t c = 0; c < channels; ++c) {
        to[c] = T((static_cast<float>(g[c]) - shift[c] -
                   (static_cast<float>(from[c]) - mean[c]) * slope[c]) *
                  factor[c]);
      }
    }
  }
};

template <typename T>
struct GradientPlanes {
  FORMWORK_ISA_INLINE static void Run(const ChannelLayout* layout, const T* dy, const T* x,
                                      const float* mean, const float* shift, const float* slope,
                                      const float* factor, T* dx, int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t c = p % layout->channels;
      const T* g = dy + p * layout->inner;
      const T* from = x + p * layout->inner;
      T* to = dx + p * layout->inner;
      const float m = mean[c];
      const float s = shift[c];
      const float k = slope[c];
      const float f = factor[c];
      for (int64_t i = 0; i < layout->inner; ++i) {
        to[i] = T((static_cast<float>(g[i]) - s - (static_cast<float>(from[i]) - m) * k) * f);
      }
    }
  }
};

}  // namespace

template <typename T>
void ChannelSums(const ChannelLayout& layout, const T* x, double* sum) {
  Sums<T, Pass::kSum>(layout, x, x, nullptr, sum, nullptr);
}

template <typename T>
void ChannelSquares(const ChannelLayout& layout, const T* x, const float* mean, double* sum) {
  Sums<T, Pass::kSquares>(layout, x, x, mean, sum, nullptr);
}

template <typename T>
void ChannelProducts(const ChannelLayout& layout, const T* dy, const T* x, const float* mean,
                     double* sum, double* product) {
  Sums<T, Pass::kProducts>(layout, x, dy, mean, sum, product);
}

template <typename T>
void ChannelScale(const ChannelLayout& layout, const T* x, const float* mean, const float* factor,
                  const float* offset, T* y) {
  if (layout.inner == 1) {
    ParallelFor(layout.outer,
                std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, layout.channels)),
                [&](int64_t begin, int64_t end) {
                  ForHostIsa<ScaleRows<T>>(layout.channels, x, mean, factor, offset, y, begin, end);
                });
    return;
  }
  ParallelFor(layout.outer * layout.channels,
              std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, layout.inner)),
              [&](int64_t begin, int64_t end) {
                ForHostIsa<ScalePlanes<T>>(&layout, x, mean, factor, offset, y, begin, end);
              });
}

template <typename T>
void ChannelGradient(const ChannelLayout& layout, const T* dy, const T* x, const float* mean,
                     const float* shift, const float* slope, const float* factor, T* dx) {
  if (layout.inner == 1) {
    ParallelFor(layout.outer,
                std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, layout.channels)),
                [&](int64_t begin, int64_t end) {
                  ForHostIsa<GradientRows<T>>(layout.channels, dy, x, mean, shift, slope, factor,
                                              dx, begin, end);
                });
    return;
  }
  ParallelFor(layout.outer * layout.channels,
              std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, layout.inner)),
              [&](int64_t begin, int64_t end) {
                ForHostIsa<GradientPlanes<T>>(&layout, dy, x, mean, shift, slope, factor, dx, begin,
                                              end);
              });
}

#define FORMWORK_BATCH_NORM(T)                                                              \
  template void ChannelSums<T>(const ChannelLayout&, const T*, double*);                    \
  template void ChannelSquares<T>(const ChannelLayout&, const T*, const float*, double*);   \
  template void ChannelProducts<T>(const ChannelLayout&, const T*, const T*, const float*,  \
                                   double*, double*);                                       \
  template void ChannelScale<T>(const ChannelLayout&, const T*, const float*, const float*, \
                                const float*, T*);                                          \
  template void ChannelGradient<T>(const ChannelLayout&, const T*, const T*, const float*,  \
                                   const float*, const float*, const float*, T*);
FORMWORK_BATCH_NORM(float)
FORMWORK_BATCH_NORM(half)
FORMWORK_BATCH_NORM(bfloat16)
#undef FORMWORK_BATCH_NORM

}  // namespace formwork
