#include "core/kernels/conv/pool_loops.h"

#include <algorithm>
#include <type_traits>

#include "core/base/parallel.h"
#include "core/base/stop_flag.h"
#include "core/kernels/conv/channel_blocks.h"
#include "core/kernels/isa.h"

// Before a loop of which no iteration reads what another writes.
#if defined(__clang__)
#define FORMWORK_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define FORMWORK_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace formwork {
namespace {

constexpr int64_t kTaskElements = 64 * 1024;
constexpr int64_t kChannelBlock = 256;  // Channels for which the places of maxima are kept.

/// The part [begin, end) of a window that lies within the image.
struct Span1d {
  int64_t begin;
  int64_t end;
  int64_t size() const { return end - begin; }
};

FORMWORK_ISA_INLINE Span1d WindowWithin(const ConvAxis& a, int64_t output) {
  const int64_t start = output * a.stride - a.pad_before;
  Span1d span{std::max<int64_t>(start, 0), std::min(start + a.taps, a.input)};
  span.end = std::max(span.end, span.begin);
  return span;
}

/// Output rows [begin, end), counted over the whole batch.
int64_t Grain(double elements_each) {
  return std::max<int64_t>(1, static_cast<int64_t>(kTaskElements / std::max(elements_each, 1.0)));
}

/// What one row of the output reads.
double RowWork(const ConvShape& s) {
  return static_cast<double>(s.cols.output) * static_cast<double>(s.in_channels) *
         static_cast<double>(std::min(s.rows.taps, s.rows.input)) *
         static_cast<double>(std::min(s.cols.taps, s.cols.input));
}

/// Images are floats: loops over integers, which few pool, are compiled once, for the baseline and
/// any window.
template <typename T, typename Loop, typename... Args>
void RunLoop(Args... args) {
  if constexpr (std::is_floating_point_v<T>) {
    ForHostIsa<Loop>(args...);
  } else {
    Loop::Run(args...);
  }
}

/// The pixels of a whole window, from its first element on.
template <int kPixels>
struct WindowOffsets {
  int64_t of[kPixels];
  FORMWORK_ISA_INLINE explicit WindowOffsets(const ConvShape& s) {
    for (int k = 0; k < kPixels; ++k) {
      of[k] = (k / s.cols.taps * s.cols.input + k % s.cols.taps) * s.in_channels;
    }
  }
};

template <typename T, int kPixels>
FORMWORK_ISA_INLINE void LargestOfWindow(const WindowOffsets<kPixels>& offsets, const T* in,
                                         int64_t channels, T lowest, T* out) {
  FORMWORK_INDEPENDENT
  for (int64_t c = 0; c < channels; ++c) {
    T best = lowest;
    for (int k = 0; k < kPixels; ++k) {
      const T x = in[offsets.of[k] + c];
      best = x > best ? x : best;
    }
    out[c] = best;
  }
}

template <typename T>
struct MaxRows {
  FORMWORK_ISA_INLINE static void Run(const ConvShape* shape, const T* input, T lowest, T* output,
                                      int64_t begin, int64_t end) {
    if constexpr (std::is_floating_point_v<T>) {
      // Windows of 2x2 and 3x3 are by far the most common: their maxima stay in registers.
      switch (shape->rows.taps * shape->cols.taps) {
        case 4:
          return Rows<4>(*shape, input, lowest, output, begin, end);
        case 9:
          return Rows<9>(*shape, input, lowest, output, begin, end);
        default:
          break;
      }
    }
    Rows<1>(*shape, input, lowest, output, begin, end);
  }

