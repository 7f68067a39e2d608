#pragma once

#include "core/graph/graph.h"

namespace formwork {

/// Moves what only gives elements another shape (a gradient that an optimizer's step reads, say) to
/// its first reader, so that the group of elementwise nodes which makes them does not end for it;
/// not in the bodies of nodes.
void DelayReshapes(Graph& graph);

}  // namespace formwork
