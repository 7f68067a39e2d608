#pragma once

// What importing, passes and planning need, for tests of one thread.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/device/host_allocator.h"
#include "core/graph/import.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/register_ops.h"
#include "tests/support/graph_text.h"

namespace formwork::testing {

class GraphWorld {
 public:
  GraphWorld() {
    RegisterOps(ops);
    RegisterCpuKernels(kernels);
  }

  /// Of a text (graph_text.h). `feeds`: tensors of the graph with their dtypes. `distinct`: as
  /// Cut's.
  absl::StatusOr<ImportedGraph> Import(absl::string_view text,
                                       std::vector<std::pair<std::string, DType>> feeds,
                                       std::vector<std::string> fetches,
                                       std::vector<std::string> targets = {},
                                       std::vector<bool> distinct = {}) {
    FORMWORK_ASSIGN_OR_RETURN(tf::GraphDef graph_def, ParseGraph(text));
    culprits.clear();
    const Cut cut = {std::move(feeds), std::move(fetches), std::move(targets), std::move(distinct)};
    return ImportGraph(graph_def, cut, ops, allocator, &culprits);
  }

  HostAllocator allocator;
  OpRegistry ops;
  KernelRegistry kernels{ops};
  std::vector<std::string> culprits;  ///< Of the latest import.
};

}  // namespace formwork::testing
