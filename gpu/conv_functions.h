// What kernels do for one item of convolutions and of their gradients: compiled for GPUs at run
// time, from this text behind those of image_functions.h and element_access.h, and by the host's
// compiler for the op cases. Images as matrices of patches, for products by the filter, and back;
// and convolutions item by item, where there is no such product. Nothing is added by two threads.
#ifndef __CUDACC_RTC__
#pragma once
#include "gpu/element_access.h"
#include "gpu/image_functions.h"
#endif

namespace formwork_element {

// Along one dimension output o and tap k read input o * stride - pad + k * dilation.
struct ConvLine {
  int64_t input, output, taps, stride, dilation, pad;

  // -1 where there is none, here and below.
  FORMWORK_ELEMENT int64_t InputOf(int64_t o, int64_t tap) const {
    const int64_t x = o * stride - pad + tap * dilation;
    return x < input ? x : -1;  // -1 or less where it lies before.
  }
  FORMWORK_ELEMENT int64_t OutputOf(int64_t x, int64_t tap) const {
    const int64_t at = x + pad - tap * dilation;
    if (at < 0) return -1;
    const int64_t o = stride == 1 ? at
                                  : static_cast<int64_t>(DividedBy(static_cast<uint64_t>(at),
                                                                   static_cast<uint64_t>(stride)));
    return o < output && o * stride == at ? o : -1;
  }
};

// The filter is [rows.taps, cols.taps, in_group, out_channels].
struct ConvSizes {
  int64_t in_channels, out_channels, in_group, out_group;
  bool channels_first;
  ConvLine rows, cols;

  FORMWORK_ELEMENT Images Inputs() const {
    return {rows.input, cols.input, in_channels, channels_first};
  }
  FORMWORK_ELEMENT Images Outputs() const {
    return {rows.output, cols.output, out_channels, channels_first};
  }
  // `take(tap, row, col)` of each tap of the filter by which output p reads the input, and where.
  template <typename Take>
  FORMWORK_ELEMENT void ForInputsOf(const ImagePlace& p, Take take) const {
    ForTaps(
        p, [](const ConvLine& line, int64_t at, int64_t tap) { return line.InputOf(at, tap); },
        take);
  }
  // Of each by which an output reads input p, and which one.
  template <typename Take>
  FORMWORK_ELEMENT void ForOutputsOf(const ImagePlace& p, Take take) const {
    ForTaps(
        p, [](const ConvLine& line, int64_t at, int64_t tap) { return line.OutputOf(at, tap); },
        take);
  }

  // Of each by which `find(line, at, tap)` finds something in both dimensions.
  template <typename Find, typename Take>
  FORMWORK_ELEMENT void ForTaps(const ImagePlace& p, Find find, Take take) const {
    for (int64_t r = 0; r < rows.taps; ++r) {
      const int64_t row = find(rows, p.row, r);
      if (row < 0) continue;
      for (int64_t c = 0; c < cols.taps; ++c) {
        const int64_t col = find(cols, p.col, c);
        if (col >= 0) take(r * cols.taps + c, row, col);
      }
    }
  }
};

// Images, channels last, as a matrix of a row for each pixel of the output: [rows.taps, cols.taps,
// channels], zeros where that is beside the image. An item is so many elements that lie together.
template <typename Unit>
struct PatchItem {
  const Unit* in;
  Unit* patches;   // From row `first` on.
  uint64_t units;  // Of a pixel.
  uint64_t first;
  ConvLine rows, cols;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const uint64_t line = DividedBy(i, units), width = static_cast<uint64_t>(cols.taps);
    const uint64_t taps = static_cast<uint64_t>(rows.taps) * width;
    const uint64_t patch = DividedBy(line, taps), tap = line - patch * taps;
    const int64_t row_tap = static_cast<int64_t>(DividedBy(tap, width));
    const int64_t col_tap = static_cast<int64_t>(tap) - row_tap * cols.taps;
    const ImagePlace p = Images{rows.output, cols.output, 1, false}.PlaceOf(first + patch);
    const int64_t row = rows.InputOf(p.row, row_tap), col = cols.InputOf(p.col, col_tap);
    const int64_t unit = static_cast<int64_t>(i - line * units);
    patches[i] = row < 0 || col < 0
                     ? Unit()
                     : in[Images{rows.input, cols.input, static_cast<int64_t>(units), false}.At(
                           {p.image, row, col, unit})];
  }
};

// The gradient of PatchItem: an item is an element of the input. `adds`: to what is there.
template <typename E>
struct UnpatchItem {
  const E* patches;  // From row `first_row` on, `count` of them.
  E* out;            // From image `first_image` on.
  int64_t first_row, count, first_image;
  ConvSizes sizes;
  bool adds;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    typedef decltype(Widen(E())) C;
    ImagePlace p = sizes.Inputs().PlaceOf(i);
    p.image += first_image;
    C sum = adds ? C(Widen(out[i])) : C(0);
    sizes.ForOutputsOf(p, [&](int64_t tap, int64_t row, int64_t col) {
      const int64_t patch =
          (p.image * sizes.rows.output + row) * sizes.cols.output + col - first_row;
      if (patch < 0 || patch >= count) return;
      const int64_t at = patch * sizes.rows.taps * sizes.cols.taps + tap;
      sum += Widen(patches[at * sizes.in_channels + p.channel]);
    });
    out[i] = Narrow<E>::Of(sum);
  }
};

