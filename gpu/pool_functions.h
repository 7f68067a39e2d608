// What kernels do for one element of pooled images and of their gradients: compiled for GPUs at run
// time, from this text behind those of image_functions.h and element_access.h, and by the host's
// compiler for the op cases. Gradients are gathered: an element asks the windows that it lies in,
// so that nothing is added by two threads, and in the order in which the CPU adds.
#ifndef __CUDACC_RTC__
#pragma once
#include "gpu/element_access.h"
#include "gpu/image_functions.h"
#endif

namespace formwork_element {

// Where windows lie along one dimension: window o begins at o * stride - pad.
struct PoolAxis {
  int64_t input, output, taps, stride, pad;

  // Of what lies within the image.
  FORMWORK_ELEMENT int64_t Begin(int64_t o) const {
    const int64_t begin = o * stride - pad;
    return begin < 0 ? 0 : begin;
  }
  FORMWORK_ELEMENT int64_t End(int64_t o) const {
    const int64_t end = o * stride - pad + taps;
    return end < input ? end : input;
  }
  // The windows that x lies in.
  FORMWORK_ELEMENT int64_t FirstWith(int64_t x) const {
    return x + pad < taps ? 0 : (x + pad - taps) / stride + 1;
  }
  FORMWORK_ELEMENT int64_t BehindWith(int64_t x) const {
    const int64_t behind = (x + pad) / stride + 1;
    return behind < output ? behind : output;
  }
};

struct PoolSizes {
  int64_t channels;
  bool channels_first;
  PoolAxis rows, cols;

  FORMWORK_ELEMENT Images Inputs() const {
    return {rows.input, cols.input, channels, channels_first};
  }
  FORMWORK_ELEMENT Images Outputs() const {
    return {rows.output, cols.output, channels, channels_first};
  }
  // Of the image and channel of p.
  FORMWORK_ELEMENT int64_t InputAt(const ImagePlace& p, int64_t row, int64_t col) const {
    return Inputs().At({p.image, row, col, p.channel});
  }
  FORMWORK_ELEMENT int64_t OutputAt(const ImagePlace& p, int64_t row, int64_t col) const {
    return Outputs().At({p.image, row, col, p.channel});
  }
};

// What a window's largest element starts from: the lowest that is finite.
template <typename E>
struct LowestOf {
  static FORMWORK_ELEMENT E Value() {
    constexpr bool kSigned = static_cast<E>(-1) < E(0);
    return kSigned ? static_cast<E>(uint64_t(1) << (8 * sizeof(E) - 1)) : E(0);
  }
};
template <>
struct LowestOf<float> {
  static FORMWORK_ELEMENT float Value() { return -3.402823466e+38f; }
};
template <>
struct LowestOf<double> {
  static FORMWORK_ELEMENT double Value() { return -1.7976931348623157e+308; }
};
template <>
struct LowestOf<half> {
  static FORMWORK_ELEMENT float Value() { return -65504.0f; }
};
template <>
struct LowestOf<bfloat16> {
  static FORMWORK_ELEMENT float Value() { return -3.3895313892515355e+38f; }
};

// MaxPool: an item is an element of the output. NaN is passed over.
template <typename E>
struct MaxPoolItem {
  const E* in;
  E* out;
  PoolSizes sizes;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const ImagePlace p = sizes.Outputs().PlaceOf(i);
    auto largest = LowestOf<E>::Value();
    for (int64_t y = sizes.rows.Begin(p.row); y < sizes.rows.End(p.row); ++y) {
      for (int64_t x = sizes.cols.Begin(p.col); x < sizes.cols.End(p.col); ++x) {
        const auto element = Widen(in[sizes.InputAt(p, y, x)]);
        if (element > largest) largest = element;
      }
    }
    out[i] = Narrow<E>::Of(largest);
  }
};

// MaxPoolGrad: an item is an element of the input. A window's gradient goes to the first of its
// largest elements, or to the first of all where that is NaN; `relu`: only where it is above 0.
template <typename E>
struct MaxPoolGradItem {
  const E* in;
  const E* grad;
  E* out;
  PoolSizes sizes;
  bool relu;

  template <typename C>
  FORMWORK_ELEMENT bool IsOfWindow(const ImagePlace& p, C value, int64_t row, int64_t col) const {
    const int64_t top = sizes.rows.Begin(row), left = sizes.cols.Begin(col);
    const C first = Widen(in[sizes.InputAt(p, top, left)]);
    if (first != first) return p.row == top && p.col == left;
    bool before = true;
    for (int64_t y = top; y < sizes.rows.End(row); ++y) {
      for (int64_t x = left; x < sizes.cols.End(col); ++x) {
        if (y == p.row && x == p.col) {
          before = false;
          continue;
        }
        const C other = Widen(in[sizes.InputAt(p, y, x)]);
        if (before ? other >= value : other > value) return false;
      }
    }
    return value == value;
  }

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const ImagePlace p = sizes.Inputs().PlaceOf(i);
    const auto value = Widen(in[i]);
    typedef decltype(Widen(E())) C;
    C sum = C(0);
    if (!relu || value > C(0)) {
      const int64_t behind_rows = sizes.rows.BehindWith(p.row);
      const int64_t behind_cols = sizes.cols.BehindWith(p.col);
      for (int64_t row = sizes.rows.FirstWith(p.row); row < behind_rows; ++row) {
        for (int64_t col = sizes.cols.FirstWith(p.col); col < behind_cols; ++col) {
          if (!IsOfWindow<C>(p, value, row, col)) continue;
          sum = Add(sum, C(Widen(grad[sizes.OutputAt(p, row, col)])));
        }
      }
    }
    out[i] = Narrow<E>::Of(sum);
  }
};

// AvgPool: an item is an element of the output, the mean of what lies within the image.
template <typename E>
struct AvgPoolItem {
  const E* in;
  E* out;
  PoolSizes sizes;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    typedef decltype(Widen(E())) C;
    const ImagePlace p = sizes.Outputs().PlaceOf(i);
    const int64_t top = sizes.rows.Begin(p.row), bottom = sizes.rows.End(p.row);
    const int64_t left = sizes.cols.Begin(p.col), right = sizes.cols.End(p.col);
    C sum = C(0);
    for (int64_t y = top; y < bottom; ++y) {
      for (int64_t x = left; x < right; ++x) sum = sum + Widen(in[sizes.InputAt(p, y, x)]);
    }
    const bool any = bottom > top && right > left;
    out[i] = Narrow<E>::Of(sum / static_cast<C>(any ? (bottom - top) * (right - left) : 0));
  }
};

// AvgPoolGrad: an item is an element of the input.
template <typename E>
struct AvgPoolGradItem {
  const E* grad;
  E* out;
  PoolSizes sizes;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    typedef decltype(Widen(E())) C;
    const ImagePlace p = sizes.Inputs().PlaceOf(i);
    const int64_t behind_rows = sizes.rows.BehindWith(p.row);
    const int64_t behind_cols = sizes.cols.BehindWith(p.col);
    C sum = C(0);
    for (int64_t row = sizes.rows.FirstWith(p.row); row < behind_rows; ++row) {
      const int64_t height = sizes.rows.End(row) - sizes.rows.Begin(row);
      for (int64_t col = sizes.cols.FirstWith(p.col); col < behind_cols; ++col) {
        const int64_t width = sizes.cols.End(col) - sizes.cols.Begin(col);
        const C share = C(1) / static_cast<C>(height * width);
        sum = sum + Widen(grad[sizes.OutputAt(p, row, col)]) * share;
      }
    }
    out[i] = Narrow<E>::Of(sum);
  }
};

}  // namespace formwork_element
