#pragma once

// Loops of older graphs (Enter, Merge, Switch, NextIteration, Exit) as While.

#include <deque>

#include "absl/status/status.h"
#include "core/graph/flow_body.h"

namespace formwork {

/// Makes each loop of `body` that lies in no other one a While in front of its Exits, which become
/// Identities. Its functions have the loops that lie in it as they were. `must_run`, by node: it
/// runs although nobody needs it. Nodes that are made are added to `made`.
/// Errors: kInvalidArgument and kUnimplemented naming a node; those of the thread's StopFlag.
absl::Status LowerLoops(const FlowBody& body, const std::vector<bool>& must_run, ImportScope& scope,
                        FlowChanges& changes, std::deque<tf::NodeDef>& made);

}  // namespace formwork
