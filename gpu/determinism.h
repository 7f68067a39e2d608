#pragma once

// Whether kernels have to give the same bits each time (gpu.h's RequireDeterminism). Private to
// gpu/.

#include "absl/strings/string_view.h"
#include "core/kernels/kernel.h"

namespace formwork {

bool DeterminismIsRequired();

/// As `registry.Add`, of a kernel whose threads change one element in an order that is open: where
/// determinism is required, there is none, and the host does the op.
void AddOfOpenOrder(KernelRegistry& registry, absl::string_view op, KernelFactory factory);

}  // namespace formwork