  /// `kPixels`: of a whole window; 1: any number.
  template <int kPixels>
  FORMWORK_ISA_INLINE static void Rows(const ConvShape& s, const T* input, T lowest, T* output,
                                       int64_t begin, int64_t end) {
    const int64_t channels = s.in_channels;
    const WindowOffsets<kPixels> offsets(s);
    for (int64_t r = begin; r < end; ++r) {
      const Span1d rows = WindowWithin(s.rows, r % s.rows.output);
      const T* image = input + r / s.rows.output * s.rows.input * s.cols.input * channels;
      for (int64_t ow = 0; ow < s.cols.output; ++ow) {
        const Span1d cols = WindowWithin(s.cols, ow);
        T* out = output + (r * s.cols.output + ow) * channels;
        if (kPixels > 1 && rows.size() * cols.size() == kPixels) {
          const T* in = image + (rows.begin * s.cols.input + cols.begin) * channels;
          LargestOfWindow<T, kPixels>(offsets, in, channels, lowest, out);
          continue;
        }
        for (int64_t c = 0; c < channels; ++c) out[c] = lowest;
        for (int64_t ih = rows.begin; ih < rows.end; ++ih) {
          for (int64_t iw = cols.begin; iw < cols.end; ++iw) {
            const T* in = image + (ih * s.cols.input + iw) * channels;
            for (int64_t c = 0; c < channels; ++c) out[c] = in[c] > out[c] ? in[c] : out[c];
          }
        }
      }
    }
  }
};

/// Adds to each pixel of a whole window the gradients of those channels, a register of them, of
/// which it is the largest. kFirst: nothing has been added to these pixels, which need not be
/// initialised.
template <typename T, int kBytes, int kPixels, bool kFirst>
FORMWORK_ISA_INLINE void SpreadBlock(const WindowOffsets<kPixels>& offsets, const T* in, bool relu,
                                     const T* gradient, T* to) {
  using Block = typename Vector<T, kBytes>::Block;
  typedef int64_t Bits __attribute__((vector_size(kBytes)));
  // Each comparison has one reader: of one with two gcc makes a number for each channel.
  const Block zero = {};
  Block x[kPixels];
  for (int k = 0; k < kPixels; ++k) x[k] = *reinterpret_cast<const Block*>(in + offsets.of[k]);
  Block best = x[0];
  for (int k = 1; k < kPixels; ++k) best = x[k] > best ? x[k] : best;
  Block left = *reinterpret_cast<const Block*>(gradient);
  if (relu) left = best > zero ? left : zero;
  for (int k = 0; k < kPixels; ++k) {
    const Block part = k == 0 ? (x[0] < best ? zero : left) : (x[k] == best ? left : zero);
    left = (Block)((Bits)left ^ (Bits)part);  // `part` is what is left, or 0.
    Block& sum = *reinterpret_cast<Block*>(to + offsets.of[k]);
    sum = (kFirst ? zero : sum) + part;
  }
}

/// The same of all channels.
template <typename T, int kBytes, int kPixels, bool kFirst>
FORMWORK_ISA_INLINE void SpreadOverWindow(const WindowOffsets<kPixels>& offsets, const T* in,
                                          int64_t channels, bool relu, const T* gradient, T* to) {
  int64_t c = 0;
  for (; c + kBlock<T, kBytes> <= channels; c += kBlock<T, kBytes>) {
    SpreadBlock<T, kBytes, kPixels, kFirst>(offsets, in + c, relu, gradient + c, to + c);
  }
  FORMWORK_INDEPENDENT
  for (; c < channels; ++c) {
    T best = in[c];
    int32_t place = 0;
    for (int k = 1; k < kPixels; ++k) {
      const T x = in[offsets.of[k] + c];
      const bool larger = x > best;
      best = larger ? x : best;
      place = larger ? k : place;
    }
    const T through = !relu || best > T(0) ? gradient[c] : T(0);
    for (int k = 0; k < kPixels; ++k) {
      const T part = place == k ? through : T(0);
      T& sum = to[offsets.of[k] + c];
      sum = (kFirst ? T(0) : sum) + part;  // Not `part` alone: it may be -0.
    }
  }
}

/// Adds a window's gradients to what is the largest of each channel: any window.
template <typename T>
struct ScatterWindow {
  FORMWORK_ISA_INLINE static void Run(const ConvShape* shape, Span1d rows, Span1d cols, const T* in,
                                      bool relu, const T* gradient, T* to) {
    const ConvShape& s = *shape;
    const int64_t channels = s.in_channels;
    T best[kChannelBlock];
    int32_t place[kChannelBlock];
    for (int64_t c0 = 0; c0 < channels; c0 += kChannelBlock) {
      const int64_t count = std::min(kChannelBlock, channels - c0);
      const T* first = in + c0;
      for (int64_t c = 0; c < count; ++c) {
        best[c] = first[c];
        place[c] = 0;
      }
      // Places count from the window's first element, in pixels.
      for (int64_t i = 0; i < rows.size(); ++i) {
        for (int64_t j = i == 0 ? 1 : 0; j < cols.size(); ++j) {
          const int64_t pixel = i * s.cols.input + j;
          const T* x = first + pixel * channels;
          const int32_t at = static_cast<int32_t>(pixel);
          for (int64_t c = 0; c < count; ++c) {
            const bool larger = x[c] > best[c];
            best[c] = larger ? x[c] : best[c];
            place[c] = larger ? at : place[c];
          }
        }
      }
      T* corner = to + c0;
      for (int64_t c = 0; c < count; ++c) {
        if (!relu || best[c] > T(0)) corner[place[c] * channels + c] += gradient[c0 + c];
      }
    }
  }
};

/// Images [begin, end): windows may share elements, so an image is one thread's.
template <typename T, int kBytes>
struct MaxGradientImages {
  FORMWORK_ISA_INLINE static void Run(const ConvShape* shape, bool relu, const T* input,
                                      const T* out_backprop, T* in_backprop, int64_t begin,
                                      int64_t end) {
    if constexpr (std::is_floating_point_v<T>) {
      switch (shape->rows.taps * shape->cols.taps) {
        case 4:
          return Images<4>(*shape, relu, input, out_backprop, in_backprop, begin, end);
        case 9:
          return Images<9>(*shape, relu, input, out_backprop, in_backprop, begin, end);
        default:
          break;
      }
    }
    Images<1>(*shape, relu, input, out_backprop, in_backprop, begin, end);
  }

