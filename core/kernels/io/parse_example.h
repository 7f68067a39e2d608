#pragma once

#include "core/kernels/kernel.h"
#include "core/ops/parse.h"

namespace formwork {

/// What a ParseExampleV2 of these attrs does, with its inputs and outputs.
KernelFn ParseExampleKernel(ParseExampleAttrs attrs);

}  // namespace formwork
