#pragma once

// Iterators on disk: the graph that makes the dataset again, as it was made, and a position in it.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/kernels/data/dataset.h"
#include "core/kernels/resource/stored_form.h"

namespace formwork {

/// A graph of the nodes that have made a dataset, whose other inputs are fed. It revives the
/// iterator that it is given the handle of.
struct StoredDataset {
  std::string graph_def;
  Element values;                   ///< Fed as "t0", "t1" ...
  std::vector<uint64_t> resources;  ///< IDs; fed as "r0", "r1" ...

  /// Errors: kUnimplemented for a dataset that no node has made, or has captured a variant that is
  /// no dataset, or calls Python.
  static absl::StatusOr<StoredDataset> Of(const Dataset& dataset);
  Revival ToRevival() const;
  /// What the dataset is to use, as strongly as it may; null: nothing.
  std::shared_ptr<const UsedResources> ToUses() const;
};

struct StoredIterator {
  StoredDataset dataset;
  std::vector<int64_t> numbers;  ///< These two: the position.
  Element tensors;

  absl::StatusOr<std::vector<Tensor>> ToParts(Allocator& allocator) const;
  /// Errors: kInvalidArgument.
  static absl::StatusOr<StoredIterator> FromParts(const std::vector<Tensor>& parts);
};

}  // namespace formwork
