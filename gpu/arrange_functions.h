// What kernels do for one element that ops only put elsewhere, where strides do not tell where
// from: rolls, mirrors, sequences turned round, blocks of space, diagonals. Compiled for GPUs at
// run time, from this text behind those of item_functions.h and element_access.h, and by the host's
// compiler for the op cases. An item is an element of what is written; E is any type of an
// element's size, but for mirrors' gradients, which are added up.
#ifndef __CUDACC_RTC__
#pragma once
#include "gpu/element_access.h"
#include "gpu/item_functions.h"
#endif

namespace formwork_element {

constexpr int kMostArrangedDims = 8;

// Roll and MirrorPad. Entry k of a dimension is the input's k + start, which, where there is none,
// is counted from the other end, or back from the border, without that itself where `offset` is 1.
template <typename E>
struct ShiftItem {
  const E* from;
  E* to;
  int32_t rank;
  bool mirrors;
  int64_t offset;
  int64_t sizes[kMostArrangedDims];  // Of the output, the last dimension first,
  int64_t from_sizes[kMostArrangedDims];
  int64_t starts[kMostArrangedDims];

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    int64_t at = 0, stride = 1, left = static_cast<int64_t>(i);
    for (int d = 0; d < rank; ++d) {
      const int64_t rest = left / sizes[d], size = from_sizes[d];
      int64_t k = left - rest * sizes[d] + starts[d];
      left = rest;
      if (k < 0) k = mirrors ? offset - 1 - k : k + size;
      if (k >= size) k = mirrors ? 2 * size - 1 - offset - k : k - size;
      at += k * stride;
      stride *= size;
    }
    to[i] = from[at];
  }
};

// MirrorPadGrad, of one dimension of [outer, size, inner], whose margins are added to what they
// mirror.
template <typename E>
struct FoldItem {
  const E* from;  // [outer, before + size + after, inner]
  E* to;
  int64_t inner, size, before, after, offset;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const int64_t at = static_cast<int64_t>(i), row = at / inner, outer = row / size;
    const int64_t k = row - outer * size;
    const E* const column = from + outer * (before + size + after) * inner + (at - row * inner);
    E sum = column[(before + k) * inner];
    const int64_t in_before = k - offset, in_after = size - 1 - offset - k;
    if (in_before >= 0 && in_before < before) {
      sum = AddRounded(sum, column[(before - 1 - in_before) * inner]);
    }
    if (in_after >= 0 && in_after < after) {
      sum = AddRounded(sum, column[(before + size + in_after) * inner]);
    }
    to[i] = sum;
  }
};

// ReverseSequence, by the strides of the sequence's dimension and the batch's.
template <typename E, typename Length>
struct ReverseSequenceItem {
  const E* from;
  const Length* lengths;
  E* to;
  uint64_t seq_size, seq_stride, batch_size, batch_stride;
  MayFailItem may_fail;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const uint64_t batch = i / batch_stride % batch_size, k = i / seq_stride % seq_size;
    const int64_t told = static_cast<int64_t>(lengths[batch]);
    const uint64_t length = static_cast<uint64_t>(told);
    if (length > seq_size) {
      to[i] = E();
      return Fail(may_fail, WhereOf(batch, told));
    }
    to[i] = from[k < length ? i - k * seq_stride + (length - 1 - k) * seq_stride : i];
  }
};
// The check of the lengths alone, where there are no elements.
template <typename Length>
struct CheckLengthsItem {
  const Length* lengths;
  uint64_t seq_size;
  MayFailItem may_fail;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const int64_t length = static_cast<int64_t>(lengths[i]);
    if (static_cast<uint64_t>(length) > seq_size) Fail(may_fail, WhereOf(i, length));
  }
};

