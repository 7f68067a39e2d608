#pragma once

// Where the values of a plan for a device are, and where its nodes run.
//
// What decides is known by the host: strings, variants, handles, what ops want there
// (ArgDef::host), and integers and booleans that follow from such, as in shape arithmetic,
// predicates and counters. Such nodes run on the host when they are issued, and so does what others
// see (Print) or draws numbers, but for those that follow from a place in a sequence alone
// (FillsFromSequence). Elements that are given on under another shape stay where they are
// (KeepsElements). Everything else is enqueued. Where a value is wanted in the other memory the
// plan has a step that copies it.

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/device/device.h"
#include "core/graph/graph.h"
#include "core/plan/plan.h"

namespace formwork {

struct NodePlacement {
  bool on_host = false;
  bool after_work = false;  ///< Of one on the host: it waits for all that is enqueued.
  /// Where it wants each input; none: where that is.
  std::vector<std::optional<Plan::Memory>> inputs;
  std::vector<Plan::Memory> outputs;
};

/// `inputs`: where they are.
NodePlacement Place(const Graph& graph, const Node& node, absl::Span<const Plan::Memory> inputs);

/// Of a node that Place would have enqueued, and that the device has no kernel for: the host runs
/// it on values in its memory.
NodePlacement PlaceOnHost(const Graph& graph, const Node& node);

/// Copies the constants that are wanted on the device to `memory`, which is its, enqueued on
/// `stream`, and drops those that nobody reads in host memory. `wanted`: where, of each.
absl::Status PlaceConstants(Plan& plan, absl::Span<const Plan::Memory> wanted, Allocator& memory,
                            Stream& stream, Allocator& host);

/// Where parameters and results of functions, and what branches make, are: of these nothing else is
/// known.
Plan::Memory MemoryByDType(DType dtype);

}  // namespace formwork
