#include <algorithm>
#include <type_traits>

#include "core/base/parallel.h"
#include "core/kernels/conv/channel_blocks.h"
#include "core/kernels/conv/depthwise_blocks.h"
#include "core/kernels/conv/depthwise_few_channels.h"
#include "core/kernels/conv/depthwise_loops.h"

namespace formwork {
namespace {

using depthwise::InteriorOutputs;
using depthwise::RowGrain;
using depthwise::TapRange;
using depthwise::TapsWithin;

/// What is added before the sums of some channels and done to them after.
template <typename T, int kBytes>
struct BlockEpilogue {
  using Block = typename Vector<T, kBytes>::Block;

  FORMWORK_ISA_INLINE BlockEpilogue(const DepthwiseEpilogue<T>& epilogue, int64_t c)
      : clamp(epilogue.clamp) {
    bias = epilogue.bias == nullptr ? Block{} : *reinterpret_cast<const Block*>(epilogue.bias + c);
    high = Block{} + epilogue.high;
  }

  FORMWORK_ISA_INLINE void Store(Block sum, T* out) const {
    if (clamp) {
      const Block zero = {};
      const Block positive = sum > zero ? sum : zero;
      sum = positive < high ? positive : high;
    }
    *reinterpret_cast<Block*>(out) = sum;
  }

  bool clamp;
  Block bias;
  Block high;
};

/// `kPixels` outputs side by side, a block of channels: sums of tap_rows x tap_cols taps. `in` and
/// `filter` point to the first of them.
template <typename T, int kBytes, int kPixels>
FORMWORK_ISA_INLINE void AnyTaps(int64_t tap_rows, int64_t tap_cols, int64_t tap_row_step,
                                 int64_t tap_col_step, int64_t pixel_step, int64_t filter_row_step,
                                 int64_t channels, const T* in, const T* filter,
                                 const BlockEpilogue<T, kBytes>& epilogue, T* out) {
  using Block = typename Vector<T, kBytes>::Block;
  Block sum[kPixels];
  for (int p = 0; p < kPixels; ++p) sum[p] = epilogue.bias;
  for (int64_t i = 0; i < tap_rows; ++i) {
    const T* row = in + i * tap_row_step;
    const T* weights = filter + i * filter_row_step;
    for (int64_t j = 0; j < tap_cols; ++j) {
      const Block weight = *reinterpret_cast<const Block*>(weights);
      for (int p = 0; p < kPixels; ++p) {
        sum[p] += *reinterpret_cast<const Block*>(row + p * pixel_step) * weight;
      }
      row += tap_col_step;
      weights += channels;
    }
  }
  for (int p = 0; p < kPixels; ++p) epilogue.Store(sum[p], out + p * channels);
}

/// Columns of outputs of a 3x3 filter, side by side: a walk down the input's rows, each of which is
/// loaded once and added to the outputs that read it. kCols: the taps of a row, one pixel apart,
/// that lie within the input (2 at an edge). Sums are of a filter's rows in their order.
template <typename T, int kBytes, int kStride, int kCols, int kPixels>
struct Columns {
  using Block = typename Vector<T, kBytes>::Block;
  static constexpr int kInputs = (kPixels - 1) * kStride + kCols;

  struct Inputs {
    FORMWORK_ISA_INLINE Inputs(const T* in, int64_t channels) {
      for (int p = 0; p < kInputs; ++p) {
        x[p] = *reinterpret_cast<const Block*>(in + p * channels);
      }
    }
    FORMWORK_ISA_INLINE void AddTo(const Block* weights, Block* sums) const {
      for (int j = 0; j < kCols; ++j) {
        for (int p = 0; p < kPixels; ++p) sums[p] += x[p * kStride + j] * weights[j];
      }
    }
    Block x[kInputs];
  };

