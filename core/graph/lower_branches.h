#pragma once

// Branches of older graphs (Switch, Merge) as If.

#include <deque>

#include "absl/status/status.h"
#include "core/graph/flow_body.h"

namespace formwork {

/// Makes what stands between Switches and Merges of `body`, which has no loops, Ifs; Merges become
/// Identities. Branches have those that lie in them as they were. Merges of one predicate are of
/// one If where none of them needs another one. `must_run`, by node: it runs where its branch does,
/// although nobody needs it. Nodes that are made are added to `made`.
/// Errors: kInvalidArgument and kUnimplemented naming a node; those of the thread's StopFlag.
absl::Status LowerBranches(const FlowBody& body, const std::vector<bool>& must_run,
                           ImportScope& scope, FlowChanges& changes, std::deque<tf::NodeDef>& made);

}  // namespace formwork
