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

/// A part of each row's softmax, of rows that come in parts of columns (Milakov and Gimelshein,
/// "Online normalizer calculation for softmax", 2018). `x` holds `rows` rows of `n` logits and
/// becomes exp(x * scale + mask - m), where m is the largest logit of the row so far, or 0 where
/// that is -inf. By row: `largest` is m, `sum` what such values add up to so far, and `by` what
/// sums of earlier parts have been multiplied by, for m has grown; of the first part, where `by` is
/// null, they need not be initialised. On the calling thread.
struct SoftmaxPart {
  int64_t rows, n;
  float scale;
  const float* mask;  ///< Null: there is none.
  const bool* shown;  ///< Null, or a mask whose false makes a logit `hidden`.
  float hidden;
  int64_t mask_row;     ///< Of either.
  int64_t mask_column;  ///< 1; 0: a row's first value is for all.
  float* x;
  float *largest, *sum, *by;
};
void RunSoftmaxPart(const SoftmaxPart& part);

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
