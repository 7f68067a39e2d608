#include "core/kernels/conv/conv_gemm.h"

#include <algorithm>
#include <cstring>

#include "core/base/parallel.h"
#include "core/base/stop_flag.h"
#include "core/kernels/gemm/gemm.h"

namespace formwork {
namespace {

constexpr int64_t kPieceElements = int64_t{1} << 18;  // About what stays in a second-level cache.

int64_t PatchElements(const ConvShape& s) { return s.rows.taps * s.cols.taps * s.in_group(); }

int64_t PixelsPerPiece(const ConvShape& s) {
  return std::clamp<int64_t>(kPieceElements / PatchElements(s), 1, s.rows.output * s.cols.output);
}

/// Calls body(tap, address within the image, elements) for each run of elements that lies in the
/// image, and gap(tap, elements) for each that does not, over the patch of output pixel `pixel`.
template <typename Run, typename Gap>
inline void ForEachRun(const ConvShape& s, int64_t group, int64_t pixel, Run run, Gap gap) {
  const int64_t depth = s.in_group();
  const int64_t top = pixel / s.cols.output * s.rows.stride - s.rows.pad_before;
  const int64_t left = pixel % s.cols.output * s.cols.stride - s.cols.pad_before;
  int64_t at = 0;
  for (int64_t i = 0; i < s.rows.taps; ++i) {
    const int64_t row = top + i * s.rows.dilation;
    if (row < 0 || row >= s.rows.input) {
      gap(at, s.cols.taps * depth);
      at += s.cols.taps * depth;
      continue;
    }
    for (int64_t j = 0; j < s.cols.taps; ++j, at += depth) {
      const int64_t col = left + j * s.cols.dilation;
      if (col < 0 || col >= s.cols.input) {
        gap(at, depth);
      } else {
        run(at, (row * s.cols.input + col) * s.in_channels + group * depth, depth);
      }
    }
  }
}

template <typename T>
void GatherPatches(const ConvShape& s, int64_t group, int64_t first, int64_t count, const T* image,
                   T* patches) {
  const int64_t patch = PatchElements(s);
  ParallelFor(count, std::max<int64_t>(1, 65536 / patch), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      T* out = patches + p * patch;
      ForEachRun(
          s, group, first + p,
          [&](int64_t at, int64_t from, int64_t n) { std::copy_n(image + from, n, out + at); },
          [&](int64_t at, int64_t n) { std::fill_n(out + at, n, T(0)); });
    }
  });
}

/// The reverse: adds patches into the image. Patches overlap, so it is one thread's work.
template <typename T>
void AddPatches(const ConvShape& s, int64_t group, int64_t first, int64_t count, const T* patches,
                T* image) {
  const int64_t patch = PatchElements(s);
  for (int64_t p = 0; p < count; ++p) {
    const T* in = patches + p * patch;
    ForEachRun(
        s, group, first + p,
        [&](int64_t at, int64_t to, int64_t n) {
          for (int64_t c = 0; c < n; ++c) image[to + c] += in[at + c];
        },
        [](int64_t, int64_t) {});
  }
}

/// Calls body(image, group, first pixel, pixels) for pieces that cover all of the output.
template <typename Body>
void ForEachPiece(const ConvShape& s, Body body) {
  const int64_t pixels = s.rows.output * s.cols.output;
  const int64_t step = PixelsPerPiece(s);
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t g = 0; g < s.groups; ++g) {
      for (int64_t first = 0; first < pixels; first += step) {
        if (WorkIsCut()) return;
        body(n, g, first, std::min(step, pixels - first));
      }
    }
  }
}

}  // namespace

int64_t ConvGemmScratch(const ConvShape& shape) {
  if (shape.rows.output == 0 || shape.cols.output == 0 || shape.is_pointwise()) return 0;
  return PixelsPerPiece(shape) * PatchElements(shape);
}

