#pragma once

// The activations of epilogues, one element at a time, in loops for isa.h.

#include "core/kernels/elementwise/elementwise_float_math.h"
#include "core/kernels/isa.h"
#include "core/ops/epilogue.h"

namespace formwork {

/// A ReLU makes 0 of NaN, as TensorFlow's fused ones do.
template <Activation kActivation>
FORMWORK_ISA_INLINE float Activate(float x) {
  switch (kActivation) {
    case Activation::kRelu:
      return x > 0.0f ? x : 0.0f;
    case Activation::kRelu6: {
      const float positive = x > 0.0f ? x : 0.0f;
      return positive < 6.0f ? positive : 6.0f;
    }
    case Activation::kGelu:
      return 0.5f * x * (1.0f + math::Erf(x * 0.70710678f));
    case Activation::kNone:
      return x;
  }
}

}  // namespace formwork
