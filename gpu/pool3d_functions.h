// What kernels do for one element of pooled volumes and of their gradients: compiled for GPUs at
// run time, from this text behind that of pool_functions.h, and by the host's compiler for the op
// cases. Gradients are gathered, in the order in which the CPU adds.
#ifndef __CUDACC_RTC__
#pragma once
#include "gpu/pool_functions.h"
#endif

namespace formwork_element {

// Volumes are [batch, planes, rows, cols, channels].
struct Pool3dPlace {
  int64_t image, plane, row, col, channel;
};
struct Pool3dSizes {
  int64_t channels;
  PoolAxis planes, rows, cols;

  // Of element i of a volume with as many planes, rows and cols.
  FORMWORK_ELEMENT Pool3dPlace PlaceOf(uint64_t i, int64_t depth, int64_t height,
                                       int64_t width) const {
    const uint64_t pixel = DividedBy(i, static_cast<uint64_t>(channels));
    const uint64_t line = DividedBy(pixel, static_cast<uint64_t>(width));
    const uint64_t plane = DividedBy(line, static_cast<uint64_t>(height));
    const uint64_t image = DividedBy(plane, static_cast<uint64_t>(depth));
    return {static_cast<int64_t>(image),
            static_cast<int64_t>(plane) - static_cast<int64_t>(image) * depth,
            static_cast<int64_t>(line) - static_cast<int64_t>(plane) * height,
            static_cast<int64_t>(pixel) - static_cast<int64_t>(line) * width,
            static_cast<int64_t>(i) - static_cast<int64_t>(pixel) * channels};
  }
  FORMWORK_ELEMENT Pool3dPlace InputPlace(uint64_t i) const {
    return PlaceOf(i, planes.input, rows.input, cols.input);
  }
  FORMWORK_ELEMENT Pool3dPlace OutputPlace(uint64_t i) const {
    return PlaceOf(i, planes.output, rows.output, cols.output);
  }
  // Of the image and channel of p.
  FORMWORK_ELEMENT int64_t InputAt(const Pool3dPlace& p, int64_t z, int64_t y, int64_t x) const {
    return (((p.image * planes.input + z) * rows.input + y) * cols.input + x) * channels +
           p.channel;
  }
  FORMWORK_ELEMENT int64_t OutputAt(const Pool3dPlace& p, int64_t z, int64_t y, int64_t x) const {
    return (((p.image * planes.output + z) * rows.output + y) * cols.output + x) * channels +
           p.channel;
  }
  // The elements of a window that are there.
  FORMWORK_ELEMENT int64_t CountOf(int64_t plane, int64_t row, int64_t col) const {
    return LengthOf(planes, plane) * LengthOf(rows, row) * LengthOf(cols, col);
  }
  static FORMWORK_ELEMENT int64_t LengthOf(const PoolAxis& axis, int64_t o) {
    const int64_t length = axis.End(o) - axis.Begin(o);
    return length > 0 ? length : 0;
  }

  // use(place in the input) for all that lie in the window.
  template <typename Use>
  FORMWORK_ELEMENT void ForWindow(const Pool3dPlace& p, Use use) const {
    for (int64_t z = planes.Begin(p.plane); z < planes.End(p.plane); ++z) {
      for (int64_t y = rows.Begin(p.row); y < rows.End(p.row); ++y) {
        for (int64_t x = cols.Begin(p.col); x < cols.End(p.col); ++x) use(InputAt(p, z, y, x));
      }
    }
  }
  // use(place in the output, elements of it) for all windows that p lies in.
  template <typename Use>
  FORMWORK_ELEMENT void ForWindowsWith(const Pool3dPlace& p, Use use) const {
    const int64_t behind_planes = planes.BehindWith(p.plane);
    const int64_t behind_rows = rows.BehindWith(p.row), behind_cols = cols.BehindWith(p.col);
    for (int64_t z = planes.FirstWith(p.plane); z < behind_planes; ++z) {
      for (int64_t y = rows.FirstWith(p.row); y < behind_rows; ++y) {
        for (int64_t x = cols.FirstWith(p.col); x < behind_cols; ++x) {
          use(OutputAt(p, z, y, x), CountOf(z, y, x));
        }
      }
    }
  }
};

// Forward, an item is an element of the output. NaN is passed over.
template <typename E>
struct MaxPool3DItem {
  const E* in;
  E* out;
  Pool3dSizes sizes;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    auto largest = LowestOf<E>::Value();
    sizes.ForWindow(sizes.OutputPlace(i), [&](int64_t at) {
      const auto element = Widen(in[at]);
      if (element > largest) largest = element;
    });
    out[i] = Narrow<E>::Of(largest);
  }
};
template <typename E>
struct AvgPool3DItem {
  const E* in;
  E* out;
  Pool3dSizes sizes;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    typedef decltype(Widen(E())) C;
    const Pool3dPlace p = sizes.OutputPlace(i);
    C sum = C(0);
    sizes.ForWindow(p, [&](int64_t at) { sum = sum + Widen(in[at]); });
    out[i] = Narrow<E>::Of(sum / static_cast<C>(sizes.CountOf(p.plane, p.row, p.col)));
  }
};

// Of gradients, of the input. All elements that are as large as a window's largest get the whole of
// it.
template <typename E>
struct MaxPool3DGradItem {
  const E* in;
  const E* pooled;
  const E* grad;
  E* out;
  Pool3dSizes sizes;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    typedef decltype(Widen(E())) C;
    const C value = Widen(in[i]);
    C sum = C(0);
    sizes.ForWindowsWith(sizes.InputPlace(i), [&](int64_t at, int64_t) {
      if (value == Widen(pooled[at])) sum = sum + Widen(grad[at]);
    });
    out[i] = Narrow<E>::Of(sum);
  }
};
template <typename E>
struct AvgPool3DGradItem {
  const E* grad;
  E* out;
  Pool3dSizes sizes;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    typedef decltype(Widen(E())) C;
    C sum = C(0);
    sizes.ForWindowsWith(sizes.InputPlace(i), [&](int64_t at, int64_t count) {
      sum = sum + Widen(grad[at]) / static_cast<C>(count);
    });
    out[i] = Narrow<E>::Of(sum);
  }
};

}  // namespace formwork_element
