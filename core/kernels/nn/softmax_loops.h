#pragma once

// Softmax and its cross entropies, row by row. R: float, double.

#include <cstdint>

namespace formwork {

// `x` holds `rows` rows of `n` logits; `out` and `backprop` may be `x`. Split over the compute
// threads.

template <typename R>
void SoftmaxRows(int64_t rows, int64_t n, const R* x, R* out);
template <typename R>
void LogSoftmaxRows(int64_t rows, int64_t n, const R* x, R* out);

/// loss = -log softmax(x)[labels[row]]; backprop = softmax(x) - one_hot(labels[row]). The labels
/// are within [0, n).
template <typename R>
void SparseCrossEntropyRows(int64_t rows, int64_t n, const R* x, const int64_t* labels, R* loss,
                            R* backprop);

/// Where row r of an operand that broadcasts begins, and how far apart its elements are.
template <typename R>
struct BroadcastRows {
  const R* data;
  int64_t row_stride;
  int64_t stride;
};
/// loss = -sum labels log softmax(x); backprop = softmax(x) - labels. `backprop` is none of the
/// operands.
template <typename R>
void CrossEntropyRows(int64_t rows, int64_t n, BroadcastRows<R> x, BroadcastRows<R> labels, R* loss,
                      R* backprop);

}  // namespace formwork
