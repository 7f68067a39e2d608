// Feeds bytes to the importer, the passes (constant folding runs kernels) and the planner.

#include <google/protobuf/stubs/logging.h>

#include <cstddef>
#include <cstdint>

#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "core/device/host_allocator.h"
#include "core/graph/import.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/register_ops.h"
#include "core/plan/planner.h"
#include "core/runtime/executor.h"

namespace formwork {
namespace {

struct World {
  World() {
    RegisterOps(ops);
    RegisterCpuKernels(kernels);
    google::protobuf::SetLogHandler(nullptr);  // It has a line for every name that is no UTF-8.
  }
  MemoryBudget budget{size_t{1} << 30};
  HostAllocator allocator{&budget};
  OpRegistry ops;
  KernelRegistry kernels{ops};
};

void Import(const uint8_t* data, size_t size) {
  static World* const world = new World;
  tf::GraphDef graph_def;
  if (!ParseGraphDef({reinterpret_cast<const char*>(data), size}, graph_def).ok()) return;
  Cut cut;
  for (const tf::NodeDef& node : graph_def.node()) {
    if (cut.targets.size() == 64) break;
    cut.targets.push_back(node.name());
    if (cut.fetches.size() < 8) cut.fetches.push_back(node.name());
    if (node.op() == "Placeholder" && cut.feeds.size() < 8) {
      auto dtype = node.attr().find("dtype");
      if (dtype != node.attr().end()) {
        cut.feeds.emplace_back(node.name(), static_cast<DType>(dtype->second.type()));
      }
    }
  }
  // As the engine does it.
  HoldToBudget(world->budget, [&]() -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ImportedGraph imported,
                              ImportGraph(graph_def, cut, world->ops, world->allocator, nullptr));
    PlannerContext context{world->ops, world->kernels, world->allocator};
    const std::vector<PartialShape> shapes(cut.feeds.size());
    FORMWORK_RETURN_IF_ERROR(MakePlan(imported, shapes, context).status());
    context.relaxed = true;
    return MakePlan(imported, shapes, context).status();
  }).IgnoreError();
}

}  // namespace
}  // namespace formwork

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  formwork::Import(data, size);
  return 0;
}
