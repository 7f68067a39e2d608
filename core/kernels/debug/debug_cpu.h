#pragma once

#include "core/kernels/kernel.h"

namespace formwork {

/// A part of the family debug: ScalarSummary, HistogramSummary, MergeSummary.
void AddSummaryCpuKernels(KernelRegistry& registry);

}  // namespace formwork