template <typename T>
void ConvGemmForward(const ConvShape& s, const T* input, const T* filter, T* output, T* scratch) {
  if (s.output_elements() == 0) return;
  if (s.is_pointwise()) {
    Gemm(false, false, s.batch * s.rows.output * s.cols.output, s.out_channels, s.in_channels,
         input, s.in_channels, filter, s.out_channels, T(0), output, s.out_channels);
    return;
  }
  const int64_t patch = PatchElements(s);
  const int64_t in_image = s.rows.input * s.cols.input * s.in_channels;
  const int64_t out_pixels = s.rows.output * s.cols.output;
  ForEachPiece(s, [&](int64_t n, int64_t g, int64_t first, int64_t count) {
    GatherPatches(s, g, first, count, input + n * in_image, scratch);
    Gemm(false, false, count, s.out_group(), patch, scratch, patch, filter + g * s.out_group(),
         s.out_channels, T(0),
         output + (n * out_pixels + first) * s.out_channels + g * s.out_group(), s.out_channels);
  });
}

template <typename T>
void Zero(T* x, int64_t n) {
  ParallelFor(n, 1 << 17, [x](int64_t begin, int64_t end) { std::fill(x + begin, x + end, T(0)); });
}

template <typename T>
void ConvGemmInputGradient(const ConvShape& s, const T* filter, const T* out_backprop,
                           T* in_backprop, T* scratch) {
  if (s.output_elements() > 0 && s.is_pointwise()) {
    Gemm(false, true, s.batch * s.rows.output * s.cols.output, s.in_channels, s.out_channels,
         out_backprop, s.out_channels, filter, s.out_channels, T(0), in_backprop, s.in_channels);
    return;
  }
  Zero(in_backprop, s.input_elements());
  if (s.output_elements() == 0) return;
  const int64_t patch = PatchElements(s);
  const int64_t in_image = s.rows.input * s.cols.input * s.in_channels;
  const int64_t out_pixels = s.rows.output * s.cols.output;
  ForEachPiece(s, [&](int64_t n, int64_t g, int64_t first, int64_t count) {
    Gemm(false, true, count, patch, s.out_group(),
         out_backprop + (n * out_pixels + first) * s.out_channels + g * s.out_group(),
         s.out_channels, filter + g * s.out_group(), s.out_channels, T(0), scratch, patch);
    AddPatches(s, g, first, count, scratch, in_backprop + n * in_image);
  });
}

template <typename T>
void ConvGemmFilterGradient(const ConvShape& s, const T* input, const T* out_backprop,
                            T* filter_backprop, T* scratch) {
  if (s.output_elements() == 0) {
    Zero(filter_backprop, s.filter_elements());
    return;
  }
  if (s.is_pointwise()) {
    Gemm(true, false, s.in_channels, s.out_channels, s.batch * s.rows.output * s.cols.output, input,
         s.in_channels, out_backprop, s.out_channels, T(0), filter_backprop, s.out_channels);
    return;
  }
  Zero(filter_backprop, s.filter_elements());
  const int64_t patch = PatchElements(s);
  const int64_t in_image = s.rows.input * s.cols.input * s.in_channels;
  const int64_t out_pixels = s.rows.output * s.cols.output;
  ForEachPiece(s, [&](int64_t n, int64_t g, int64_t first, int64_t count) {
    GatherPatches(s, g, first, count, input + n * in_image, scratch);
    Gemm(true, false, patch, s.out_group(), count, scratch, patch,
         out_backprop + (n * out_pixels + first) * s.out_channels + g * s.out_group(),
         s.out_channels, T(1), filter_backprop + g * s.out_group(), s.out_channels);
  });
}

#define FORMWORK_CONV_GEMM(T)                                                           \
  template void ConvGemmForward<T>(const ConvShape&, const T*, const T*, T*, T*);       \
  template void ConvGemmInputGradient<T>(const ConvShape&, const T*, const T*, T*, T*); \
  template void ConvGemmFilterGradient<T>(const ConvShape&, const T*, const T*, T*, T*);
FORMWORK_CONV_GEMM(float)
FORMWORK_CONV_GEMM(double)
FORMWORK_CONV_GEMM(uint32_t)
#undef FORMWORK_CONV_GEMM

}  // namespace formwork
