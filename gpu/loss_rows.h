#pragma once

// Cross entropies of softmaxes on a GPU (loss_functions.h): how a call's shapes and memory become
// the rows' numbers. Needs no CUDA itself.

#include <string>

#include "absl/status/status.h"
#include "core/ops/nn.h"
#include "core/tensor/tensor.h"
#include "gpu/loss_functions.h"

namespace formwork {

/// How an operand that broadcasts to a matrix of `geometry` goes through it.
template <typename E>
formwork_element::DenseLabels<E> BroadcastRowsOf(const Tensor& operand,
                                                 const CrossEntropyGeometry& geometry) {
  const int64_t columns = operand.rank() == 0 ? 1 : operand.dim(operand.rank() - 1);
  const int64_t rows = operand.rank() < 2 ? 1 : operand.dim(0);
  return {static_cast<const E*>(operand.raw()),
          rows == 1 && geometry.rows != 1 ? 0 : static_cast<uint64_t>(columns),
          columns == 1 && geometry.classes != 1 ? uint64_t{0} : uint64_t{1}};
}

template <typename E, typename Labels>
formwork_element::LossRows<E, Labels> LossRowsOf(const CrossEntropyGeometry& geometry,
                                                 const Tensor& logits, const Labels& labels,
                                                 Tensor& loss, Tensor& backprop,
                                                 formwork_element::MayFailItem may_fail) {
  return {BroadcastRowsOf<E>(logits, geometry),
          labels,
          static_cast<E*>(loss.mutable_raw()),
          static_cast<E*>(backprop.mutable_raw()),
          static_cast<uint64_t>(geometry.rows),
          static_cast<uint64_t>(geometry.classes),
          may_fail};
}

/// The error of a label that is out of range: `where` of the word.
absl::Status LabelOutOfRange(uint64_t where, int64_t classes);

/// The text of a kernel `loss(LossRows rows, ReduceBlock, FailureWord*, uint64 step)`, which does
/// nothing where another step has failed by the word, unless that is null. `labels`: kInvalid where
/// they are as the logits, else int32 or int64; SoftmaxBlock says how its blocks are divided.
std::string LossSource(DType logits, DType labels);

}  // namespace formwork
