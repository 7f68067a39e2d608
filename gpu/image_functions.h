// Where elements of images lie: compiled for GPUs at run time, from this text behind that of
// item_functions.h, and by the host's compiler for the op cases.
#ifndef __CUDACC_RTC__
#pragma once
#include "gpu/item_functions.h"
#endif

namespace formwork_element {

struct ImagePlace {
  int64_t image, row, col, channel;
};

// Images as [image, row, col, channel] or, with channels_first, [image, channel, row, col].
struct Images {
  int64_t height, width, channels;
  bool channels_first;

  // Of element i.
  FORMWORK_ELEMENT ImagePlace PlaceOf(uint64_t i) const {
    const uint64_t inner = static_cast<uint64_t>(channels_first ? width : channels);
    const uint64_t middle = static_cast<uint64_t>(channels_first ? height : width);
    const uint64_t outer = static_cast<uint64_t>(channels_first ? channels : height);
    const uint64_t line = DividedBy(i, inner), plane = DividedBy(line, middle);
    const uint64_t image = DividedBy(plane, outer);
    const int64_t a = static_cast<int64_t>(plane - image * outer);
    const int64_t b = static_cast<int64_t>(line - plane * middle);
    const int64_t c = static_cast<int64_t>(i - line * inner);
    const int64_t n = static_cast<int64_t>(image);
    return channels_first ? ImagePlace{n, b, c, a} : ImagePlace{n, a, b, c};
  }
  FORMWORK_ELEMENT int64_t At(const ImagePlace& p) const {
    return channels_first ? ((p.image * channels + p.channel) * height + p.row) * width + p.col
                          : ((p.image * height + p.row) * width + p.col) * channels + p.channel;
  }
};

}  // namespace formwork_element
