// Feeds bytes, as a graph and as a SavedModel, to the importer, the passes (constant folding runs
// kernels) and the planner.

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/base/memory_budget.h"
#include "core/base/status.h"
#include "core/device/host_allocator.h"
#include "core/graph/import.h"
#include "core/graph/saved_model.h"
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

World& TheWorld() {
  static World* const world = new World;
  return *world;
}

// As the engine does it.
void Plan(const tf::GraphDef& graph_def, const Cut& cut) {
  World& world = TheWorld();
  HoldToBudget(world.budget, [&]() -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ImportedGraph imported,
                              ImportGraph(graph_def, cut, world.ops, world.allocator, nullptr));
    PlannerContext context{world.ops, world.kernels, world.allocator};
    const std::vector<PartialShape> shapes(cut.feeds.size());
    FORMWORK_RETURN_IF_ERROR(MakePlan(imported, shapes, context).status());
    context.relaxed = true;
    return MakePlan(imported, shapes, context).status();
  }).IgnoreError();
}

void Import(absl::string_view bytes) {
  tf::GraphDef graph_def;
  if (!ParseGraphDef(bytes, graph_def).ok()) return;
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
  Plan(graph_def, cut);
}

// Some bytes are both a GraphDef and this.
void ImportSavedModel(absl::string_view bytes) {
  constexpr size_t kMostSignatures = 4;
  const absl::StatusOr<SavedModel> model = ParseSavedModel(bytes, {}, "m@1", TheWorld().ops);
  tf::GraphDef graph_def;
  if (!model.ok() || !ParseGraphDef(model->graph_def, graph_def).ok()) return;
  Cut start;
  start.feeds.emplace_back(model->restored_prefix, DType::kString);
  for (const SavedModel::Asset& asset : model->assets) {
    start.feeds.emplace_back(asset.tensor, DType::kString);
  }
  start.targets = {model->restore, model->initialize};
  Plan(graph_def, start);
  for (size_t i = 0; i < std::min(model->signatures.size(), kMostSignatures); ++i) {
    const SavedModel::Signature& signature = model->signatures[i];
    Cut cut;
    for (const auto& input : signature.inputs) {
      cut.feeds.emplace_back(input.tensor.name, input.tensor.dtype);
    }
    for (const auto& output : signature.outputs) cut.fetches.push_back(output.tensor.name);
    Plan(graph_def, cut);
  }
}

}  // namespace
}  // namespace formwork

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  formwork::Import(bytes);
  formwork::ImportSavedModel(bytes);
  return 0;
}
