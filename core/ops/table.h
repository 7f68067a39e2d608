#pragma once

// Hash tables: what their ops, on any device, have in common.

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tensor/resource_type.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Its type has two parts: a key and a value.
inline constexpr ResourceKind kTableKind{"table"};
/// Initialized once, and from then on only read.
inline constexpr ResourceKind kStaticTableKind{"static table"};
inline bool IsTable(const ResourceType& type) {
  return type.kind == &kTableKind || type.kind == &kStaticTableKind;
}

/// Errors: kInvalidArgument unless `keys` are keys of a table of that type, of any shape.
absl::Status CheckTableKeys(const ResourceType& type, const Tensor& keys);
/// Errors: also unless there is a value for each.
absl::Status CheckTableEntries(const ResourceType& type, const Tensor& keys, const Tensor& values);

/// What InitializeTableV2 asks of them besides: vectors that are not empty.
absl::Status CheckInitialEntries(const ResourceType& type, const Tensor& keys,
                                 const Tensor& values);

/// The shape of the values that are found for `keys`. Errors: as CheckTableKeys;
/// kInvalidArgument unless `default_value` is one value, or one for each key.
absl::StatusOr<Shape> PrepareTableFind(const ResourceType& type, const Tensor& keys,
                                       const Tensor& default_value);

}  // namespace formwork
