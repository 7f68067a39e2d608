#pragma once

// The convolutions of float and bfloat16 by oneDNN, in pieces that run side by side and are short
// enough to be stopped between them.

#include "absl/status/status.h"
#include "core/kernels/conv/conv_packed_filter.h"
#include "core/kernels/conv/epilogue.h"
#include "core/kernels/conv/onednn_conv.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Whether it is worth oneDNN's compiling it, and this machine has instructions for its dtype,
/// which may be any.
bool IsForOnednn(const OnednnConvShape& shape);
/// True where one image alone is to be split: by rows, or planes, which asks for channels last.
bool HasLongImages(const OnednnConvShape& shape);

// As RunConvForward and so on (conv_run.h), of tensors of the shape's dtype. Errors: also
// kUnimplemented where it is not for oneDNN.

absl::Status OnednnForward(const OnednnConvShape& shape, const Tensor& input, const Tensor& filter,
                           const EpilogueOperands& epilogue, PackedFilterMemo& memo, bool keep,
                           Allocator& allocator, Tensor* output);
absl::Status OnednnInputGradient(const OnednnConvShape& shape, const Tensor& filter,
                                 const Tensor& out_backprop, Allocator& allocator,
                                 Tensor* in_backprop);
absl::Status OnednnFilterGradient(const OnednnConvShape& shape, const Tensor& input,
                                  const Tensor& out_backprop, Allocator& allocator,
                                  Tensor* filter_backprop);

}  // namespace formwork