  FORMWORK_ISA_INLINE static void Run(const ConvShape& s, int64_t begin, int64_t end, const T* in,
                                      const Block* weights,
                                      const BlockEpilogue<T, kBytes>& epilogue, T* out) {
    const int64_t channels = s.in_channels;
    const int64_t in_row = s.cols.input * channels;
    const int64_t out_row = s.cols.output * channels;
    const int64_t pad = s.rows.pad_before;
    const int64_t first = std::max<int64_t>(begin * kStride - pad, 0);
    const int64_t last = std::min((end - 1) * kStride - pad + 3, s.rows.input);
    in += first * in_row;
    // The outputs that have had a row of taps, and with kStride 1 those that have had two.
    Block one[kPixels], two[kPixels];
    for (int p = 0; p < kPixels; ++p) one[p] = two[p] = epilogue.bias;
    int64_t done = begin;
    for (int64_t t = first + pad; t < last + pad; ++t, in += in_row) {
      const Inputs inputs(in, channels);
      if constexpr (kStride == 1) {
        // Row t is the first tap of output t, the second of t - 1, the third of t - 2.
        if (t - 2 >= begin) {
          inputs.AddTo(weights + 6, two);
          Store(two, channels, epilogue, out + done++ * out_row);
        }
        for (int p = 0; p < kPixels; ++p) two[p] = one[p];
        if (t - 1 >= begin && t - 1 < end) inputs.AddTo(weights + 3, two);
        for (int p = 0; p < kPixels; ++p) one[p] = epilogue.bias;
        if (t < end) inputs.AddTo(weights, one);
      } else {
        // An even row is the third tap of output t / 2 - 1 and the first of t / 2, an odd one the
        // second of t / 2.
        if (t % 2 != 0) {
          inputs.AddTo(weights + 3, one);
          continue;
        }
        if (t / 2 > begin) {
          inputs.AddTo(weights + 6, one);
          Store(one, channels, epilogue, out + done++ * out_row);
          for (int p = 0; p < kPixels; ++p) one[p] = epilogue.bias;
        }
        if (t / 2 < end) inputs.AddTo(weights, one);
      }
    }
    // What reads rows below the input.
    if constexpr (kStride == 1) {
      if (done < end) Store(two, channels, epilogue, out + done++ * out_row);
    }
    if (done < end) Store(one, channels, epilogue, out + done * out_row);
  }

  FORMWORK_ISA_INLINE static void Store(const Block* sums, int64_t channels,
                                        const BlockEpilogue<T, kBytes>& epilogue, T* out) {
    for (int p = 0; p < kPixels; ++p) epilogue.Store(sums[p], out + p * channels);
  }
};

/// One output, fewer channels than a block's.
template <typename T>
FORMWORK_ISA_INLINE void OnePixel(int64_t tap_rows, int64_t tap_cols, int64_t tap_row_step,
                                  int64_t tap_col_step, int64_t filter_row_step, int64_t channels,
                                  int64_t count, const T* in, const T* filter,
                                  const DepthwiseEpilogue<T>& epilogue, T* out) {
  for (int64_t c = 0; c < count; ++c) out[c] = epilogue.bias == nullptr ? T(0) : epilogue.bias[c];
  for (int64_t i = 0; i < tap_rows; ++i) {
    for (int64_t j = 0; j < tap_cols; ++j) {
      const T* x = in + i * tap_row_step + j * tap_col_step;
      const T* w = filter + i * filter_row_step + j * channels;
      for (int64_t c = 0; c < count; ++c) out[c] += x[c] * w[c];
    }
  }
  for (int64_t c = 0; c < count && epilogue.clamp; ++c) {
    const T positive = out[c] > T(0) ? out[c] : T(0);
    out[c] = positive < epilogue.high ? positive : epilogue.high;
  }
}

/// Output rows [begin, end), counted over the whole batch.
template <typename T, int kBytes>
struct ForwardRows {
  using Block = typename Vector<T, kBytes>::Block;
  static constexpr int64_t kC = kBlock<T, kBytes>;
  // Channels of a cache line: all that is done with a line of the input is done before the next
  // line of channels, while the rows that it is read for are near.
  static constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  // Images are floats: doubles would take two thirds as long again to compile.
  static constexpr bool kMayWalk = std::is_same_v<T, float>;

