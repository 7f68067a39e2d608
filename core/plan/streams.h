#pragma once

// Which nodes of a body are worth a stream of their own.

#include <cstdint>
#include <vector>

#include "core/graph/graph.h"

namespace formwork {

/// What a part of a graph must have to do, in EstimateWork's nanoseconds, to be worth an event and
/// two waits.
inline constexpr double kLeastStreamWork = 50'000;

/// The stream of each node, where it is enqueued: of `streams`. Stream 0 has all that has an
/// effect, waits, calls or may fail by value, and what nothing is gained for; the others have pure
/// parts of at least `least_work` that run beside it. A node follows the input that is there last.
/// It depends on the graph alone; bodies of its nodes are streams' forks of their own.
std::vector<uint8_t> AssignStreams(const Graph& graph, int streams,
                                   double least_work = kLeastStreamWork);

}  // namespace formwork
