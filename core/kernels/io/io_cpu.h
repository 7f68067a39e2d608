#pragma once

#include "core/kernels/kernel.h"

namespace formwork {

/// A part of the family io.
void AddParseExampleCpuKernels(KernelRegistry& registry);

}  // namespace formwork
