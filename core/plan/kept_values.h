#pragma once

// What follows from constants and variables alone is computed once for each value that the
// variables have (a batch normalisation's factors, a cast or a transpose of weights), and kept from
// call to call.

#include <memory>
#include <optional>
#include <vector>

#include "core/graph/graph.h"
#include "core/kernels/kernel.h"

namespace formwork {

/// A graph in three parts, which together do what it does.
struct FixedParts {
  /// Of the graph's parameters: the variables that `fixed` reads.
  Graph loads;
  /// Of those values: what the rest needs.
  Graph fixed;
  /// Of the graph's parameters, then the results of `loads`, then those of `fixed`.
  Graph rest;
};

/// Nullopt where keeping costs more than it saves. `on_device`: of a plan for a device, where what
/// may fail by value is not kept, because the host would know too late.
std::optional<FixedParts> SplitFixed(const Graph& graph, bool on_device);

/// The two kernels that share what is kept, one set of values. Thread-safe.
struct KeptValuesKernels {
  /// Inputs: the variables' values. Outputs: whether what is kept was made of just these, then what
  /// is kept.
  KernelFn recall;
  /// Inputs: the variables' values, then what was made of them.
  KernelFn keep;
};

/// `num_variables`: how many inputs are the variables' values. To keep it holds on to them, so that
/// they cannot change behind it; a variable's writer then copies instead of writing in place. So it
/// gives up what it keeps once a variable has changed, and waits twice as long each time until it
/// keeps something again. What takes more than twice the variables' memory is not kept. On a device
/// a call finds what is kept once the work that makes it has run, and holds it until its own has.
KeptValuesKernels MakeKeptValues(size_t num_variables);

}  // namespace formwork
