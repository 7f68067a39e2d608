#pragma once

// The convolutions of floats by oneDNN, in pieces that run side by side and are short enough to be
// stopped between them.

#include "absl/status/status.h"
#include "core/kernels/conv/conv_packed_filter.h"
#include "core/kernels/conv/epilogue.h"
#include "core/ops/conv.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// True where one image alone is to be split: by rows, which asks for channels last.
bool HasLongImages(const ConvShape& shape);

// As RunConvForward and so on (conv_run.h). Errors: also kUnimplemented where oneDNN has none.

absl::Status OnednnForward(const ConvShape& shape, const Tensor& input, const Tensor& filter,
                           const EpilogueOperands& epilogue, PackedFilterMemo& memo, bool keep,
                           Allocator& allocator, Tensor* output);
absl::Status OnednnInputGradient(const ConvShape& shape, const Tensor& filter,
                                 const Tensor& out_backprop, Allocator& allocator,
                                 Tensor* in_backprop);
absl::Status OnednnFilterGradient(const ConvShape& shape, const Tensor& input,
                                  const Tensor& out_backprop, Allocator& allocator,
                                  Tensor* filter_backprop);

}  // namespace formwork
