#include "core/graph/passes/pipeline.h"

#include "core/base/status.h"
#include "core/kernels/gemm/panel_product.h"

namespace formwork {

absl::Status RunPasses(Graph& graph, const std::vector<PartialShape>& arg_shapes,
                       const PassContext& context) {
  InlineCalls(graph, context);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  Prune(graph);
  if (context.regions != nullptr) DivideIntoRegions(graph, *context.regions);
  FORMWORK_RETURN_IF_ERROR(Simplify(graph, arg_shapes, context));
  Prune(graph);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  if (context.device_kernels != nullptr && PredicateBranches(graph, context)) {
    FORMWORK_RETURN_IF_ERROR(Simplify(graph, arg_shapes, context));
    Prune(graph);
  }
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  if (context.Runs("_MklLayerNorm")) FuseLayerNorms(graph, context);
  FuseAttention(graph, context);
  FuseEpilogues(graph, context);
  if (UsesOfPanels().gates && context.Runs("_GateMatMul")) {  // Else nothing is won.
    Prune(graph);
    FuseGates(graph, context);
  }
  FuseReluGradients(graph);
  JoinElements(graph, context);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  Prune(graph);
  return WorkStatus();
}

}  // namespace formwork
