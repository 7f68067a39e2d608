#pragma once

// What a hash table holds.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/ops/table.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// The state of a table: never changed, a change makes another one that shares what stays. Tensors
/// are of the table's dtypes, keys have some shape and that of one key, and values the same and
/// that of one value. Where work is cut, what it made is unfinished.
class Table : public VariantObject {
 public:
  absl::string_view type_name() const override { return "formwork::Table"; }
  virtual int64_t size() const = 0;
  virtual size_t bytes() const = 0;
  /// Of one key: a scalar's, or a vector's.
  virtual const Shape& key_shape() const = 0;
  /// Whether such keys can be in it. Errors: kInvalidArgument.
  virtual absl::Status CheckKeys(const Tensor& keys) const;
  /// For each key its value, or the default: one, or one for each key.
  virtual void Find(const Tensor& keys, const Tensor& default_value, Tensor& values) const = 0;
  virtual std::shared_ptr<Table> WithEntries(const Tensor& keys, const Tensor& values) const = 0;
  virtual std::shared_ptr<Table> WithoutKeys(const Tensor& keys) const = 0;
  /// With these alone. Errors: kInvalidArgument for what is not exported by such a table; the
  /// allocator's.
  virtual absl::StatusOr<std::shared_ptr<Table>> Imported(const Tensor& keys, const Tensor& values,
                                                          Allocator& allocator) const = 0;
  /// The number of rows that Export writes.
  virtual int64_t num_exported() const { return size(); }
  virtual void Export(Tensor& keys, Tensor& values) const = 0;
  /// What makes it of `before`, an earlier state of the same table: the keys and values that have
  /// been set, the keys that are gone, and what else changes. Costs what has changed. None where
  /// that is more than half of what it holds. Errors: those of allocating.
  virtual absl::StatusOr<std::vector<Tensor>> ChangesSince(const ResourceType& type,
                                                           const Table& before,
                                                           Allocator& allocator) const = 0;
};

/// Keys and values as it exports them, in new tensors. Errors: those of allocating, and of a call
/// that is to stop.
absl::StatusOr<std::vector<Tensor>> PartsOfEntries(const ResourceType& type, const Table& table,
                                                   Allocator& allocator);

/// `before` with what ChangesSince says. Errors: kInvalidArgument if it cannot be of that.
absl::StatusOr<std::shared_ptr<Table>> WithChanges(const ResourceType& type, const Table& before,
                                                   const std::vector<Tensor>& changes);

/// One of the type's dtypes and value shape. `key`: as Table::key_shape, of one element at least.
std::shared_ptr<Table> EmptyTable(const ResourceType& type, const Shape& key = Shape());

}  // namespace formwork
