#include "core/kernels/conv/depthwise_loops.h"

#include <algorithm>

#include "core/base/parallel.h"
#include "core/base/stop_flag.h"
#include "core/kernels/conv/channel_blocks.h"
#include "core/kernels/conv/depthwise_blocks.h"
#include "core/kernels/isa.h"

namespace formwork {
namespace {

using depthwise::InteriorOutputs;
using depthwise::RowGrain;
using depthwise::TapRange;
using depthwise::TapsWithin;

// Where it is an array that is summed in.
template <typename T>
constexpr int64_t kArrayBlock = 64 / static_cast<int64_t>(sizeof(T));

/// How far a tap is, in strides and a rest: divisions would cost more than the sums themselves.
struct TapDistances {
  static constexpr int64_t kKept = 32;
  int64_t strides[kKept];
  int64_t rest[kKept];
};

FORMWORK_ISA_INLINE void SetDistances(const ConvAxis& a, TapDistances* d) {
  for (int64_t k = 0; k < a.taps && k < TapDistances::kKept; ++k) {
    d->strides[k] = k * a.dilation / a.stride;
    d->rest[k] = k * a.dilation % a.stride;
  }
}

/// The output that reads, with tap k, the input at `strides` * stride + `rest` - pad_before; -1
/// where there is none.
FORMWORK_ISA_INLINE int64_t ReaderOf(const ConvAxis& a, const TapDistances& d, int64_t k,
                                     int64_t strides, int64_t rest) {
  const bool kept = k < TapDistances::kKept;
  if (rest != (kept ? d.rest[k] : k * a.dilation % a.stride)) return -1;
  const int64_t output = strides - (kept ? d.strides[k] : k * a.dilation / a.stride);
  return output < a.output ? output : -1;
}

/// Input rows [begin, end), counted over the whole batch: each input gathers from the outputs that
/// read it.
template <typename T, int kBytes>
struct InputGradientRows {
  static constexpr int kTogether = 16;

  FORMWORK_ISA_INLINE static void Run(const ConvShape* shape, const T* filter,
                                      const T* out_backprop, T* in_backprop, int64_t begin,
                                      int64_t end) {
    const ConvShape& s = *shape;
    const int64_t channels = s.in_channels;
    TapDistances row_taps;
    TapDistances col_taps;
    SetDistances(s.rows, &row_taps);
    SetDistances(s.cols, &col_taps);
    for (int64_t r = begin; r < end; ++r) {
      const int64_t image_row = r / s.rows.input * s.rows.output;
      const int64_t row = r % s.rows.input + s.rows.pad_before;
      // A few rows of taps at a time; almost always that is all of them.
      int64_t next = 0;
      do {
        const bool first = next == 0;
        const T* gradient_rows[kTogether];
        const T* weight_rows[kTogether];
        int rows = 0;
        for (; next < s.rows.taps && rows < kTogether; ++next) {
          const int64_t oh =
              ReaderOf(s.rows, row_taps, next, row / s.rows.stride, row % s.rows.stride);
          if (oh < 0) continue;
          gradient_rows[rows] = out_backprop + (image_row + oh) * s.cols.output * channels;
          weight_rows[rows] = filter + next * s.cols.taps * channels;
          ++rows;
        }
        OneRow(s, col_taps, rows, gradient_rows, weight_rows, first,
               in_backprop + r * s.cols.input * channels);
      } while (next < s.rows.taps);
    }
  }

  /// Adds the taps of a few filter rows to one row of inputs (`first`: there is nothing yet).
  FORMWORK_ISA_INLINE static void OneRow(const ConvShape& s, const TapDistances& col_taps, int rows,
                                         const T* const* gradient_rows, const T* const* weight_rows,
                                         bool first, T* to) {
    const int64_t channels = s.in_channels;
    int64_t col_strides = s.cols.pad_before / s.cols.stride;
    int64_t col_rest = s.cols.pad_before % s.cols.stride;
    const T* gradients[kTogether * kTogether];
    const T* weights[kTogether * kTogether];
    for (int64_t iw = 0; iw < s.cols.input; ++iw, to += channels) {
      bool from_zero = first;
      int64_t next = 0;
      do {
        int count = 0;
        for (int cols = 0; next < s.cols.taps && cols < kTogether; ++next) {
          const int64_t ow = ReaderOf(s.cols, col_taps, next, col_strides, col_rest);
          if (ow < 0) continue;
          for (int i = 0; i < rows; ++i, ++count) {
            gradients[count] = gradient_rows[i] + ow * channels;
            weights[count] = weight_rows[i] + next * channels;
          }
          ++cols;
        }
        Add(channels, count, gradients, weights, from_zero, to);
        from_zero = false;
      } while (next < s.cols.taps);
      if (++col_rest == s.cols.stride) {
        col_rest = 0;
        ++col_strides;
      }
    }
  }

