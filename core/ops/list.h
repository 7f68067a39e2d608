#pragma once

// What lists of tensors are on every device: attrs, and the meaning of inputs that give shapes.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// The element shape that a tensor gives: -1 for an unknown rank, else a vector. Errors:
/// kInvalidArgument in TensorFlow's words if it is neither.
absl::StatusOr<PartialShape> ListShapeFrom(const Tensor& tensor);

/// What two shapes of elements say together. Errors: kInvalidArgument in TensorFlow's words if they
/// contradict each other.
absl::StatusOr<PartialShape> MergeListShapes(const PartialShape& a, const PartialShape& b);

struct ListStackAttrs {
  int64_t num_elements = -1;  ///< How many the list must have; -1: any number.

  static absl::StatusOr<ListStackAttrs> FromAttrs(const AttrMap& attrs);
};

// What follows gives values of host inputs. Errors are kInvalidArgument in TensorFlow's words.

/// EmptyTensorList: how many items it may have; -1: any number.
absl::StatusOr<int32_t> ListLimit(const Tensor& max_num_elements);
/// TensorListReserve, TensorListResize: how many items the list gets.
absl::StatusOr<int32_t> ReservedListSize(const Tensor& num_elements);
absl::StatusOr<int32_t> ResizedListSize(const Tensor& size);
/// TensorListGetItem, TensorListSetItem: which of `size` items; with `resize` it may be behind
/// them.
absl::StatusOr<int32_t> ListItemToGet(const Tensor& index, size_t size);
absl::StatusOr<int32_t> ListItemToSet(const Tensor& index, size_t size, bool resize);

/// TensorListScatter..., which puts the rows of a tensor at indices.
struct ListScatterGeometry {
  Dims indices;
  int64_t least = 0;  ///< How many items there are afterwards, at the least.
};
absl::StatusOr<ListScatterGeometry> PrepareListScatter(const Tensor& indices,
                                                       absl::Span<const int64_t> tensor);
/// The same of TensorListScatterV2: `num_elements`, or as many as the indices need where it is -1.
absl::StatusOr<ListScatterGeometry> PrepareListScatter(const Tensor& indices,
                                                       absl::Span<const int64_t> tensor,
                                                       const Tensor& num_elements);
/// TensorListScatterIntoExistingList, which says some of it in other words.
absl::StatusOr<ListScatterGeometry> PrepareListScatterIntoExisting(
    const Tensor& indices, absl::Span<const int64_t> tensor);

/// TensorListSplit into pieces of shape `element`: the length of each, which make up the tensor.
absl::StatusOr<Dims> PrepareListSplit(absl::Span<const int64_t> tensor, const PartialShape& element,
                                      const Tensor& lengths);

/// Of what is taken apart into a list's items: it has rows. Errors: kInvalidArgument.
absl::Status CheckListRows(absl::Span<const int64_t> tensor);

}  // namespace formwork