  FORMWORK_ISA_INLINE static void Run(const ConvShape* shape, const T* input, const T* filter,
                                      const DepthwiseEpilogue<T>* epilogue, T* output,
                                      int64_t begin, int64_t end) {
    const ConvShape& s = *shape;
    const int64_t channels = s.in_channels;
    const bool walk =
        kMayWalk && IsNear(s.rows) && IsNear(s.cols) && s.rows.stride == s.cols.stride;
    while (begin < end) {
      const int64_t n = begin / s.rows.output;
      const int64_t first = begin - n * s.rows.output;
      const int64_t last = std::min(end - n * s.rows.output, s.rows.output);
      const Image image = {input + n * s.rows.input * s.cols.input * channels, filter,
                           output + n * s.rows.output * s.cols.output * channels};
      for (int64_t line = 0; line < channels; line += kLine) {
        const int64_t line_end = std::min(line + kLine, channels);
        for (int64_t c = line; c < line_end; c += kC) {
          if (channels < kC) {
            FewChannels(s, image, first, last, c, channels - c, *epilogue);
            continue;
          }
          // The last block may begin in the one before, whose outputs are the same again.
          const int64_t at = std::min(c, channels - kC);
          const BlockEpilogue<T, kBytes> block(*epilogue, at);
          const Image from = image.From(at);
          if (!walk) {
            AllTaps(s, from, first, last, block);
          } else if constexpr (kMayWalk) {
            if (s.cols.stride == 1) {
              Walk<1>(s, from, first, last, block);
            } else {
              Walk<2>(s, from, first, last, block);
            }
          }
        }
      }
      begin = n * s.rows.output + last;
    }
  }

 private:
  struct Image {
    FORMWORK_ISA_INLINE Image From(int64_t c) const { return {in + c, filter + c, out + c}; }

    const T* in;
    const T* filter;
    T* out;
  };

  /// Whether Columns can walk along or down it.
  FORMWORK_ISA_INLINE static bool IsNear(const ConvAxis& a) {
    return a.taps == 3 && a.dilation == 1 && a.stride <= 2 && a.pad_before <= 2 &&
           a.pad_after <= 2 && a.input >= 3;
  }

  /// Output rows [begin, end) of a block of channels.
  template <int kStride>
  FORMWORK_ISA_INLINE static void Walk(const ConvShape& s, const Image& image, int64_t begin,
                                       int64_t end, const BlockEpilogue<T, kBytes>& epilogue) {
    // With the weights, what fits into the registers.
    constexpr int kPixels = kBytes == 64 ? 4 : 3;
    const int64_t channels = s.in_channels;
    Block weights[9];
    for (int k = 0; k < 9; ++k) {
      weights[k] = *reinterpret_cast<const Block*>(image.filter + k * channels);
    }
    const TapRange interior = InteriorOutputs(s.cols);
    Edge<kStride>(s, image, begin, end, 0, interior.begin, weights, epilogue);
    int64_t ow = interior.begin;
    for (; ow + kPixels <= interior.end; ow += kPixels) {
      Columns<T, kBytes, kStride, 3, kPixels>::Run(
          s, begin, end, image.in + (ow * kStride - s.cols.pad_before) * channels, weights,
          epilogue, image.out + ow * channels);
    }
    for (; ow < interior.end; ++ow) {
      Columns<T, kBytes, kStride, 3, 1>::Run(
          s, begin, end, image.in + (ow * kStride - s.cols.pad_before) * channels, weights,
          epilogue, image.out + ow * channels);
    }
    Edge<kStride>(s, image, begin, end, interior.end, s.cols.output, weights, epilogue);
  }

  /// The columns [from, to) of outputs, at an edge.
  template <int kStride>
  FORMWORK_ISA_INLINE static void Edge(const ConvShape& s, const Image& image, int64_t begin,
                                       int64_t end, int64_t from, int64_t to, const Block* weights,
                                       const BlockEpilogue<T, kBytes>& epilogue) {
    const int64_t channels = s.in_channels;
    for (int64_t ow = from; ow < to; ++ow) {
      const TapRange taps = TapsWithin(s.cols, ow);
      T* out = image.out + ow * channels;
      if (taps.begin == 1 && taps.end == 3) {
        Block right[9];
        for (int k = 0; k < 8; ++k) right[k] = weights[k + 1];
        Columns<T, kBytes, kStride, 2, 1>::Run(s, begin, end, image.in, right, epilogue, out);
      } else if (taps.begin == 0 && taps.end == 2) {
        Columns<T, kBytes, kStride, 2, 1>::Run(
            s, begin, end, image.in + (ow * kStride - s.cols.pad_before) * channels, weights,
            epilogue, out);
      } else {
        for (int64_t oh = begin; oh < end; ++oh) {
          Pixels<1>(s, image, oh, ow, TapsWithin(s.rows, oh), taps, epilogue);
        }
      }
    }
  }

