#pragma once

// Datasets that kernels of several ops stand on.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/kernels/data/dataset.h"
#include "core/kernels/data/dataset_function.h"
#include "core/kernels/data/position.h"

namespace formwork {

/// Of a dataset that sometimes has nothing to do: gives what another iterator gives.
struct PassStage {
  Iterator it;

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    return it.Next(ctx, element);
  }
  absl::Status Keep(Position& position) { return position.Keep(it); }
};

/// TensorFlow's: as it thinks best.
inline constexpr int64_t kAutotune = -1;

/// How often a function runs at once where input `i`, a scalar, says for how many calls is asked.
/// Errors: kInvalidArgument, in TensorFlow's words.
absl::StatusOr<int64_t> ThreadsFor(KernelContext& ctx, int i);

/// What `map` makes of each element, on up to `threads` threads at once where it may run so, in
/// the input's order. `preserve`: an end of its own (kOutOfRange) is an error.
std::shared_ptr<Dataset> ParallelMapDataset(ElementSpec spec, DatasetPtr input,
                                            std::shared_ptr<const DatasetFunction> map,
                                            int64_t threads, bool preserve);

/// The same elements; up to `most` of them are made while those before them are used, where nobody
/// can tell (prefetch_cpu.cc). `most`: kAutotune: as many as are of use.
std::shared_ptr<Dataset> PrefetchedDataset(DatasetPtr input, int64_t most);

/// The elements, `size` as one. `shapes`: of the batches. Errors: kInvalidArgument.
absl::StatusOr<std::shared_ptr<Dataset>> BatchDataset(DatasetPtr input,
                                                      const std::vector<PartialShape>& shapes,
                                                      int64_t size, bool drop_remainder);

/// A tensor that holds a dataset of elements that are there. Errors: CountNesting's.
absl::StatusOr<Tensor> HeldDataset(ElementSpec spec, std::vector<Element> elements);

/// The elements, which a file of that name, in the server's folder, has once an iterator has come
/// to their end.
std::shared_ptr<Dataset> FileCachedDataset(DatasetPtr input, std::string name);

}  // namespace formwork