// SpaceToBatchND and BatchToSpaceND, between [batch, space..., inner] and [places in a block,
// batch, blocks..., inner]. Entry p of space is before + p of the blocks; around it are zeros.
template <typename E>
struct BlocksItem {
  const E* from;
  E* to;
  int32_t rank;
  bool to_batch;
  int64_t inner, batch;
  int64_t block[kMostArrangedDims], before[kMostArrangedDims];  // The last dimension first.
  int64_t space[kMostArrangedDims], blocks[kMostArrangedDims];

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    int64_t left = static_cast<int64_t>(i) / inner;
    const int64_t element = static_cast<int64_t>(i) - left * inner;
    int64_t at = 0, stride = 1;
    if (to_batch) {
      int64_t entries[kMostArrangedDims] = {};
      for (int d = 0; d < rank; ++d) {
        const int64_t rest = left / blocks[d];
        entries[d] = left - rest * blocks[d];
        left = rest;
      }
      int64_t place = left / batch;
      const int64_t image = left - place * batch;
      for (int d = 0; d < rank; ++d) {
        const int64_t rest = place / block[d];
        const int64_t p = entries[d] * block[d] + (place - rest * block[d]) - before[d];
        place = rest;
        if (p < 0 || p >= space[d]) {
          to[i] = E();
          return;
        }
        at += p * stride;
        stride *= space[d];
      }
      at += image * stride;
    } else {
      int64_t place = 0, of_block = 1;
      for (int d = 0; d < rank; ++d) {
        const int64_t rest = left / space[d];
        const int64_t p = left - rest * space[d] + before[d];
        left = rest;
        const int64_t entry = p / block[d];
        at += entry * stride;
        stride *= blocks[d];
        place += (p - entry * block[d]) * of_block;
        of_block *= block[d];
      }
      at += (place * batch + left) * stride;
    }
    to[i] = from[at * inner + element];
  }
};

// The diagonals from `lower` to `upper` of matrices (core/ops/diagonal.h).
struct DiagonalBand {
  int64_t lower, upper, rows, cols, longest;
  bool left_super, left_sub;

  FORMWORK_ELEMENT int64_t Length(int64_t d) const {
    const int64_t high = d < 0 ? rows + d : rows, wide = d > 0 ? cols - d : cols;
    const int64_t length = high < wide ? high : wide;
    return length < 0 ? 0 : length;
  }
  // Where diagonal d begins among its places.
  FORMWORK_ELEMENT int64_t Offset(int64_t d) const {
    const bool left = (d >= 0 && left_super) || (d <= 0 && left_sub);
    return left ? 0 : longest - Length(d);
  }
};

// MatrixDiagPart: of places, [matrices, diagonals from the highest on, longest].
template <typename E>
struct DiagonalPartItem {
  const E* from;
  E* to;
  E padding;
  DiagonalBand band;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const int64_t row = static_cast<int64_t>(i) / band.longest;
    const int64_t count = band.upper - band.lower + 1, matrix = row / count;
    const int64_t d = band.upper - (row - matrix * count);
    const int64_t k = static_cast<int64_t>(i) - row * band.longest - band.Offset(d);
    const int64_t y = k + (d < 0 ? -d : 0), x = k + (d > 0 ? d : 0);
    const bool there = k >= 0 && k < band.Length(d);
    to[i] = there ? from[(matrix * band.rows + y) * band.cols + x] : padding;
  }
};

// MatrixDiag and MatrixSetDiag: of matrices. Beside the diagonals is the input, or where that is
// null the padding.
template <typename E>
struct DiagonalItem {
  const E* diagonal;
  const E* input;
  E* to;
  E padding;
  DiagonalBand band;

  FORMWORK_ELEMENT void operator()(uint64_t i) const {
    const int64_t line = static_cast<int64_t>(i) / band.cols, matrix = line / band.rows;
    const int64_t y = line - matrix * band.rows, x = static_cast<int64_t>(i) - line * band.cols;
    const int64_t d = x - y;
    if (d < band.lower || d > band.upper) {
      to[i] = input == nullptr ? padding : input[i];
      return;
    }
    const int64_t row = matrix * (band.upper - band.lower + 1) + band.upper - d;
    to[i] = diagonal[row * band.longest + band.Offset(d) + (y < x ? y : x)];
  }
};

}  // namespace formwork_element
