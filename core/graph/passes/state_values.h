#pragma once

// Variables as values: what is known of them at one point of a list of nodes.

#include <optional>

#include "core/base/hash_map.h"
#include "core/graph/graph.h"

namespace formwork {

/// Walks along with a pass over a graph's nodes, in their order. Two handles may turn out to be one
/// variable only when a function is called: a store leaves known what has another dtype alone.
class StateValues {
 public:
  /// `nodes`: the list that edges speak of; it may grow. Outlives this.
  explicit StateValues(const std::vector<Node>& nodes) : nodes_(nodes) {}

  /// The value that a load of the variable may be replaced by.
  std::optional<Edge> Known(const Node& load) const;
  /// Learns what `node`, an op at place `at` of the list, reads or changes.
  void Note(const Node& node, int32_t at);

 private:
  const std::vector<Node>& nodes_;
  HashMap<Edge, Edge> values_;  // Handle -> value.
};

}  // namespace formwork