  /// Output rows [begin, end) of a block of channels, any filter.
  FORMWORK_ISA_INLINE static void AllTaps(const ConvShape& s, const Image& image, int64_t begin,
                                          int64_t end, const BlockEpilogue<T, kBytes>& epilogue) {
    const TapRange interior = InteriorOutputs(s.cols);
    for (int64_t oh = begin; oh < end; ++oh) {
      const TapRange rows = TapsWithin(s.rows, oh);
      for (int64_t ow = 0; ow < s.cols.output;) {
        if (ow >= interior.begin && ow + 4 <= interior.end) {
          Pixels<4>(s, image, oh, ow, rows, {0, s.cols.taps}, epilogue);
          ow += 4;
        } else {
          Pixels<1>(s, image, oh, ow, rows, TapsWithin(s.cols, ow), epilogue);
          ++ow;
        }
      }
    }
  }

  /// Outputs side by side that have the same taps within the input.
  template <int kPixels>
  FORMWORK_ISA_INLINE static void Pixels(const ConvShape& s, const Image& image, int64_t oh,
                                         int64_t ow, TapRange rows, TapRange cols,
                                         const BlockEpilogue<T, kBytes>& epilogue) {
    const int64_t channels = s.in_channels;
    AnyTaps<T, kBytes, kPixels>(
        TapRows(rows, cols), cols.end - cols.begin, s.rows.dilation * s.cols.input * channels,
        s.cols.dilation * channels, s.cols.stride * channels, s.cols.taps * channels, channels,
        FirstTap(s, image.in, oh, ow, rows, cols),
        image.filter + (rows.begin * s.cols.taps + cols.begin) * channels, epilogue,
        image.out + (oh * s.cols.output + ow) * channels);
  }

  FORMWORK_ISA_INLINE static void FewChannels(const ConvShape& s, const Image& image, int64_t begin,
                                              int64_t end, int64_t c, int64_t count,
                                              const DepthwiseEpilogue<T>& epilogue) {
    const int64_t channels = s.in_channels;
    const Image from = image.From(c);
    for (int64_t oh = begin; oh < end; ++oh) {
      const TapRange rows = TapsWithin(s.rows, oh);
      for (int64_t ow = 0; ow < s.cols.output; ++ow) {
        const TapRange cols = TapsWithin(s.cols, ow);
        OnePixel<T>(TapRows(rows, cols), cols.end - cols.begin,
                    s.rows.dilation * s.cols.input * channels, s.cols.dilation * channels,
                    s.cols.taps * channels, channels, count,
                    FirstTap(s, from.in, oh, ow, rows, cols),
                    from.filter + (rows.begin * s.cols.taps + cols.begin) * channels, epilogue,
                    from.out + (oh * s.cols.output + ow) * channels);
      }
    }
  }

  /// 0 where no tap of a row is within.
  FORMWORK_ISA_INLINE static int64_t TapRows(TapRange rows, TapRange cols) {
    return cols.end == cols.begin ? 0 : rows.end - rows.begin;
  }
  /// The input of an output's first tap; where it has none, that would lie outside of the input,
  /// and is the input's first.
  FORMWORK_ISA_INLINE static const T* FirstTap(const ConvShape& s, const T* in, int64_t oh,
                                               int64_t ow, TapRange rows, TapRange cols) {
    if (rows.end == rows.begin || cols.end == cols.begin) return in;
    const int64_t row = oh * s.rows.stride - s.rows.pad_before + rows.begin * s.rows.dilation;
    const int64_t col = ow * s.cols.stride - s.cols.pad_before + cols.begin * s.cols.dilation;
    return in + (row * s.cols.input + col) * s.in_channels;
  }
};

}  // namespace

template <typename T>
void DepthwiseForward(const ConvShape& shape, const T* input, const T* filter,
                      const DepthwiseEpilogue<T>& epilogue, T* output) {
  if (IsOfFewChannels(shape)) {
    return DepthwiseFewChannels(shape, input, filter, epilogue, output);
  }
  ParallelFor(shape.batch * shape.rows.output, RowGrain(shape, shape.cols.output),
              [&](int64_t begin, int64_t end) {
                ForBlocksOfHost<ForwardRows, T>(&shape, input, filter, &epilogue, output, begin,
                                                end);
              });
}

template void DepthwiseForward<float>(const ConvShape&, const float*, const float*,
                                      const DepthwiseEpilogue<float>&, float*);
template void DepthwiseForward<double>(const ConvShape&, const double*, const double*,
                                       const DepthwiseEpilogue<double>&, double*);

}  // namespace formwork
