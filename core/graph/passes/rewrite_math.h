#pragma once

#include <vector>

#include "core/graph/graph.h"

namespace formwork {

/// What TensorFlow's optimizer of graphs makes of some nodes (grappler's arithmetic_optimizer.cc:
/// ConvertPow, ConvertLog1p, ConvertExpm1, LogSoftmax), so that results are its: pow(x, 1) is
/// x, as the gradient of a square has it, 2 is Square, 3 a product with one, 1/2, -1/2 and -1 are
/// Sqrt, Rsqrt and Reciprocal; log(1 + x) is Log1p and exp(x) - 1 is Expm1, which differ by far
/// where x is small; the logarithm of a Softmax that has no other use is LogSoftmax, which is
/// finite where the Softmax is 0. Constants are scalars. `node`, which is to follow `nodes`,
/// becomes the op; what it needs is appended to them. `is_sole_use`: of its first input.
void RewriteMath(Node& node, bool is_sole_use, std::vector<Node>& nodes, const OpRegistry& ops);

}  // namespace formwork
