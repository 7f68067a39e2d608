#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/kernels/resource/table_state.h"

namespace formwork {

/// A table that refuses two keys as TensorFlow's dense one does and is exported as its array is: by
/// its size, which doubles as it fills, with those keys where nothing is or something was removed.
/// What it holds is kept as other tables keep it. `type` is of kDenseTableKind.
/// Errors: those of CheckDenseTableKeys.
absl::StatusOr<std::shared_ptr<Table>> EmptyDenseTable(const ResourceType& type,
                                                       const Tensor& empty_key,
                                                       const Tensor& deleted_key,
                                                       const DenseTableAttrs& attrs);

/// Its entries, and what else it is made of. Errors: those of allocating, and of a call that is to
/// stop.
absl::StatusOr<std::vector<Tensor>> PartsOfDenseTable(const ResourceType& type, const Table& table,
                                                      Allocator& allocator);
/// As WithChanges (table_state.h), of one of these.
absl::StatusOr<std::shared_ptr<Table>> WithDenseChanges(const ResourceType& type,
                                                        const Table& before,
                                                        const std::vector<Tensor>& changes);
/// Errors: kInvalidArgument unless they are such parts.
absl::StatusOr<std::shared_ptr<Table>> DenseTableOfParts(const ResourceType& type,
                                                         const std::vector<Tensor>& parts);

}  // namespace formwork
