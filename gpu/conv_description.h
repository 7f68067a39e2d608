#pragma once

// A convolution as cuDNN is told of it, and what is left to do around that. Needs no CUDA itself.

#include <array>
#include <cstdint>
#include <optional>

#include "core/ops/conv.h"
#include "core/ops/epilogue.h"
#include "core/tensor/dtype.h"
#include "gpu/element_source.h"
#include "gpu/moves.h"

namespace formwork {

/// Dimensions in the order [batch, channels, rows, columns], of the filter [out_channels, channels
/// of a group, rows, columns], and how many elements apart neighbours lie, whatever the order in
/// memory. Images lie there as the op has them; the filter by its output channels first, and then
/// in the images' order.
struct ConvDescription {
  struct Operand {
    std::array<int64_t, 4> dims, strides;
  };
  Operand input, filter, output;
  std::array<int64_t, 2> pad_before, pad_after, stride, dilation;  ///< By rows and by columns.

  /// None where there are no elements, where the window's last steps go beyond the padding, and of
  /// depthwise ones, which our own kernels do.
  static std::optional<ConvDescription> Of(const ConvShape& shape);
};

/// A copy of the filter [rows, columns, channels of a group, out_channels] to that order; `back`:
/// from it.
Move FilterMove(const ConvShape& shape, bool back);

/// What an epilogue does to a result that is in memory: of that, and then of the epilogue's
/// operands.
ElementProgram EpilogueProgram(const Epilogue& epilogue, DType dtype);

}  // namespace formwork
