#pragma once

// Datasets and iterators: what their ops, on any device, have in common.

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/ops/join.h"
#include "core/tensor/resource_type.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Its type has a part for each component of an element. Who uses one writes: it moves on.
inline constexpr ResourceKind kIteratorKind{"iterator"};

/// What the components of elements are; as many dtypes as shapes. Of what a dataset gives the
/// dtypes hold, and the shapes are what the graph says of them.
struct ElementSpec {
  std::vector<DType> dtypes;
  std::vector<PartialShape> shapes;

  /// `dtypes`: the attr that lists them. Errors: kInvalidArgument if there are not as many of both.
  static absl::StatusOr<ElementSpec> FromAttrs(const AttrMap& attrs,
                                               absl::string_view dtypes = "output_types");
  /// Of an iterator's elements.
  static ElementSpec OfIterator(const ResourceType& type);
};

// Errors of these: kInvalidArgument, in TensorFlow's words.

absl::Status CheckDTypesFit(const std::vector<DType>& expected, const std::vector<DType>& given);
/// Elements of `given` may be such as `expected` says: as many components, of its dtypes, of shapes
/// that may be the same.
absl::Status CheckElementsFit(const ElementSpec& expected, const ElementSpec& given);
/// An element is as `expected` says.
absl::Status CheckElement(const ElementSpec& expected, absl::Span<const Tensor> element);

/// MapDefun: how many rows its `n` arguments have. Errors: kInvalidArgument in TensorFlow's words
/// if one has none, or another number of them.
absl::StatusOr<int64_t> PrepareMapDefun(int n, DimsOfValue dims);

}  // namespace formwork
