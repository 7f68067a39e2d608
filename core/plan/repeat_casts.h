#pragma once

// Casts of a plan for a device, which groups of elementwise nodes have each for itself.

#include "core/graph/graph.h"
#include "core/kernels/kernel.h"

namespace formwork {

/// Gives each node that may be in one step with it a Cast of its own, where several read one that
/// makes floats of smaller ones; not in the bodies of nodes. What mixed precision computes in float
/// is then read, and kept, in half of the memory, and a reduction is one step with the Cast that it
/// reduces. `device`: whose groups there are.
void RepeatCasts(Graph& graph, const KernelRegistry& device);

}  // namespace formwork