  /// `kPixels`: of a whole window; 1: any number.
  template <int kPixels>
  FORMWORK_ISA_INLINE static void Images(const ConvShape& s, bool relu, const T* input,
                                         const T* out_backprop, T* in_backprop, int64_t begin,
                                         int64_t end) {
    const int64_t channels = s.in_channels;
    const int64_t in_row = s.cols.input * channels;
    const int64_t in_image = s.rows.input * in_row;
    const int64_t out_image = s.rows.output * s.cols.output * channels;
    const int64_t rows_between_looks = Grain(RowWork(s));
    const WindowOffsets<kPixels> offsets(s);
    const bool side_by_side = s.rows.stride == s.rows.taps && s.cols.stride == s.cols.taps;
    for (int64_t n = begin; n < end; ++n) {
      const T* image = input + n * in_image;
      const T* gradients = out_backprop + n * out_image;
      T* to = in_backprop + n * in_image;
      int64_t rows_cleared = 0;
      for (int64_t oh = 0; oh < s.rows.output; ++oh) {
        if ((oh + 1) % rows_between_looks == 0 && WorkIsCut()) return;
        const Span1d rows = WindowWithin(s.rows, oh);
        // Just before the first window that reaches them, so that they are in the cache then.
        // Windows side by side are written without that.
        if (rows.end > rows_cleared) {
          if (!side_by_side) Clear(s, rows_cleared, rows.end, 0, to);
          rows_cleared = rows.end;
        }
        int64_t cols_done = 0;
        for (int64_t ow = 0; ow < s.cols.output; ++ow) {
          const Span1d cols = WindowWithin(s.cols, ow);
          if (rows.size() == 0 || cols.size() == 0) continue;
          const T* gradient = gradients + (oh * s.cols.output + ow) * channels;
          const int64_t origin = (rows.begin * s.cols.input + cols.begin) * channels;
          const bool whole = kPixels > 1 && rows.size() * cols.size() == kPixels;
          if (whole && side_by_side) {
            SpreadOverWindow<T, kBytes, kPixels, true>(offsets, image + origin, channels, relu,
                                                       gradient, to + origin);
            cols_done = cols.end;
            continue;
          }
          if (side_by_side) {
            // What is not a whole window is at an edge: it and all that follows in its rows.
            Clear(s, rows.begin, rows.end, cols_done, to);
            cols_done = s.cols.input;
          }
          if (whole) {
            SpreadOverWindow<T, kBytes, kPixels, false>(offsets, image + origin, channels, relu,
                                                        gradient, to + origin);
          } else {
            RunLoop<T, ScatterWindow<T>>(&s, rows, cols, image + origin, relu, gradient,
                                         to + origin);
          }
        }
        if (side_by_side) Clear(s, rows.begin, rows.end, cols_done, to);
      }
      Clear(s, rows_cleared, s.rows.input, 0, to);
    }
  }

