#pragma once

// Which nodes compute scalars alone, and the program that does what they do.

#include <optional>
#include <vector>

#include "core/graph/graph.h"
#include "core/kernels/elementwise/scalar_program.h"

namespace formwork {

struct FusionUnit;

/// The most registers that a ScalarProgram needs for a node, with what its bodies have in them.
/// Nullopt where it cannot be part of one: all that it and they read and make has to be scalars,
/// as far as is known before, and all that they do elementwise ops, loops and branches.
std::optional<size_t> ScalarRegisters(const Graph& graph, const Node& node,
                                      const KernelRegistry& kernels);

struct ScalarStep {
  /// Where an input of the program comes from.
  struct Source {
    Edge edge;
    const Tensor* constant = nullptr;  ///< Of a body of the unit; then there is no edge.
  };
  std::vector<Source> inputs;
  ScalarProgram program;
};

/// One step for a unit of such nodes; its outputs are the unit's.
ScalarStep MakeScalarStep(const Graph& graph, const FusionUnit& unit);

}  // namespace formwork
