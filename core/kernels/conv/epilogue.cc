#include "core/kernels/conv/epilogue.h"

#include <algorithm>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/elementwise/activate.h"
#include "core/kernels/isa.h"

namespace formwork {
namespace {

constexpr int64_t kTaskElements = 1 << 16;

struct Vectors {
  const float* bias;
  const float* residual;
};

template <Activation kActivation>
struct Rows {
  FORMWORK_ISA_INLINE static void Run(const Vectors* vectors, int64_t channels, const float* from,
                                      float* to, int64_t begin, int64_t end) {
    const Vectors& v = *vectors;
    for (int64_t r = begin; r < end; ++r) {
      const float* x = from + r * channels;
      float* y = to + r * channels;
      if (v.residual != nullptr && v.bias != nullptr) {
        const float* residual = v.residual + r * channels;
        for (int64_t c = 0; c < channels; ++c) {
          y[c] = Activate<kActivation>(x[c] + v.bias[c] + residual[c]);
        }
      } else if (v.residual != nullptr) {
        const float* residual = v.residual + r * channels;
        for (int64_t c = 0; c < channels; ++c) y[c] = Activate<kActivation>(x[c] + residual[c]);
      } else if (v.bias != nullptr) {
        for (int64_t c = 0; c < channels; ++c) y[c] = Activate<kActivation>(x[c] + v.bias[c]);
      } else {
        for (int64_t c = 0; c < channels; ++c) y[c] = Activate<kActivation>(x[c]);
      }
    }
  }
};

template <Activation kActivation>
void AllRows(const Vectors& vectors, int64_t rows, int64_t channels, const float* from, float* to) {
  ParallelFor(rows, std::max<int64_t>(1, kTaskElements / std::max<int64_t>(channels, 1)),
              [&](int64_t begin, int64_t end) {
                ForHostIsa<Rows<kActivation>>(&vectors, channels, from, to, begin, end);
              });
}

}  // namespace

absl::StatusOr<EpilogueOperands> EpilogueOperands::Of(const KernelContext& ctx,
                                                      const Epilogue& steps, const Shape& output) {
  EpilogueOperands operands;
  operands.steps = steps;
  const int64_t channels = output.dim(output.rank() - 1);
  int at = 2;
  auto next = [&](int64_t elements) -> absl::StatusOr<const Tensor*> {
    const Tensor& operand = ctx.input(at++);
    if (operand.num_elements() == elements) return &operand;
    return InvalidArgument("an operand does not fit the result: operand=",
                           operand.shape().ToString(), " result=", output.ToString());
  };
  if (steps.scale) {
    FORMWORK_ASSIGN_OR_RETURN(operands.scale, next(channels));
  }
  if (steps.bias) {
    FORMWORK_ASSIGN_OR_RETURN(operands.bias, next(channels));
  }
  if (steps.residual) {
    FORMWORK_ASSIGN_OR_RETURN(operands.residual, next(output.num_elements()));
  }
  return operands;
}

absl::StatusOr<Tensor*> EpilogueOperands::AllocateOutput(KernelContext& ctx, DType dtype,
                                                         const Shape& shape) {
  if (residual == nullptr) return ctx.AllocateOutput(0, dtype, shape);
  const int last = ctx.num_inputs() - 1;
  bool take = residual->buffer() && ctx.CanOverwrite(last);
  // One slot may be read twice: x + conv(x).
  for (int i = 0; i < last; ++i) take = take && ctx.input(i).raw() != residual->raw();
  if (!take) return ctx.AllocateOutput(0, dtype, shape);
  FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.ForwardOrAllocate({last}, 0, dtype, shape));
  residual = output;
  return output;
}

void RunEpilogue(const EpilogueOperands& operands, int64_t rows, int64_t channels,
                 const float* from, float* to) {
  const Vectors vectors = {operands.bias_data(), operands.residual_data()};
  switch (operands.steps.activation) {
    case Activation::kNone:
      return AllRows<Activation::kNone>(vectors, rows, channels, from, to);
    case Activation::kRelu:
      return AllRows<Activation::kRelu>(vectors, rows, channels, from, to);
    case Activation::kRelu6:
      return AllRows<Activation::kRelu6>(vectors, rows, channels, from, to);
    case Activation::kGelu:
      return AllRows<Activation::kGelu>(vectors, rows, channels, from, to);
  }
}

}  // namespace formwork
