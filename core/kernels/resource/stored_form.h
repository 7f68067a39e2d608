#pragma once

// How each kind of resource is kept on disk, and made of that again.

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/resource_type.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// A resource's value as Resource has it.
struct ResourceValue {
  Tensor value;
  size_t bytes = 0;  ///< About what it takes.
};

/// Of one kind: as tensors, in host memory, of plain data or strings.
struct StoredForm {
  const ResourceKind& kind;
  /// `value` is one that a resource of that type has. Errors: kUnimplemented for what has no such
  /// form; kResourceExhausted.
  absl::StatusOr<std::vector<Tensor>> (*parts)(const ResourceType& type, const Tensor& value,
                                               Allocator& allocator);
  /// Errors: kInvalidArgument if they are not parts of a value of that type; kResourceExhausted.
  absl::StatusOr<ResourceValue> (*value)(const ResourceType& type,
                                         const std::vector<Tensor>& parts);
  size_t type_parts = 0;  ///< That a resource's type has; 0: any number.
  /// What makes `after` of `before`, two values of one resource: where that is less than `after`
  /// itself; else empty. It says what is there afterwards, so that doing it again changes nothing.
  /// Null where there is no such form. Errors: as `parts`.
  absl::StatusOr<std::vector<Tensor>> (*changes)(const ResourceType& type, const Tensor& before,
                                                 const Tensor& after,
                                                 Allocator& allocator) = nullptr;
  /// `after` of these. Errors: as `value`.
  absl::StatusOr<ResourceValue> (*with_changes)(const ResourceType& type, const Tensor& before,
                                                const std::vector<Tensor>& changes) = nullptr;
};

extern const StoredForm kStoredVariable;                                      ///< variable_cpu.cc
extern const StoredForm kStoredTable, kStoredStaticTable, kStoredDenseTable;  ///< table_cpu.cc
extern const StoredForm kStoredIterator;  ///< data/iterator_cpu.cc

/// By the kind's name; null where there is none.
const StoredForm* FindStoredForm(absl::string_view kind);

}  // namespace formwork