  FORMWORK_ISA_INLINE static void Add(int64_t channels, int count, const T* const* gradients,
                                      const T* const* weights, bool from_zero, T* to) {
    int64_t c = 0;
    for (; c + kBlock<T, kBytes> <= channels; c += kBlock<T, kBytes>) {
      using Block = typename Vector<T, kBytes>::Block;
      Block sum = {};
      if (!from_zero) sum = *reinterpret_cast<const Block*>(to + c);
      for (int t = 0; t < count; ++t) {
        sum += *reinterpret_cast<const Block*>(gradients[t] + c) *
               *reinterpret_cast<const Block*>(weights[t] + c);
      }
      *reinterpret_cast<Block*>(to + c) = sum;
    }
    if (c == channels) return;
    if (from_zero) {
      for (int64_t k = c; k < channels; ++k) to[k] = T(0);
    }
    for (int t = 0; t < count; ++t) {
      for (int64_t k = c; k < channels; ++k) to[k] += gradients[t][k] * weights[t][k];
    }
  }
};

/// A block of channels: kTaps neighbouring column taps at once, over the outputs where all of them
/// are within the input.
template <typename T, int kTaps>
FORMWORK_ISA_INLINE void FilterBlock(int64_t count, int64_t channels, int64_t in_step,
                                     int64_t tap_step, const T* in, const T* g, T* sums) {
  constexpr int64_t kC = kArrayBlock<T>;
  T sum[kTaps][kC];
  for (int t = 0; t < kTaps; ++t) {
    for (int64_t c = 0; c < kC; ++c) sum[t][c] = sums[t * channels + c];
  }
  for (int64_t o = 0; o < count; ++o) {
    for (int t = 0; t < kTaps; ++t) {
      for (int64_t c = 0; c < kC; ++c) sum[t][c] += in[t * tap_step + c] * g[c];
    }
    in += in_step;
    g += channels;
  }
  for (int t = 0; t < kTaps; ++t) {
    for (int64_t c = 0; c < kC; ++c) sums[t * channels + c] = sum[t][c];
  }
}

/// Adds output rows [begin, end), counted over the whole batch, to `sums`.
template <typename T>
struct FilterGradientRows {
  FORMWORK_ISA_INLINE static void Run(const ConvShape* shape, const T* input, const T* out_backprop,
                                      T* sums, int64_t begin, int64_t end) {
    const ConvShape& s = *shape;
    const int64_t channels = s.in_channels;
    const int64_t in_row = s.cols.input * channels;
    const TapRange interior = InteriorOutputs(s.cols);
    for (int64_t r = begin; r < end; ++r) {
      const int64_t n = r / s.rows.output;
      const int64_t oh = r % s.rows.output;
      const TapRange taps_r = TapsWithin(s.rows, oh);
      const T* g = out_backprop + r * s.cols.output * channels;
      for (int64_t i = taps_r.begin; i < taps_r.end; ++i) {
        const T* in = input + (n * s.rows.input + oh * s.rows.stride - s.rows.pad_before +
                               i * s.rows.dilation) *
                                  in_row;
        T* row_sums = sums + i * s.cols.taps * channels;
        // The edges, a pixel at a time.
        for (int64_t ow = 0; ow < s.cols.output; ++ow) {
          if (ow == interior.begin) ow = interior.end;
          if (ow >= s.cols.output) break;
          const TapRange taps_c = TapsWithin(s.cols, ow);
          for (int64_t j = taps_c.begin; j < taps_c.end; ++j) {
            const T* x =
                in + (ow * s.cols.stride - s.cols.pad_before + j * s.cols.dilation) * channels;
            const T* gradient = g + ow * channels;
            T* sum = row_sums + j * channels;
            for (int64_t c = 0; c < channels; ++c) sum[c] += x[c] * gradient[c];
          }
        }
        const int64_t count = interior.end - interior.begin;
        if (count == 0) continue;
        const T* x0 = in + (interior.begin * s.cols.stride - s.cols.pad_before) * channels;
        const T* g0 = g + interior.begin * channels;
        const int64_t in_step = s.cols.stride * channels;
        const int64_t tap_step = s.cols.dilation * channels;
        int64_t c = 0;
        for (; c + kArrayBlock<T> <= channels; c += kArrayBlock<T>) {
          int64_t j = 0;
          for (; j + 3 <= s.cols.taps; j += 3) {
            FilterBlock<T, 3>(count, channels, in_step, tap_step, x0 + j * tap_step + c, g0 + c,
                              row_sums + j * channels + c);
          }
          for (; j < s.cols.taps; ++j) {
            FilterBlock<T, 1>(count, channels, in_step, tap_step, x0 + j * tap_step + c, g0 + c,
                              row_sums + j * channels + c);
          }
        }
        if (c == channels) continue;
        for (int64_t j = 0; j < s.cols.taps; ++j) {
          T* sum = row_sums + j * channels;
          for (int64_t o = 0; o < count; ++o) {
            const T* x = x0 + j * tap_step + o * in_step;
            const T* gradient = g0 + o * channels;
            for (int64_t k = c; k < channels; ++k) sum[k] += x[k] * gradient[k];
          }
        }
      }
    }
  }
};

}  // namespace

template <typename T>
void DepthwiseInputGradient(const ConvShape& shape, const T* filter, const T* out_backprop,
                            T* in_backprop, T* flipped) {
  if (shape.rows.stride == 1 && shape.cols.stride == 1 && shape.rows.taps > 0 &&
      shape.cols.taps > 0) {
    // The same as sliding the filter backwards over the gradient.
    const auto reverse = [](const ConvAxis& a) {
      ConvAxis reversed = a;
      reversed.input = a.output;
      reversed.output = a.input;
      reversed.pad_before = (a.taps - 1) * a.dilation - a.pad_before;
      return reversed;
    };
    ConvShape backwards = shape;
    backwards.rows = reverse(shape.rows);
    backwards.cols = reverse(shape.cols);
    const int64_t taps = shape.rows.taps * shape.cols.taps;
    for (int64_t k = 0; k < taps; ++k) {
      std::copy_n(filter + k * shape.in_channels, shape.in_channels,
                  flipped + (taps - 1 - k) * shape.in_channels);
    }
    DepthwiseForward(backwards, out_backprop, flipped, DepthwiseEpilogue<T>(), in_backprop);
    return;
  }
  ParallelFor(shape.batch * shape.rows.input, RowGrain(shape, shape.cols.input),
              [&](int64_t begin, int64_t end) {
                ForBlocksOfHost<InputGradientRows, T>(&shape, filter, out_backprop, in_backprop,
                                                      begin, end);
              });
}

int64_t DepthwiseFilterSums(const ConvShape& shape) {
  const int64_t rows = shape.batch * shape.rows.output;
  const int64_t tasks = rows / RowGrain(shape, shape.cols.output);
  return std::clamp<int64_t>(tasks, 1, ParallelThreads());
}

template <typename T>
void DepthwiseFilterGradient(const ConvShape& shape, const T* input, const T* out_backprop,
                             T* filter_backprop, T* sums) {
  const int64_t parts = DepthwiseFilterSums(shape);
  const int64_t rows = shape.batch * shape.rows.output;
  const int64_t n = shape.rows.taps * shape.cols.taps * shape.in_channels;
  std::fill_n(sums, parts * n, T(0));
  const int64_t rows_between_looks = 64 * RowGrain(shape, shape.cols.output);
  ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const int64_t first = rows * part / parts;
      ForBlocks(rows * (part + 1) / parts - first, rows_between_looks, [&](int64_t b, int64_t e) {
        ForHostIsa<FilterGradientRows<T>>(&shape, input, out_backprop, sums + part * n, first + b,
                                          first + e);
      });
    }
  });
  // In order, so that the result is the same in every run.
  std::copy_n(sums, n, filter_backprop);
  for (int64_t part = 1; part < parts; ++part) {
    for (int64_t k = 0; k < n; ++k) filter_backprop[k] += sums[part * n + k];
  }
}

#define FORMWORK_DEPTHWISE(T)                                                            \
  template void DepthwiseInputGradient<T>(const ConvShape&, const T*, const T*, T*, T*); \
  template void DepthwiseFilterGradient<T>(const ConvShape&, const T*, const T*, T*, T*);
FORMWORK_DEPTHWISE(float)
FORMWORK_DEPTHWISE(double)
#undef FORMWORK_DEPTHWISE

}  // namespace formwork