// What a convolution goes on to do to its result (core/ops/epilogue.h). Null: nothing.
template <typename E>
struct ConvEpilogue {
  const E* scale;
  const E* bias;
  const E* residual;
  int32_t activation;  // As enum Activation counts them.

  template <typename C>
  FORMWORK_ELEMENT C Of(C x, uint64_t i, int64_t channel) const {
    if (scale != nullptr) x *= Widen(scale[channel]);
    if (bias != nullptr) x += Widen(bias[channel]);
    if (residual != nullptr) x += Widen(residual[i]);
    switch (activation) {
      case 1:
        return x > C(0) ? x : C(0);
      case 2:
        return Relu6(x);
      case 3:
        return x * C(0.5) * erfc(x * C(-0.70710678118654752440));
      default:
        return x;
    }
  }
};

// An item is an element of the output.
template <typename E>
struct ConvItem {
  const E* in;
  const E* filter;
  E* out;
  ConvEpilogue<E> epilogue;
  ConvSizes sizes;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    typedef decltype(Widen(E())) C;
    const ImagePlace p = sizes.Outputs().PlaceOf(i);
    const Images inputs = sizes.Inputs();
    const int64_t group = p.channel / sizes.out_group, channel = group * sizes.in_group;
    const int64_t step = inputs.At({0, 0, 0, 1});
    C sum = C(0);
    sizes.ForInputsOf(p, [&](int64_t tap, int64_t row, int64_t col) {
      const E* x = in + inputs.At({p.image, row, col, channel});
      const E* w = filter + tap * sizes.in_group * sizes.out_channels;
      for (int64_t k = 0; k < sizes.in_group; ++k) {
        sum += Widen(x[k * step]) * Widen(w[k * sizes.out_channels + p.channel]);
      }
    });
    out[i] = Narrow<E>::Of(epilogue.Of(sum, i, p.channel));
  }
};

// Its gradient by the input: an item is an element of that.
template <typename E>
struct ConvInputItem {
  const E* dy;
  const E* filter;
  E* out;
  ConvSizes sizes;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    typedef decltype(Widen(E())) C;
    const ImagePlace p = sizes.Inputs().PlaceOf(i);
    const Images outputs = sizes.Outputs();
    const int64_t group = p.channel / sizes.in_group, channel = group * sizes.out_group;
    const int64_t step = outputs.At({0, 0, 0, 1});
    C sum = C(0);
    sizes.ForOutputsOf(p, [&](int64_t tap, int64_t row, int64_t col) {
      const int64_t in_channel = tap * sizes.in_group + p.channel - group * sizes.in_group;
      const E* y = dy + outputs.At({p.image, row, col, channel});
      const E* w = filter + in_channel * sizes.out_channels;
      for (int64_t k = 0; k < sizes.out_group; ++k) {
        sum += Widen(y[k * step]) * Widen(w[channel + k]);
      }
    });
    out[i] = Narrow<E>::Of(sum);
  }
};

// Its gradient by the filter. An item is a part of an element's sum: every so-manieth pixel of the
// output.
template <typename E>
struct ConvFilterItem {
  const E* in;
  const E* dy;
  double* sums;  // [parts, the filter's elements]
  int64_t pixels, parts;
  ConvSizes sizes;

  FORMWORK_ELEMENT int64_t Elements() const {
    return sizes.rows.taps * sizes.cols.taps * sizes.in_group * sizes.out_channels;
  }
  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    typedef decltype(Widen(E())) C;
    const uint64_t elements = static_cast<uint64_t>(Elements());
    const int64_t part = static_cast<int64_t>(DividedBy(i, elements));
    // The filter's element as a pixel of an image.
    const ImagePlace f =
        Images{sizes.rows.taps, sizes.cols.taps * sizes.in_group, sizes.out_channels, false}
            .PlaceOf(i - static_cast<uint64_t>(part) * elements);
    const int64_t tap = f.col / sizes.in_group;
    const int64_t channel =
        f.channel / sizes.out_group * sizes.in_group + f.col - tap * sizes.in_group;
    const Images inputs = sizes.Inputs(), outputs = sizes.Outputs();
    const Images pixel{sizes.rows.output, sizes.cols.output, 1, false};
    double sum = 0;
    for (int64_t at = part; at < pixels;) {
      C run = C(0);
      for (int64_t k = 0; k < kFloatRun && at < pixels; ++k, at += parts) {
        const ImagePlace o = pixel.PlaceOf(static_cast<uint64_t>(at));
        const int64_t row = sizes.rows.InputOf(o.row, f.row);
        const int64_t col = sizes.cols.InputOf(o.col, tap);
        if (row < 0 || col < 0) continue;
        run += Widen(in[inputs.At({o.image, row, col, channel})]) *
               Widen(dy[outputs.At({o.image, o.row, o.col, f.channel})]);
      }
      sum += static_cast<double>(run);
    }
    sums[i] = sum;
  }
};
// An item is an element of the filter.
template <typename E>
struct ConvFilterSumItem {
  const double* sums;
  E* out;
  uint64_t elements;
  int64_t parts;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    typedef decltype(Widen(E())) C;
    double sum = 0;
    for (int64_t part = 0; part < parts; ++part) {
      sum += sums[static_cast<uint64_t>(part) * elements + i];
    }
    out[i] = Narrow<E>::Of(static_cast<C>(sum));
  }
};

}  // namespace formwork_element
