#pragma once

#include <vector>

#include "core/graph/graph.h"
#include "core/graph/passes/state_values.h"

namespace formwork {

/// Makes a store of an AssignAddVariableOp or AssignSubVariableOp whose operand is computed element
/// by element, so that the sum is too and the whole is one fused step. `node`, which is to follow
/// `nodes`, becomes the store; what it needs is appended to them and known to `state`. Variables of
/// less than `fewest_elements` are left.
void ExpandUpdate(Node& node, std::vector<Node>& nodes, StateValues& state, const OpRegistry& ops,
                  int64_t fewest_elements);

}  // namespace formwork
