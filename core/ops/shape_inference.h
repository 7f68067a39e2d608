#pragma once

// What a shape function sees of a node, and the steps that shape functions share.

#include <optional>
#include <utility>
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
  /// The elements of input i, a vector of integers that is not constant, as far as they are known:
  /// none of them is negative, -1 stands for those that are not. Null where nothing is known.
  const Dims* elements(int i) const {
    for (const auto& [input, elements] : elements_) {
      if (input == i) return &elements;
    }
    return nullptr;
  }
  void set_elements(int i, Dims elements) { elements_.emplace_back(i, std::move(elements)); }

  /// What is known of the shapes of the items of a list, which input i is.
  PartialShape items(int i) const {
    for (const auto& [input, items] : items_) {
      if (input == i) return items;
    }
    return PartialShape();
  }
  void set_items(int i, PartialShape items) { items_.emplace_back(i, std::move(items)); }
  /// The same of a list that output i is.
  void set_output_items(int i, PartialShape items) {
    output_items_.emplace_back(i, std::move(items));
  }
  absl::Span<const std::pair<int, PartialShape>> output_items() const { return output_items_; }

  void set_output(int i, PartialShape shape) { outputs_[i] = std::move(shape); }
  absl::Span<const PartialShape> outputs() const { return outputs_; }

 private:
  const AttrMap& attrs_;
  std::vector<PartialShape> inputs_;
  std::vector<const Tensor*> constants_;
  std::vector<DType> input_dtypes_;
  std::vector<std::pair<int, Dims>> elements_;
  std::vector<std::pair<int, PartialShape>> items_, output_items_;
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
