#pragma once

// How each kind of resource is kept on disk, and made of that again.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
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

/// A call that makes a value whole which has been read, once resources and functions are there.
struct Revival {
  std::string graph_def;
  std::vector<std::pair<std::string, Tensor>> values;  ///< Tensors of the graph that are these,
  std::vector<std::pair<std::string, uint64_t>> resources;  ///< and the handles of these IDs.
  std::string self;                                         ///< The resource's own handle.
  std::string target;                                       ///< The node that does it.
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
  /// Its value changes in place: `parts` is called while nobody uses the resource.
  bool moves = false;
  /// Null of a kind whose values are whole; nullopt where this one is.
  std::optional<Revival> (*revival)(const Tensor& value) = nullptr;
};

extern const StoredForm kStoredVariable;                                      ///< variable_cpu.cc
extern const StoredForm kStoredTable, kStoredStaticTable, kStoredDenseTable;  ///< table_cpu.cc
extern const StoredForm kStoredMutex;                                         ///< mutex_cpu.cc
extern const StoredForm kStoredMeanAccumulator, kStoredSumAccumulator;  ///< accumulator_cpu.cc
extern const StoredForm kStoredFifoQueue, kStoredPaddingFifoQueue, kStoredPriorityQueue,
    kStoredRandomShuffleQueue;            ///< queue_state.cc
extern const StoredForm kStoredBarrier;   ///< barrier_cpu.cc
extern const StoredForm kStoredIterator;  ///< data/iterator_cpu.cc

/// By the kind's name; null where there is none.
const StoredForm* FindStoredForm(absl::string_view kind);

}  // namespace formwork
