#include "core/plan/fusion.h"

namespace formwork {

std::vector<FusionUnit> PlanFusion(const Graph& graph) {
  std::vector<FusionUnit> units(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) units[i].nodes = {static_cast<int32_t>(i)};
  return units;
}

absl::StatusOr<std::optional<FusedStep>> MakeFusedStep(const Graph&, const FusionUnit&,
                                                       const KernelRegistry&) {
  return std::nullopt;
}

}  // namespace formwork
