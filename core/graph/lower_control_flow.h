#pragma once

// Control flow of older graphs (Switch, Merge, Enter, Exit, NextIteration, LoopCond) as While and
// If: of TF1's graphs, and of TF2's that were frozen.

#include <deque>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/graph/flow_body.h"

namespace formwork {

/// The nodes of one body without the outermost of its loops and branches, whose nodes are in
/// functions that this adds to the scope; these are lowered when they are imported. What Merges and
/// Exits gave has the same names as before. Nodes that are made have a '#' in their names, which
/// TensorFlow's have not. Where the thread's work is cut the nodes are of no use.
class LoweredControlFlow {
 public:
  /// What is asked of the body: tensors, nodes that are to run, and whether all that has an effect
  /// runs as well.
  struct Roots {
    std::vector<std::string> tensors;
    std::vector<std::string> nodes;
    bool effects;
  };
  /// `nodes` are to live as long as this. What cannot be lowered is reported, `where` before it.
  LoweredControlFlow(NodeList nodes, const FlowParameters& parameters, const Roots& roots,
                     absl::string_view where, ImportScope& scope);

  bool ok() const { return ok_; }
  /// Those that the roots do not reach are as they were.
  const NodeList& nodes() const { return nodes_; }
  /// The node that stands for one of the roots' nodes.
  const std::string& NodeOf(const std::string& name) const;

 private:
  absl::Status Lower(const FlowParameters& parameters, const Roots& roots, ImportScope& scope);

  bool ok_ = true;
  NodeList nodes_;
  std::deque<tf::NodeDef> made_;
  HashMap<std::string, std::string> runs_in_;
};

}  // namespace formwork
