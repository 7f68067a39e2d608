#pragma once

// Groups of elementwise nodes, of a plan for a device: each launch there costs some microseconds,
// and each value that one kernel leaves to the next a way to memory and back.

#include "core/graph/graph.h"
#include "core/kernels/kernel.h"

namespace formwork {

/// Makes one node (ElementGroup) of elementwise nodes that PlanFusion has together, and of the
/// stores of what they make or of the reduction of it, in `graph` and in the bodies of its nodes.
/// `host`: the CPU's kernels; `device` says what its groups may have. Where the thread's work is
/// cut, graphs that are left stay as they are.
void GroupElements(Graph& graph, const KernelRegistry& host, const KernelRegistry& device);

}  // namespace formwork
