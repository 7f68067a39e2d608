#pragma once

// Forward convolutions of floats as products of windows, which are read where they lie, and a
// filter in panels (gemm/panel_product.h).

#include "core/ops/conv.h"
#include "core/ops/epilogue.h"

namespace formwork {

/// Whether this is the fastest way on this machine. The filter is then packed by
/// PackPanels(rows.taps * cols.taps * in_channels, out_channels).
bool ConvByPanels(const ConvShape& shape, Activation activation);

/// `bias`, `residual`: null where there is none; the residual may be `output`. Split over the
/// compute threads.
void ConvPanelsForward(const ConvShape& shape, const float* input, const float* panels,
                       const float* bias, const float* residual, Activation activation,
                       float* output);

}  // namespace formwork