  /// Rows [begin, end) of an image, from column `col` on.
  FORMWORK_ISA_INLINE static void Clear(const ConvShape& s, int64_t begin, int64_t end, int64_t col,
                                        T* image) {
    const int64_t row = s.cols.input * s.in_channels;
    for (int64_t r = begin; r < end; ++r) {
      std::fill(image + r * row + col * s.in_channels, image + (r + 1) * row, T(0));
    }
  }
};

template <typename T>
struct AverageRows {
  FORMWORK_ISA_INLINE static void Run(const ConvShape* shape, const T* input, T* output,
                                      int64_t begin, int64_t end) {
    const ConvShape& s = *shape;
    const int64_t channels = s.in_channels;
    for (int64_t r = begin; r < end; ++r) {
      const Span1d rows = WindowWithin(s.rows, r % s.rows.output);
      const T* image = input + r / s.rows.output * s.rows.input * s.cols.input * channels;
      for (int64_t ow = 0; ow < s.cols.output; ++ow) {
        const Span1d cols = WindowWithin(s.cols, ow);
        T* out = output + (r * s.cols.output + ow) * channels;
        int64_t c = 0;
        for (; c + kLanes <= channels; c += kLanes) Average<kLanes>(s, rows, cols, image, c, out);
        for (; c + kFewLanes <= channels; c += kFewLanes) {
          Average<kFewLanes>(s, rows, cols, image, c, out);
        }
        for (; c < channels; ++c) Average<1>(s, rows, cols, image, c, out);
      }
    }
  }

  static constexpr int64_t kLanes = 64 / static_cast<int64_t>(sizeof(T));
  static constexpr int64_t kFewLanes = kLanes / 4;

  /// kCount channels from c0 on, held in registers.
  template <int64_t kCount>
  FORMWORK_ISA_INLINE static void Average(const ConvShape& s, const Span1d& rows,
                                          const Span1d& cols, const T* image, int64_t c0, T* out) {
    T sum[kCount] = {};
    for (int64_t ih = rows.begin; ih < rows.end; ++ih) {
      for (int64_t iw = cols.begin; iw < cols.end; ++iw) {
        const T* in = image + (ih * s.cols.input + iw) * s.in_channels + c0;
        for (int64_t c = 0; c < kCount; ++c) sum[c] += in[c];
      }
    }
    const T count = static_cast<T>(rows.size() * cols.size());
    for (int64_t c = 0; c < kCount; ++c) out[c0 + c] = sum[c] / count;
  }
};

template <typename T>
struct AverageGradientImages {
  FORMWORK_ISA_INLINE static void Run(const ConvShape* shape, const T* out_backprop, T* in_backprop,
                                      int64_t begin, int64_t end) {
    const ConvShape& s = *shape;
    const int64_t channels = s.in_channels;
    const int64_t in_image = s.rows.input * s.cols.input * channels;
    const int64_t out_image = s.rows.output * s.cols.output * channels;
    const int64_t rows_between_looks = Grain(RowWork(s));
    for (int64_t n = begin; n < end; ++n) {
      T* to = in_backprop + n * in_image;
      for (int64_t i = 0; i < in_image; ++i) to[i] = T(0);
      for (int64_t oh = 0; oh < s.rows.output; ++oh) {
        if ((oh + 1) % rows_between_looks == 0 && WorkIsCut()) return;
        const Span1d rows = WindowWithin(s.rows, oh);
        for (int64_t ow = 0; ow < s.cols.output; ++ow) {
          const Span1d cols = WindowWithin(s.cols, ow);
          if (rows.size() == 0 || cols.size() == 0) continue;
          const T share = T(1) / static_cast<T>(rows.size() * cols.size());
          const T* gradient = out_backprop + n * out_image + (oh * s.cols.output + ow) * channels;
          for (int64_t ih = rows.begin; ih < rows.end; ++ih) {
            for (int64_t iw = cols.begin; iw < cols.end; ++iw) {
              T* in = to + (ih * s.cols.input + iw) * channels;
              for (int64_t c = 0; c < channels; ++c) in[c] += gradient[c] * share;
            }
          }
        }
      }
    }
  }
};

}  // namespace

