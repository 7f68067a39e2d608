#pragma once

// How a relaxed call is divided (core/resource/README.md): what it computes from a snapshot, the
// small writes on the way, and the apply region, each with places of its own at the resources.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace formwork {

enum class RegionKind : uint8_t {
  kSnapshot,    ///< All that is in no other: reads what was there when the call began.
  kSmallWrite,  ///< From the first touch of what it writes to the write, and nothing heavy.
  kApply        ///< From the first write that is not small to the call's end.
};

struct RelaxedRegion {
  RegionKind kind = RegionKind::kSnapshot;
  std::string name;  ///< For people: what it is, and of a small write whose.
};

/// The regions of a graph, by number; the first one is the snapshot.
struct RelaxedRegions {
  std::vector<RelaxedRegion> regions;
  std::string why_none;  ///< Where there are none: why the call is to run as any other.
};

/// Divides a graph whose calls are inlined, and whose loads and stores are still those of the
/// program, by this rule. *Heavy* is a product of matrices, a convolution, a factorization, a loop,
/// a branch, a call, and what waits. A write is *small* where
/// - it is of one variable, or other resource, by a step of its own;
/// - nothing heavy lies between the first touch of that variable, since its last small write, and
///   the write; and the variable is not touched elsewhere before the apply region;
/// - what is assigned is used nowhere else;
/// - something heavy follows it.
/// The apply region begins with the first other write: behind the last heavy node before that, and
/// before every read that something assigned in the region follows from without a heavy node
/// between. Nodes keep their order; before and behind each part stands a node that begins a region
/// (RegionBegunBy), which no pass moves or sees through.
/// Nothing is done where nothing heavy would come before the apply region.
void DivideIntoRegions(Graph& graph, RelaxedRegions& regions);

/// The number of the region that the node begins; none: it begins none.
std::optional<uint32_t> RegionBegunBy(const Node& node);

}  // namespace formwork
