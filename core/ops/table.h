#pragma once

// Hash tables: what their ops, on any device, have in common.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ops/attr.h"
#include "core/tensor/resource_type.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Its type has two parts: a key and a value.
inline constexpr ResourceKind kTableKind{"table"};
/// Initialized once, and from then on only read.
inline constexpr ResourceKind kStaticTableKind{"static table"};
/// Made with two keys that nothing is kept under: one stands for what is empty, one for what was
/// removed.
inline constexpr ResourceKind kDenseTableKind{"dense table"};
inline bool IsTable(const ResourceType& type) {
  return type.kind == &kTableKind || type.kind == &kStaticTableKind ||
         type.kind == &kDenseTableKind;
}

/// Errors: kUnimplemented unless there are tables with such keys.
absl::Status CheckTableKeyDType(DType key);

/// Errors: kInvalidArgument unless `keys` are keys of a table of that type, in any order. `key`:
/// the shape of one, which of a dense table may be a vector: its type does not say that.
absl::Status CheckTableKeys(const ResourceType& type, const Tensor& keys,
                            const Shape& key = Shape());
/// Errors: also unless there is a value for each.
absl::Status CheckTableEntries(const ResourceType& type, const Tensor& keys, const Tensor& values,
                               const Shape& key = Shape());

/// What InitializeTableV2 asks of them besides: vectors that are not empty.
absl::Status CheckInitialEntries(const ResourceType& type, const Tensor& keys,
                                 const Tensor& values);

/// InitializeTableFromTextFileV2's attrs: what of each line is a key and what is its value.
struct TableTextAttrs {
  static constexpr int64_t kWholeLine = -2;
  static constexpr int64_t kLineNumber = -1;  ///< From 0 on, plus `offset`.
  /// Errors: kInvalidArgument unless the delimiter is one character.
  static absl::StatusOr<TableTextAttrs> FromAttrs(const AttrMap& attrs);

  int64_t key_index;    ///< One of these, or a column.
  int64_t value_index;  ///< The same.
  int64_t vocab_size;   ///< The number of lines that are read; -1: all.
  std::string delimiter;
  int64_t offset;
};

/// Errors: kInvalidArgument unless lines of text can give the entries of such a table.
absl::Status CheckTableText(const ResourceType& type, const TableTextAttrs& attrs);

/// The shape of the values that are found for `keys`. Errors: as CheckTableKeys;
/// kInvalidArgument unless `default_value` is one value, or one for each key.
absl::StatusOr<Shape> PrepareTableFind(const ResourceType& type, const Tensor& keys,
                                       const Tensor& default_value, const Shape& key = Shape());

/// How many rows a dense table exports: TensorFlow's is an array that doubles as it fills.
struct DenseTableAttrs {
  /// Errors: kInvalidArgument unless it is a power of 2, at least 4, and the factor in (0, 1).
  static absl::StatusOr<DenseTableAttrs> FromAttrs(const AttrMap& attrs);

  int64_t num_buckets = 0;
  float max_load_factor = 0;
};
absl::Status CheckNumBuckets(int64_t num_buckets);

/// Errors: kInvalidArgument unless they are two keys, scalars or vectors, that differ.
absl::Status CheckDenseTableKeys(const Tensor& empty_key, const Tensor& deleted_key);

}  // namespace formwork