template <typename T>
void MaxPoolForward(const ConvShape& shape, const T* input, T lowest, T* output) {
  ParallelFor(shape.batch * shape.rows.output, Grain(RowWork(shape)),
              [&](int64_t begin, int64_t end) {
                RunLoop<T, MaxRows<T>>(&shape, input, lowest, output, begin, end);
              });
}

template <typename T>
void MaxPoolInputGradient(const ConvShape& shape, bool relu, const T* input, const T* out_backprop,
                          T* in_backprop) {
  ParallelFor(shape.batch, Grain(RowWork(shape) * static_cast<double>(shape.rows.output)),
              [&](int64_t begin, int64_t end) {
                if constexpr (std::is_floating_point_v<T>) {
                  ForBlocksOfHost<MaxGradientImages, T>(&shape, relu, input, out_backprop,
                                                        in_backprop, begin, end);
                } else {
                  MaxGradientImages<T, 16>::Run(&shape, relu, input, out_backprop, in_backprop,
                                                begin, end);
                }
              });
}

template <typename T>
void AvgPoolForward(const ConvShape& shape, const T* input, T* output) {
  ParallelFor(shape.batch * shape.rows.output, Grain(RowWork(shape)),
              [&](int64_t begin, int64_t end) {
                ForHostIsa<AverageRows<T>>(&shape, input, output, begin, end);
              });
}

template <typename T>
void AvgPoolInputGradient(const ConvShape& shape, const T* out_backprop, T* in_backprop) {
  ParallelFor(shape.batch, Grain(RowWork(shape) * static_cast<double>(shape.rows.output)),
              [&](int64_t begin, int64_t end) {
                ForHostIsa<AverageGradientImages<T>>(&shape, out_backprop, in_backprop, begin, end);
              });
}

#define FORMWORK_MAX_POOL(T)                                          \
  template void MaxPoolForward<T>(const ConvShape&, const T*, T, T*); \
  template void MaxPoolInputGradient<T>(const ConvShape&, bool, const T*, const T*, T*);
FORMWORK_MAX_POOL(float)
FORMWORK_MAX_POOL(double)
FORMWORK_MAX_POOL(int8_t)
FORMWORK_MAX_POOL(int16_t)
FORMWORK_MAX_POOL(int32_t)
FORMWORK_MAX_POOL(int64_t)
FORMWORK_MAX_POOL(uint8_t)
FORMWORK_MAX_POOL(uint16_t)
FORMWORK_MAX_POOL(uint32_t)
FORMWORK_MAX_POOL(uint64_t)
#undef FORMWORK_MAX_POOL

template void AvgPoolForward<float>(const ConvShape&, const float*, float*);
template void AvgPoolForward<double>(const ConvShape&, const double*, double*);
template void AvgPoolInputGradient<float>(const ConvShape&, const float*, float*);
template void AvgPoolInputGradient<double>(const ConvShape&, const double*, double*);

}  // namespace formwork
