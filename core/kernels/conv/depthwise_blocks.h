#pragma once

// What the loops of depthwise convolutions share: taps and tasks.

#include <algorithm>
#include <cstdint>

#include "core/kernels/isa.h"
#include "core/ops/conv.h"

namespace formwork::depthwise {

inline constexpr int64_t kTaskWork = 256 * 1024;  // Multiplications, about 20 us.

/// The taps [begin, end) of an axis that lie within the input for one output.
struct TapRange {
  int64_t begin;
  int64_t end;
};

FORMWORK_ISA_INLINE TapRange TapsWithin(const ConvAxis& a, int64_t output) {
  const int64_t start = output * a.stride - a.pad_before;
  TapRange range;
  range.begin = start >= 0 ? 0 : (-start + a.dilation - 1) / a.dilation;
  range.end = start >= a.input ? 0 : (a.input - 1 - start) / a.dilation + 1;
  range.end = std::min(range.end, a.taps);
  range.begin = std::min(range.begin, range.end);
  return range;
}

/// The outputs [begin, end) for which every tap lies within the input.
FORMWORK_ISA_INLINE TapRange InteriorOutputs(const ConvAxis& a) {
  const int64_t reach = (a.taps - 1) * a.dilation;
  TapRange range;
  range.begin = std::max<int64_t>(0, (a.pad_before + a.stride - 1) / a.stride);
  const int64_t last = a.input - 1 - reach + a.pad_before;
  range.end = last < 0 ? 0 : last / a.stride + 1;
  range.end = std::min(range.end, a.output);
  range.begin = std::min(range.begin, range.end);
  return range;
}

inline int64_t RowGrain(const ConvShape& s, int64_t cols) {
  const double work = static_cast<double>(cols) * static_cast<double>(s.in_channels) *
                      static_cast<double>(s.rows.taps) * static_cast<double>(s.cols.taps);
  return std::max<int64_t>(1, static_cast<int64_t>(kTaskWork / std::max(work, 1.0)));
}

}  // namespace formwork::depthwise
