#pragma once

// Variables as values: what is known of them at one point of a list of nodes.

#include <optional>
#include <vector>

#include "core/base/hash_map.h"
#include "core/graph/graph.h"

namespace formwork {

/// Walks along with a pass over a graph's nodes, in their order. Two handles may turn out to be one
/// variable only when a function is called: a store leaves known what has another dtype, and what
/// is behind a handle that is known to be of another variable, alone.
class StateValues {
 public:
  /// `nodes`: the list that edges speak of; it may grow. Outlives this.
  explicit StateValues(const std::vector<Node>& nodes) : nodes_(nodes) {}

  /// The value that a load of the variable may be replaced by.
  std::optional<Edge> Known(const Node& load) const;
  /// The value of the variable behind a handle.
  std::optional<Edge> ValueOf(Edge handle) const;
  void Set(Edge handle, Edge value) { values_[handle] = value; }
  /// Learns what `node`, an op at place `at` of the list, reads or changes.
  void Note(const Node& node, int32_t at);

 private:
  const std::vector<Node>& nodes_;
  HashMap<Edge, Edge> values_;  // Handle -> value.
};

/// Two parameters of the bodies of a node of control flow, by their numbers.
struct KnownVariable {
  size_t handle = 0;
  size_t value = 0;
};

/// Gives the bodies of a node of control flow the values that are known of the variables that they
/// load: each becomes one more input of the node and a parameter of its bodies, which a loop passes
/// on. Of a loop, only where it changes no variable.
std::vector<KnownVariable> GiveValues(Node& node, const std::vector<Node>& nodes,
                                      const StateValues& state);

}  // namespace formwork
