#pragma once

// The Sobol sequence's direction numbers, as Joe and Kuo have found them ("Constructing Sobol
// sequences with better two-dimensional projections", 2008;
// https://web.maths.unsw.edu.au/~fkuo/sobol).

#include <cstdint>
#include <vector>

namespace formwork {

/// digits x dims numbers, row by row: what bit k of a point's Gray code stands for in each
/// dimension, as 32 binary digits behind the point. `digits` is at most 32, `dims` at most
/// kSobolDims.
std::vector<uint32_t> SobolDirections(int digits, int64_t dims);

}  // namespace formwork
