#pragma once

// The convolutions of checked sizes, for every element type: float by oneDNN (half and bfloat16
// through it), the others by matrix products. Large work is split over the compute threads.

#include "absl/status/status.h"
#include "core/kernels/conv/conv_packed_filter.h"
#include "core/kernels/conv/epilogue.h"
#include "core/ops/conv.h"
#include "core/tensor/tensor.h"

namespace formwork {

// The tensors have the shapes that `shape` says and one dtype: float, half, bfloat16, double or
// int32. The last argument is allocated and overwritten. Errors: kResourceExhausted if there is no
// memory for scratch.

/// `memo` belongs to the node, and `keep` is what its Settled said. An epilogue is of floats with
/// channels last; its residual may have the memory of `output`.
absl::Status RunConvForward(const ConvShape& shape, const Tensor& input, const Tensor& filter,
                            const EpilogueOperands& epilogue, PackedFilterMemo& memo, bool keep,
                            Allocator& allocator, Tensor* output);
absl::Status RunConvInputGradient(const ConvShape& shape, const Tensor& filter,
                                  const Tensor& out_backprop, Allocator& allocator,
                                  Tensor* in_backprop);
absl::Status RunConvFilterGradient(const ConvShape& shape, const Tensor& input,
                                   const Tensor& out_backprop, Allocator& allocator,
                                   Tensor* filter_backprop);

}  // namespace formwork
