#pragma once

// Where the values of a graph are, and where its nodes run, in a plan for a device.
//
// What decides is known by the host: strings, variants, handles, what ops want there
// (ArgDef::host), and integers and booleans that follow from such, as in shape arithmetic,
// predicates and counters. Such nodes run on the host when they are issued, and so does what others
// see (Print) or draws numbers, but for those that follow from a place in a sequence alone
// (FillsFromSequence). Elements that are given on under another shape stay where they are
// (KeepsElements). Everything else is enqueued. Where a value is wanted in the other memory the
// plan has a step that copies it.

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/kernels/kernel.h"

namespace formwork {

enum class Memory : uint8_t { kHost, kDevice };

struct NodePlacement {
  bool on_host = false;
  bool after_work = false;  ///< Of one on the host: it waits for all that is enqueued.
  /// Where it wants each input; none: where that is.
  std::vector<std::optional<Memory>> inputs;
  std::vector<Memory> outputs;
};

/// Of an op that no plan runs itself. `nodes`: what its edges speak of. `inputs`: where they are.
NodePlacement Place(const std::vector<Node>& nodes, const Node& node,
                    absl::Span<const Memory> inputs);

/// Of a node that Place would have enqueued, and that the device has no kernel for: the host runs
/// it on values in its memory.
NodePlacement PlaceOnHost(const std::vector<Node>& nodes, const Node& node);

/// Where a node's outputs are, whatever it is but a parameter. `kernels`: the device's; one that
/// refuses the node's dtypes is taken to run it.
std::vector<Memory> PlaceOutputs(const std::vector<Node>& nodes, const Node& node,
                                 absl::Span<const Memory> inputs, const KernelRegistry& kernels);

/// By input: whether the op wants it in host memory.
std::vector<bool> HostInputs(const Node& node);

/// Where parameters and results of functions, and what branches make, are: of these nothing else is
/// known.
Memory MemoryByDType(DType dtype);

/// Where a loop keeps a variable that starts in `initial`.
Memory MemoryOfLoopVariable(DType dtype, Memory initial);

}  // namespace formwork
