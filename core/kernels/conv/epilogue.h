#pragma once

// An Epilogue with the operands of one call, and the loop that computes it where oneDNN does not.

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/kernels/kernel.h"
#include "core/ops/epilogue.h"

namespace formwork {

struct EpilogueOperands {
  Epilogue steps;
  const Tensor* scale = nullptr;
  const Tensor* bias = nullptr;
  const Tensor* residual = nullptr;

  const float* bias_data() const { return bias == nullptr ? nullptr : bias->data<float>(); }
  const float* residual_data() const {
    return residual == nullptr ? nullptr : residual->data<float>();
  }

  /// Inputs 2 and following, which live as long as the kernel runs. Errors: kInvalidArgument if
  /// they do not have as many elements as `output` wants.
  static absl::StatusOr<EpilogueOperands> Of(const KernelContext& ctx, const Epilogue& steps,
                                             const Shape& output);
  /// The kernel's output, in the memory of the residual where that is needed no more.
  absl::StatusOr<Tensor*> AllocateOutput(KernelContext& ctx, DType dtype, const Shape& shape);
};

/// to[i] = the steps but the scale, which goes into the filter, applied to from[i] and residual[i],
/// of rows of `channels` elements. `from` and `residual` may be `to`. A ReLU makes 0 of NaN, as
/// oneDNN's and TensorFlow's fused ones do. Split over the compute threads.
void RunEpilogue(const EpilogueOperands& operands, int64_t rows, int64_t channels,
                 const float* from, float* to);

}  // namespace formwork
