#pragma once

// Which rows of images belong together where convolutions run band by band.

#include <algorithm>
#include <cstdint>

#include "core/ops/conv.h"

namespace formwork {

struct RowRange {
  int64_t begin, end;
  int64_t count() const { return end - begin; }
};

/// The inputs within the image that the outputs `rows` read; none where those see padding alone.
inline RowRange InputsOf(const ConvAxis& axis, RowRange rows) {
  const int64_t first = rows.begin * axis.stride - axis.pad_before;
  const int64_t last =
      (rows.end - 1) * axis.stride - axis.pad_before + (axis.taps - 1) * axis.dilation + 1;
  return {std::max<int64_t>(first, 0), std::min(last, axis.input)};
}

/// The problem that makes the outputs `rows` of one image of inputs `from`, which are what InputsOf
/// says.
inline ConvShape OfRows(const ConvShape& shape, RowRange rows, RowRange from) {
  ConvShape part = shape;
  part.batch = 1;
  part.rows.input = from.count();
  part.rows.output = rows.count();
  part.rows.pad_before = from.begin - (rows.begin * shape.rows.stride - shape.rows.pad_before);
  part.rows.pad_after = (rows.count() - 1) * shape.rows.stride - part.rows.pad_before +
                        (shape.rows.taps - 1) * shape.rows.dilation + 1 - from.count();
  return part;
}

}  // namespace formwork
