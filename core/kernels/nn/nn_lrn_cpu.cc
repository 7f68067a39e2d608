// Local response normalisation: each element by the squares of its neighbours in depth. Half and
// bfloat16 are computed in float.

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/nn/nn_cpu.h"
#include "core/kernels/widen.h"
#include "core/ops/lrn.h"

namespace formwork {
namespace {

constexpr int64_t kTaskElements = 16 * 1024;  // Squares that are worth a task of their own.

// Calls use(pixel's first element) for all of [0, elements) / depth.
template <typename Use>
void ForPixels(int64_t elements, int64_t depth, int64_t radius, const Use& use) {
  const int64_t squares = depth * std::min(depth, 2 * radius + 1);
  ParallelFor(elements / depth, std::max<int64_t>(1, kTaskElements / squares),
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  if (WorkIsCut()) return;
                  use(i * depth);
                }
              });
}

// bias + alpha * the sum of squares around channel `c`.
float Norm(const LrnAttrs& attrs, const float* pixel, int64_t depth, int64_t c) {
  const int64_t begin = std::max<int64_t>(c - attrs.depth_radius, 0);
  const int64_t end = std::min(c + attrs.depth_radius + 1, depth);
  float sum = 0;
  for (int64_t k = begin; k < end; ++k) sum += pixel[k] * pixel[k];
  return attrs.bias + attrs.alpha * sum;
}

// `use(power)`, where power(norm) is norm^-beta: by roots for the betas that networks have.
template <typename Use>
void WithPower(float beta, const Use& use) {
  if (beta == 0.5f) return use([](float norm) { return 1 / std::sqrt(norm); });
  if (beta == 0.75f) {
    return use([](float norm) {
      const float root = std::sqrt(norm);
      return 1 / (root * std::sqrt(root));
    });
  }
  use([beta](float norm) { return std::pow(norm, -beta); });
}

// A long row of channels is cut within.
constexpr int64_t kChannelsBetweenLooks = 64;

template <typename Power>
void Forward(const LrnAttrs& attrs, int64_t elements, int64_t depth, const float* in, float* out,
             const Power& power) {
  ForPixels(elements, depth, attrs.depth_radius, [&](int64_t at) {
    for (int64_t c = 0; c < depth; ++c) {
      if (c % kChannelsBetweenLooks == 0 && WorkIsCut()) return;
      out[at + c] = in[at + c] * power(Norm(attrs, in + at, depth, c));
    }
  });
}

template <typename Power>
void Backward(const LrnAttrs& attrs, int64_t elements, int64_t depth, const float* grads,
              const float* in, const float* activations, float* out, const Power& power) {
  ForPixels(elements, depth, attrs.depth_radius, [&](int64_t at) {
    std::fill(out + at, out + at + depth, 0.0f);
    for (int64_t c = 0; c < depth; ++c) {
      if (c % kChannelsBetweenLooks == 0 && WorkIsCut()) return;
      const float norm = Norm(attrs, in + at, depth, c);
      const float scale = -2 * attrs.alpha * attrs.beta * activations[at + c] / norm;
      const float of_own = power(norm);
      const int64_t begin = std::max<int64_t>(c - attrs.depth_radius, 0);
      const int64_t end = std::min(c + attrs.depth_radius + 1, depth);
      for (int64_t k = begin; k < end; ++k) {
        const float own = k == c ? of_own : 0.0f;
        out[at + k] += (scale * in[at + k] + own) * grads[at + c];
      }
    }
  });
}

// The output is rounded to the inputs' dtype where `made`, which is float, is not it.
absl::Status Narrowed(KernelContext& ctx, Tensor made, DType dtype) {
  if (dtype == DType::kFloat) {
    ctx.SetOutput(0, std::move(made));
    return absl::OkStatus();
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, dtype, made.shape()));
  NarrowTo(dtype, made.data<float>(), made.num_elements(), out->mutable_raw());
  return absl::OkStatus();
}

absl::Status CheckDType(const KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  if (dtype == DType::kFloat || dtype == DType::kHalf) return absl::OkStatus();
  return Unimplemented(init.op().name, ": dtype ", DTypeName(dtype), " is not supported");
}

absl::StatusOr<KernelFn> MakeLrn(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const LrnAttrs attrs, LrnAttrs::FromAttrs(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(CheckDType(init));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& input = ctx.input(0);
    FORMWORK_RETURN_IF_ERROR(CheckLrn(input.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Tensor wide, Widened(ctx.allocator(), input));
    FORMWORK_ASSIGN_OR_RETURN(Tensor made,
                              Tensor::Allocate(ctx.allocator(), DType::kFloat, input.shape()));
    if (input.num_elements() > 0) {
      WithPower(attrs.beta, [&](const auto& power) {
        Forward(attrs, input.num_elements(), input.shape().dim(3), wide.data<float>(),
                made.mutable_data<float>(), power);
      });
    }
    return Narrowed(ctx, std::move(made), input.dtype());
  });
}

absl::StatusOr<KernelFn> MakeLrnGrad(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const LrnAttrs attrs, LrnAttrs::FromAttrs(init.attrs()));
  FORMWORK_RETURN_IF_ERROR(CheckDType(init));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& grads = ctx.input(0);
    FORMWORK_RETURN_IF_ERROR(CheckLrnGrad(grads.shape().dims(), ctx.input(1).shape().dims(),
                                          ctx.input(2).shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(const Tensor dy, Widened(ctx.allocator(), grads));
    FORMWORK_ASSIGN_OR_RETURN(const Tensor x, Widened(ctx.allocator(), ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(const Tensor y, Widened(ctx.allocator(), ctx.input(2)));
    FORMWORK_ASSIGN_OR_RETURN(Tensor made,
                              Tensor::Allocate(ctx.allocator(), DType::kFloat, grads.shape()));
    if (grads.num_elements() > 0) {
      WithPower(attrs.beta, [&](const auto& power) {
        Backward(attrs, grads.num_elements(), grads.shape().dim(3), dy.data<float>(),
                 x.data<float>(), y.data<float>(), made.mutable_data<float>(), power);
      });
    }
    return Narrowed(ctx, std::move(made), grads.dtype());
  });
}

}  // namespace

void RegisterLrnKernels(KernelRegistry& registry) {
  registry.Add("LRN", MakeLrn);
  registry.Add("LRNGrad", MakeLrnGrad);
}

}  // namespace formwork
