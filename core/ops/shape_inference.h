#pragma once

// What a shape function sees of a node, and the steps that shape functions share.

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// One node under inference. Shapes of outputs start unknown. Not thread-safe.
class InferenceContext {
 public:
  InferenceContext(const AttrMap& attrs, std::vector<PartialShape> inputs,
                   std::vector<const Tensor*> constants, std::vector<DType> input_dtypes,
                   int num_outputs)
      : attrs_(attrs),
        inputs_(std::move(inputs)),
        constants_(std::move(constants)),
        input_dtypes_(std::move(input_dtypes)),
        outputs_(num_outputs) {}

  const AttrMap& attrs() const { return attrs_; }
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  /// Of an input of dtype resource: the shape of the variable behind the handle.
  const PartialShape& input(int i) const { return inputs_[i]; }
  DType input_dtype(int i) const { return input_dtypes_[i]; }
  /// The value of input i where it is constant, else null.
  const Tensor* constant(int i) const { return constants_[i]; }

  void set_output(int i, PartialShape shape) { outputs_[i] = std::move(shape); }
  absl::Span<const PartialShape> outputs() const { return outputs_; }

 private:
  const AttrMap& attrs_;
  std::vector<PartialShape> inputs_;
  std::vector<const Tensor*> constants_;
  std::vector<DType> input_dtypes_;
  std::vector<PartialShape> outputs_;
};

namespace shapes {

absl::Status SameAsFirstInput(InferenceContext& c);  ///< Output 0 has input 0's shape.
absl::Status Broadcast(InferenceContext& c);         ///< Output 0: inputs 0 and 1 broadcast.
absl::Status Scalar(InferenceContext& c);            ///< All outputs are scalars.
absl::Status FromShapeAttr(InferenceContext& c);     ///< Output 0 has attr `shape`.
absl::Status FromShapeInput(InferenceContext& c);    ///< Output 0 has the shape that input 0 gives.

/// The shape that a tensor of dimensions describes, as far as it is constant; its rank where only
/// the length of the vector is known.
absl::StatusOr<PartialShape> ShapeFromInput(const InferenceContext& c, int i);
/// Errors: kInvalidArgument if they cannot broadcast.
absl::StatusOr<PartialShape> BroadcastShapes(const PartialShape& a, const PartialShape& b);
/// `shape`; where its rank is unknown, one of that rank with unknown dimensions.
PartialShape OrOfRank(const PartialShape& shape, int rank);

}  // namespace shapes
}  // namespace formwork
