#pragma once

// Parts of a graph that run side by side.

#include "core/graph/graph.h"

namespace formwork {

/// Where several inputs of a node, or several results, come each from nodes of their own that
/// nobody else needs, and the work of each is worth a thread, those nodes become the lanes of a
/// node of kind kFork before it, in bodies of branches and loops, too. Lanes have no effects, draw
/// no random numbers and call no functions, and nothing moves over an effect: what a run does, and
/// in which order, is as before; but where several of its nodes would fail another of them may be
/// the one that is reported. Lanes are not forked again.
void ForkLanes(Graph& graph);

}  // namespace formwork
