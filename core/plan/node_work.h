#pragma once

// How much a node has to do, what it runs included.

#include "core/graph/graph.h"

namespace formwork {

/// As EstimateWork; of a node with bodies, theirs. Nothing where it has no op.
double WorkOf(const Graph& graph, const Node& node);

}  // namespace formwork
