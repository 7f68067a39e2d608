// What kernels do for one item of convolutions of volumes, and of their gradients: compiled for
// GPUs at run time, from this text behind that of conv_functions.h, and by the host's compiler for
// the op cases. Volumes, [batch, planes, rows, cols, channels], become matrices of patches, and
// back.
#ifndef __CUDACC_RTC__
#pragma once
#include "gpu/conv_functions.h"
#endif

namespace formwork_element {

struct VolumePlace {
  int64_t image, plane, row, col;
};
struct ConvVolume {
  ConvLine planes, rows, cols;

  FORMWORK_ELEMENT uint64_t Taps() const {
    return static_cast<uint64_t>(planes.taps * rows.taps * cols.taps);
  }
  // Of pixel i of volumes of such sizes.
  static FORMWORK_ELEMENT VolumePlace PlaceOf(uint64_t i, int64_t depth, int64_t height,
                                              int64_t width) {
    const uint64_t line = DividedBy(i, static_cast<uint64_t>(width));
    const uint64_t plane = DividedBy(line, static_cast<uint64_t>(height));
    const uint64_t image = DividedBy(plane, static_cast<uint64_t>(depth));
    return {static_cast<int64_t>(image),
            static_cast<int64_t>(plane) - static_cast<int64_t>(image) * depth,
            static_cast<int64_t>(line) - static_cast<int64_t>(plane) * height,
            static_cast<int64_t>(i) - static_cast<int64_t>(line) * width};
  }
};

// A row for each pixel of the output: [planes.taps, rows.taps, cols.taps, channels], zeros where
// that is beside the volume. An item is so many elements that lie together.
template <typename Unit>
struct Patch3dItem {
  const Unit* in;
  Unit* patches;   // From row `first` on.
  uint64_t units;  // Of a pixel.
  uint64_t first;
  ConvVolume volume;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const ConvLine &planes = volume.planes, &rows = volume.rows, &cols = volume.cols;
    const uint64_t line = DividedBy(i, units), patch = DividedBy(line, volume.Taps());
    // A tap is found as a pixel is.
    const VolumePlace tap =
        ConvVolume::PlaceOf(line - patch * volume.Taps(), planes.taps, rows.taps, cols.taps);
    const VolumePlace p =
        ConvVolume::PlaceOf(first + patch, planes.output, rows.output, cols.output);
    const int64_t z = planes.InputOf(p.plane, tap.plane);
    const int64_t y = rows.InputOf(p.row, tap.row), x = cols.InputOf(p.col, tap.col);
    if (z < 0 || y < 0 || x < 0) {
      patches[i] = Unit();
      return;
    }
    const int64_t pixel = ((p.image * planes.input + z) * rows.input + y) * cols.input + x;
    patches[i] = in[static_cast<uint64_t>(pixel) * units + (i - line * units)];
  }
};

// Its gradient: an item is an element of the input. `adds`: to what is there.
template <typename E>
struct Unpatch3dItem {
  const E* patches;  // From row `first_row` on, `count` of them.
  E* out;            // From image `first_image` on.
  int64_t first_row, count, first_image, channels;
  ConvVolume volume;
  bool adds;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    typedef decltype(Widen(E())) C;
    const ConvLine &planes = volume.planes, &rows = volume.rows, &cols = volume.cols;
    const uint64_t pixel = DividedBy(i, static_cast<uint64_t>(channels));
    const int64_t channel = static_cast<int64_t>(i) - static_cast<int64_t>(pixel) * channels;
    const VolumePlace p = ConvVolume::PlaceOf(pixel, planes.input, rows.input, cols.input);
    C sum = adds ? C(Widen(out[i])) : C(0);
    for (int64_t a = 0; a < planes.taps; ++a) {
      const int64_t z = planes.OutputOf(p.plane, a);
      for (int64_t b = 0; z >= 0 && b < rows.taps; ++b) {
        const int64_t y = rows.OutputOf(p.row, b);
        for (int64_t c = 0; y >= 0 && c < cols.taps; ++c) {
          const int64_t x = cols.OutputOf(p.col, c);
          if (x < 0) continue;
          const int64_t plane = (p.image + first_image) * planes.output + z;
          const int64_t patch = (plane * rows.output + y) * cols.output + x - first_row;
          if (patch < 0 || patch >= count) continue;
          const int64_t tap = (a * rows.taps + b) * cols.taps + c;
          const int64_t at = patch * static_cast<int64_t>(volume.Taps()) + tap;
          sum += Widen(patches[at * channels + channel]);
        }
      }
    }
    out[i] = Narrow<E>::Of(sum);
  }
};

}  // namespace formwork_element
