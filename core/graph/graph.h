#pragma once

// The checked in-memory form of a function body: a list of nodes in an order in which they may run.
//
// The importer sorts the nodes (data and control edges, smallest index first) and then drops the
// control edges: from there on the order of the list is the effect order, and pure nodes may be
// moved, merged and dropped while effects keep their places relative to each other.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/hash_map.h"
#include "core/ops/attr.h"
#include "core/ops/element_group.h"
#include "core/ops/op_def.h"

namespace formwork {

/// Output `index` of node `node` (a position in Graph::nodes).
struct Edge {
  int32_t node = -1;
  int32_t index = 0;
  bool operator==(const Edge& other) const { return node == other.node && index == other.index; }
  template <typename H>
  friend H AbslHashValue(H h, const Edge& e) {
    return H::combine(std::move(h), e.node, e.index);
  }
};

enum class NodeKind : uint8_t {
  kOp,        ///< Runs a kernel.
  kArg,       ///< A parameter; `arg` says which.
  kConstant,  ///< Its value is in `constant`.
  kFork,      ///< Runs its bodies side by side (plan/lanes.h); has no op.
};

struct Graph;

struct Node {
  NodeKind kind = NodeKind::kOp;
  std::string name;
  const OpDef* op = nullptr;  ///< Null for arguments and forks.
  std::shared_ptr<const AttrMap> attrs;
  std::vector<Edge> inputs;
  std::vector<DType> output_dtypes;
  /// What is known of each output; filled by the passes. Of a handle: its variable's shape.
  std::vector<PartialShape> output_shapes;
  int32_t arg = -1;
  bool wants_host = false;  ///< Its device field names a CPU.
  /// Of a parameter that is a handle: it is of another resource than every other one that says so.
  bool distinct = false;
  Tensor constant;
  /// Of a plan for a device: the node is several, of elementwise ops, and its op is
  /// ElementGroupOp's.
  std::shared_ptr<const ElementGroup> group = nullptr;
  /// Of a node of control flow, once InlineCalls has been there: the functions that its attrs name,
  /// in their order. Parameter i of each is the i-th of the node's inputs after those of its own.
  /// A fork's inputs and outputs are those of its bodies, one after the other.
  std::vector<Graph> bodies;
};

/// One body. Immutable once it is in a library; passes work on copies.
struct Graph {
  std::string name;  ///< The function's; empty for a cut of the main graph.
  std::vector<Node> nodes;
  std::vector<int32_t> args;  ///< Node of each parameter.
  std::vector<DType> arg_dtypes;
  std::vector<Edge> results;

  DType dtype(Edge e) const { return nodes[e.node].output_dtypes[e.index]; }
  /// As far as the passes have inferred it.
  const PartialShape& shape(Edge e) const {
    static const PartialShape kUnknown;
    const std::vector<PartialShape>& shapes = nodes[e.node].output_shapes;
    return shapes.empty() ? kUnknown : shapes[e.index];
  }
};

/// Whether two handles are known to be of two resources.
bool AreDistinct(const std::vector<Node>& nodes, Edge a, Edge b);
/// Whether running the node, or one in its bodies, does something besides its outputs: it must run
/// although nobody needs them.
bool HasEffect(const Node& node);
/// Whether it gives a handle of a resource that it names, the same one in every call, and not of
/// one that is made for the call.
bool NamesResource(const Node& node);
/// Whether running it may change a variable.
bool ChangesState(const Node& node);
/// Whether it may wait until others have changed a resource, by ResourceAccess::AwaitState.
bool AwaitsState(const Node& node);
/// Nodes, their inputs and outputs, bodies included: about what a copy takes.
int64_t SizeOf(const Graph& graph);

/// The name of a node where the call (or body) `call` runs it, which may be none; of a long one the
/// end.
std::string NameInside(absl::string_view call, absl::string_view name);

/// The functions that a cut reaches, by name.
using GraphLibrary = HashMap<std::string, std::shared_ptr<const Graph>>;

}  // namespace formwork
