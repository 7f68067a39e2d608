#include "core/kernels/conv/depthwise_few_channels.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "core/base/parallel.h"
#include "core/kernels/conv/depthwise_blocks.h"
#include "core/kernels/isa.h"

namespace formwork {
namespace {

constexpr int64_t kFewChannels = 8;
// Elements of a row that are worth more than the channels one by one.
constexpr int64_t kLeastRow = 16;
// Weights are repeated at least so often as vectors and channels take to end together, and on, so
// that loops over them are long.
constexpr int64_t kLongestVector = 16;
constexpr int64_t kLongLoop = 240;

int64_t RepeatedLength(int64_t channels) {
  const int64_t together = std::lcm(channels, kLongestVector);
  return (kLongLoop + together - 1) / together * together;
}

// Taps side by side that are added before a sum goes back to memory.
constexpr int kTogether = 4;

// Rows [begin, end) of all images' outputs: tap by tap along the whole row, whose elements are
// those of pixels and channels alike. `weights`: for each tap of `length` elements.
template <typename T>
struct Rows {
  FORMWORK_ISA_INLINE static void Run(const ConvShape* shape, const T* input, const T* weights,
                                      int64_t length, const DepthwiseEpilogue<T>* epilogue,
                                      T* output, int64_t begin, int64_t end) {
    const ConvShape& s = *shape;
    const int64_t channels = s.in_channels, width = s.cols.output * channels;
    for (int64_t r = begin; r < end; ++r) {
      T* const out = output + r * width;
      for (int64_t i = 0; i < width; i += channels) {
        for (int64_t c = 0; c < channels; ++c) {
          out[i + c] = epilogue->bias == nullptr ? T(0) : epilogue->bias[c];
        }
      }
      const T* const image = input + r / s.rows.output * (s.rows.input * s.cols.input * channels);
      const int64_t oh = r % s.rows.output;
      const depthwise::TapRange taps = depthwise::TapsWithin(s.rows, oh);
      for (int64_t i = taps.begin; i < taps.end; ++i) {
        const int64_t row = oh * s.rows.stride - s.rows.pad_before + i * s.rows.dilation;
        const T* const in = image + row * s.cols.input * channels;
        const T* const of_row = weights + i * s.cols.taps * length;
        int64_t j = 0;
        for (; j + kTogether <= s.cols.taps; j += kTogether) {
          AddTaps<kTogether>(s, j, in, of_row + j * length, length, out);
        }
        for (; j < s.cols.taps; ++j) AddTaps<1>(s, j, in, of_row + j * length, length, out);
      }
      if (epilogue->clamp) {
        for (int64_t i = 0; i < width; ++i) {
          const T positive = out[i] > T(0) ? out[i] : T(0);
          out[i] = positive < epilogue->high ? positive : epilogue->high;
        }
      }
    }
  }

  // Columns' taps j to j + kTaps - 1: where the input has all of them, and before and behind that
  // one by one.
  template <int kTaps>
  FORMWORK_ISA_INLINE static void AddTaps(const ConvShape& s, int64_t j, const T* in, const T* w,
                                          int64_t length, T* out) {
    const int64_t begin = FirstOf(s, j), end = EndOf(s, j + kTaps - 1);
    Add<kTaps>(s, j, begin, end, in, w, length, out);
    if constexpr (kTaps > 1) {
      for (int k = 0; k < kTaps; ++k) {
        const int64_t first = FirstOf(s, j + k), last = EndOf(s, j + k);
        const T* const of_tap = w + k * length;
        if (begin >= end) {
          Add<1>(s, j + k, first, last, in, of_tap, length, out);
        } else {
          Add<1>(s, j + k, first, begin, in, of_tap, length, out);
          Add<1>(s, j + k, end, last, in, of_tap, length, out);
        }
      }
    }
  }

  // The outputs for which the input has the tap: output w reads input w + Shift.
  FORMWORK_ISA_INLINE static int64_t Shift(const ConvShape& s, int64_t j) {
    return j * s.cols.dilation - s.cols.pad_before;
  }
  FORMWORK_ISA_INLINE static int64_t FirstOf(const ConvShape& s, int64_t j) {
    return std::max<int64_t>(-Shift(s, j), 0);
  }
  FORMWORK_ISA_INLINE static int64_t EndOf(const ConvShape& s, int64_t j) {
    return std::min(s.cols.input - Shift(s, j), s.cols.output);
  }

  // Outputs [begin, end) += the inputs of kTaps taps times their weights, again and again.
  template <int kTaps>
  FORMWORK_ISA_INLINE static void Add(const ConvShape& s, int64_t j, int64_t begin, int64_t end,
                                      const T* in, const T* __restrict w, int64_t length, T* out) {
    const int64_t channels = s.in_channels, n = (end - begin) * channels;
    if (n <= 0) return;
    const int64_t apart = s.cols.dilation * channels;
    const T* __restrict x = in + (begin + Shift(s, j)) * channels;
    T* __restrict to = out + begin * channels;
    for (int64_t at = 0; at < n; at += length, x += length, to += length) {
      const int64_t count = std::min(length, n - at);
      for (int64_t i = 0; i < count; ++i) {
        T sum = to[i];
        for (int k = 0; k < kTaps; ++k) sum += x[k * apart + i] * w[k * length + i];
        to[i] = sum;
      }
    }
  }
};

}  // namespace

bool IsOfFewChannels(const ConvShape& shape) {
  return shape.in_channels > 0 && shape.in_channels < kFewChannels && shape.cols.stride == 1 &&
         shape.cols.output * shape.in_channels >= kLeastRow;
}

template <typename T>
void DepthwiseFewChannels(const ConvShape& shape, const T* input, const T* filter,
                          const DepthwiseEpilogue<T>& epilogue, T* output) {
  const int64_t channels = shape.in_channels, length = RepeatedLength(channels);
  const int64_t taps = shape.rows.taps * shape.cols.taps;
  std::vector<T> weights(static_cast<size_t>(taps * length));
  for (int64_t t = 0; t < taps; ++t) {
    for (int64_t i = 0; i < length; ++i) {
      weights[t * length + i] = filter[t * channels + i % channels];
    }
  }
  ParallelFor(shape.batch * shape.rows.output, depthwise::RowGrain(shape, shape.cols.output),
              [&](int64_t begin, int64_t end) {
                ForHostIsa<Rows<T>>(&shape, input, static_cast<const T*>(weights.data()), length,
                                    &epilogue, output, begin, end);
              });
}

template void DepthwiseFewChannels<float>(const ConvShape&, const float*, const float*,
                                          const DepthwiseEpilogue<float>&, float*);
template void DepthwiseFewChannels<double>(const ConvShape&, const double*, const double*,
                                           const DepthwiseEpilogue<double>&, double*);

}  // namespace formwork
