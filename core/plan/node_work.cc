#include "core/plan/node_work.h"

#include <algorithm>
#include <vector>

#include "core/ops/work.h"

namespace formwork {
namespace {

// A loop whose number of iterations nobody knows is taken for so many.
constexpr double kIterations = 16;

double WorkOf(const Graph& graph) {
  double work = 0;
  for (const Node& node : graph.nodes) work += WorkOf(graph, node);
  return work;
}

}  // namespace

double WorkOf(const Graph& graph, const Node& node) {
  if (node.kind != NodeKind::kOp) return 0;
  // These share what they read.
  if (node.op->loads_variable || node.op->forwards_inputs) {
    return EstimateWork(node.op->name, {}, {});
  }
  if (node.bodies.empty()) {
    std::vector<PartialShape> inputs;
    for (const Edge& edge : node.inputs) inputs.push_back(graph.shape(edge));
    return EstimateWork(node.op->name, inputs, node.output_shapes);
  }
  double all = 0;
  double most = 0;
  for (const Graph& body : node.bodies) {
    const double work = WorkOf(body);
    all += work;
    most = std::max(most, work);
  }
  return node.op->control_flow == ControlFlow::kWhile ? kIterations * all : most;
}

}  // namespace formwork
