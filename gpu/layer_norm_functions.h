// What the threads of a layer normalisation do: compiled for GPUs at run time, from this text
// behind that of reduce_functions.h, and by the host's compiler for the op cases.
#ifndef __CUDACC_RTC__
#pragma once
#include "gpu/reduce_functions.h"
#endif

namespace formwork_element {

// Rows of `n` elements E, and for each of a row's a scale and an offset.
template <typename E>
struct LayerNormRows {
  const E* x;
  const E* scale;
  const E* offset;
  E* y;
  uint64_t rows, n;
  float epsilon;
};

// What one of `lanes` threads does of a row: once for the sum, once for that of the squared
// distances from the mean, and once to write.
template <typename E>
struct LayerNormRow {
  static FORMWORK_ELEMENT float Sum(const LayerNormRows<E>& call, uint64_t row, unsigned lane,
                                    unsigned lanes) {
    float sum = 0;
    for (uint64_t i = lane; i < call.n; i += lanes) {
      sum += static_cast<float>(Widen(call.x[row * call.n + i]));
    }
    return sum;
  }
  static FORMWORK_ELEMENT float SumOfSquares(const LayerNormRows<E>& call, uint64_t row, float mean,
                                             unsigned lane, unsigned lanes) {
    float sum = 0;
    for (uint64_t i = lane; i < call.n; i += lanes) {
      const float distance = static_cast<float>(Widen(call.x[row * call.n + i])) - mean;
      sum += distance * distance;
    }
    return sum;
  }
  static FORMWORK_ELEMENT void Write(const LayerNormRows<E>& call, uint64_t row, float mean,
                                     float variance, unsigned lane, unsigned lanes) {
    const float inverse = 1.0f / sqrt(variance + call.epsilon);
    for (uint64_t i = lane; i < call.n; i += lanes) {
      const uint64_t at = row * call.n + i;
      const float scale = static_cast<float>(Widen(call.scale[i])) * inverse;
      const float offset = static_cast<float>(Widen(call.offset[i]));
      const float distance = static_cast<float>(Widen(call.x[at])) - mean;
      call.y[at] = Narrow<E>::Of(distance * scale + offset);
    }
  }
};

#ifdef __CUDACC_RTC__
template <typename E>
__device__ void LayerNormAll(const LayerNormRows<E>& call, const ReduceBlock& block) {
  typedef LayerNormRow<E> Row;
  __shared__ float shared[256];
  const unsigned lane = block.LaneOf(threadIdx.x), lanes = block.lanes;
  const auto add = [](float a, float b) { return a + b; };
  const float n = static_cast<float>(call.n);
  for (uint64_t base = 1ull * blockIdx.x * block.outputs(); base < call.rows;
       base += 1ull * gridDim.x * block.outputs()) {
    const uint64_t row = base + block.OutputOf(threadIdx.x);
    const bool is_row = row < call.rows;
    const float mean =
        JoinLanes(is_row ? Row::Sum(call, row, lane, lanes) : 0.0f, shared, block, add) / n;
    const float squares = JoinLanes(is_row ? Row::SumOfSquares(call, row, mean, lane, lanes) : 0.0f,
                                    shared, block, add);
    if (is_row) Row::Write(call, row, mean, squares / n, lane, lanes);
  }
}
#endif

}  // namespace formwork_element
