#pragma once

// Layer normalisation, row by row.

#include <cstdint>

namespace formwork {

/// y = (x - mean) / sqrt(variance + epsilon) * scale + offset, of each of `rows` rows of n
/// elements; scale and offset have n. `y` may be `x`. Split over the compute threads.
void LayerNormRows(int64_t rows, int64_t n, const float* x, const float* scale, const float* offset,
                   float epsilon, float* y);

}  // namespace formwork
